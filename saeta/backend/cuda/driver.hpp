// Calls of the CUDA driver that the runtime lacks, or that take more than twice as long through the runtime
// (stream_*). They are looked up when CUDA is first used.
//
// Owner     The process; the driver is never unloaded.
// Thread    Any.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

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

} // namespace saeta::cuda
