#include "saeta/backend/cuda/driver.hpp"

#include "saeta/backend/cuda/check.hpp"

namespace saeta::cuda {
namespace {

/// Null when the driver lacks this version of the call.
template <class Function>
Function find(const char* name, unsigned version) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &found);
  if (status == cudaErrorInvalidValue) { // the version is newer than the driver
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  check(status, "cudaGetDriverEntryPointByVersion", ": ", name);
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(entry) : nullptr;
}

template <class Function>
Function require(const char* name, unsigned version) {
  const auto function = find<Function>(name, version);
  if (function == nullptr) {
    throw error(errc::device, concat("the NVIDIA driver has no ", name, " of CUDA ", version / 1000, ".",
                                     version % 1000 / 10));
  }
  return function;
}

} // namespace

const driver_calls& driver() {
  static const driver_calls calls{
      .get_error_name = require<PFN_cuGetErrorName_v6000>("cuGetErrorName", 6000),
      .get_error_string = require<PFN_cuGetErrorString_v6000>("cuGetErrorString", 6000),
      .device_get = require<PFN_cuDeviceGet_v2000>("cuDeviceGet", 2000),
      .primary_context_retain = require<PFN_cuDevicePrimaryCtxRetain_v7000>("cuDevicePrimaryCtxRetain", 7000),
      .context_get_current = require<PFN_cuCtxGetCurrent_v4000>("cuCtxGetCurrent", 4000),
      .context_push_current = require<PFN_cuCtxPushCurrent_v4000>("cuCtxPushCurrent", 4000),
      .context_pop_current = require<PFN_cuCtxPopCurrent_v4000>("cuCtxPopCurrent", 4000),
      .exchange_capture_mode =
          require<PFN_cuThreadExchangeStreamCaptureMode_v10010>("cuThreadExchangeStreamCaptureMode", 10010),
      .pointer_get_attribute = require<PFN_cuPointerGetAttribute_v4000>("cuPointerGetAttribute", 4000),
      .pointer_get_attributes = require<PFN_cuPointerGetAttributes_v7000>("cuPointerGetAttributes", 7000),
      .stream_get_id = require<PFN_cuStreamGetId_v12000>("cuStreamGetId", 12000),
      .stream_is_capturing = require<PFN_cuStreamIsCapturing_v10000>("cuStreamIsCapturing", 10000),
      .stream_write_value32 = require<PFN_cuStreamWriteValue32_v11070>("cuStreamWriteValue32", 11070),
      .context_record_event = require<PFN_cuCtxRecordEvent_v12050>("cuCtxRecordEvent", 12050),
      .device_get_name = require<PFN_cuDeviceGetName_v2000>("cuDeviceGetName", 2000),
      .device_get_uuid = require<PFN_cuDeviceGetUuid_v11040>("cuDeviceGetUuid", 11040),
      .device_total_memory = require<PFN_cuDeviceTotalMem_v3020>("cuDeviceTotalMem", 3020),
      .device_get_attribute = require<PFN_cuDeviceGetAttribute_v2000>("cuDeviceGetAttribute", 2000),
      .primary_context_get_state =
          require<PFN_cuDevicePrimaryCtxGetState_v7000>("cuDevicePrimaryCtxGetState", 7000),
      .memory_get_info = require<PFN_cuMemGetInfo_v3020>("cuMemGetInfo", 3020),
      .function_get_module = require<PFN_cuFuncGetModule_v11000>("cuFuncGetModule", 11000),
      .module_get_function_count =
          require<PFN_cuModuleGetFunctionCount_v12040>("cuModuleGetFunctionCount", 12040),
      .module_enumerate_functions =
          require<PFN_cuModuleEnumerateFunctions_v12040>("cuModuleEnumerateFunctions", 12040),
      .function_load = require<PFN_cuFuncLoad_v12040>("cuFuncLoad", 12040),
  };
  return calls;
}

} // namespace saeta::cuda
