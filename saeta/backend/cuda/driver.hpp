// Calls of the CUDA driver that the runtime lacks, or that take more than twice as long through the runtime
// (stream_*). They are looked up when CUDA is first used.
//
// Owner     The process; the driver is never unloaded.
// Thread    Any.

#pragma once

#include "saeta/base/source_location.hpp"
#include "saeta/base/text.hpp"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

namespace saeta::cuda {

struct driver_calls {
  PFN_cuGetErrorName_v6000 get_error_name;
  PFN_cuGetErrorString_v6000 get_error_string;
  PFN_cuDeviceGet_v2000 device_get;
  PFN_cuDevicePrimaryCtxRetain_v7000 primary_context_retain;
  PFN_cuCtxGetCurrent_v4000 context_get_current;
  PFN_cuCtxPushCurrent_v4000 context_push_current;
  PFN_cuCtxPopCurrent_v4000 context_pop_current;
  PFN_cuThreadExchangeStreamCaptureMode_v10010 exchange_capture_mode;
  PFN_cuPointerGetAttribute_v4000 pointer_get_attribute;
  PFN_cuPointerGetAttributes_v7000 pointer_get_attributes;
  PFN_cuStreamGetId_v12000 stream_get_id;
  PFN_cuStreamIsCapturing_v10000 stream_is_capturing;
  PFN_cuStreamWriteValue32_v11070 stream_write_value32;
  PFN_cuCtxRecordEvent_v12050 context_record_event;
  PFN_cuDeviceGetName_v2000 device_get_name;
  PFN_cuDeviceGetUuid_v11040 device_get_uuid;
  PFN_cuDeviceTotalMem_v3020 device_total_memory;
  PFN_cuDeviceGetAttribute_v2000 device_get_attribute;
  PFN_cuDevicePrimaryCtxGetState_v7000 primary_context_get_state;
  PFN_cuMemGetInfo_v3020 memory_get_info;
  PFN_cuFuncGetModule_v11000 function_get_module;
  PFN_cuModuleGetFunctionCount_v12040 module_get_function_count;
  PFN_cuModuleEnumerateFunctions_v12040 module_enumerate_functions;
  PFN_cuFuncLoad_v12040 function_load;
};

/// @throws error device when there is no driver or it lacks a call.
const driver_calls& driver();

// Turns status codes of CUDA's runtime and driver into errors of Saeta.
//
// Thread    Any. A failure is cleared from the thread's last error, so that it is not reported again by a
//           later call. An error that has broken the context stays, as CUDA defines it.

/// The checked call and its source location.
struct call_site {
  // Implicit, so that callers write check(cudaFree(p), "cudaFree").
  call_site(const char* called, source_location at = source_location::current()) : name(called), where(at) {}

  const char* name;
  source_location where;
};

/// "cudaErrorInvalidValue (1): invalid argument"
std::string describe(cudaError_t status);
std::string describe(CUresult status);

/// @throws error out_of_memory, device_lost for an error that has broken the context, or device:
/// "<call><detail> failed: <status>".
[[noreturn]] void raise(cudaError_t status, const call_site& call, const std::string& detail);
[[noreturn]] void raise(CUresult status, const call_site& call, const std::string& detail);

/// Throws unless `status` is success. On failure, the parts of `detail` are joined and follow the call's name
/// in the message.
template <class Status, class... Parts>
void check(Status status, const call_site& call, const Parts&... detail) {
  if (status != Status{}) {
    raise(status, call, concat("", detail...));
  }
}

/// For callers that can't throw: reports a failure and returns whether the call succeeded. A call made after
/// the runtime was unloaded at the end of the process counts as a success: the context has already freed its
/// resources.
[[nodiscard]] bool check_or_report(cudaError_t status, const call_site& call) noexcept;

/// True for the statuses that only mean that the process is ending or that the context is gone.
bool shutting_down(cudaError_t status) noexcept;
bool shutting_down(CUresult status) noexcept;

} // namespace saeta::cuda
