#include "saeta/backend/cuda/driver.hpp"

#include "saeta/base/report.hpp"

namespace saeta::cuda {
namespace {

/// Null when the driver lacks this version of the call.
template <class Function>
Function find(const char* name, unsigned version) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &result);
  if (status == cudaErrorInvalidValue) { // the version is newer than the driver
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  check(status, "cudaGetDriverEntryPointByVersion", ": ", name);
  return result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(entry) : nullptr;
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

namespace {

/// The errors after which "any further CUDA work will return the same error", in the words of CUDA's headers.
/// The runtime and the driver use the same numbers.
bool breaks_the_context(int status) noexcept {
  switch (status) {
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case 226: // cudaErrorContained, since CUDA 12.8
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchTimeout:
  case cudaErrorContextIsDestroyed: // by cudaDeviceReset
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorLaunchFailure:
  case 721: // cudaErrorTensorMemoryLeak, since CUDA 12.8
  case cudaErrorMpsClientTerminated:
  case cudaErrorExternalDevice:
    return true;
  default:
    return false;
  }
}

static_assert(int{cudaErrorIllegalAddress} == int{CUDA_ERROR_ILLEGAL_ADDRESS} &&
                  int{cudaErrorLaunchFailure} == int{CUDA_ERROR_LAUNCH_FAILED} &&
                  int{cudaErrorContextIsDestroyed} == int{CUDA_ERROR_CONTEXT_IS_DESTROYED} &&
                  int{cudaErrorECCUncorrectable} == int{CUDA_ERROR_ECC_UNCORRECTABLE} &&
                  int{cudaErrorExternalDevice} == int{CUDA_ERROR_EXTERNAL_DEVICE},
              "breaks_the_context() takes both kinds of codes");

errc code_of(int status) noexcept {
  if (status == cudaErrorMemoryAllocation) {
    return errc::out_of_memory;
  }
  return breaks_the_context(status) ? errc::device_lost : errc::device;
}

static_assert(int{cudaErrorMemoryAllocation} == int{CUDA_ERROR_OUT_OF_MEMORY});

} // namespace

static_assert(cudaSuccess == cudaError_t{} && CUDA_SUCCESS == CUresult{},
              "check() takes the zero value for success");

std::string describe(cudaError_t status) {
  return concat(cudaGetErrorName(status), " (", static_cast<int>(status), "): ", cudaGetErrorString(status));
}

std::string describe(CUresult status) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver().get_error_name(status, &name);
  driver().get_error_string(status, &text);
  return concat(name == nullptr ? "CUDA_ERROR" : name, " (", static_cast<int>(status),
                "): ", text == nullptr ? "not known to this driver" : text);
}

void raise(cudaError_t status, const call_site& call, const std::string& detail) {
  static_cast<void>(cudaGetLastError());
  throw error(code_of(status), concat(call.name, detail, " failed: ", describe(status)), call.where);
}

void raise(CUresult status, const call_site& call, const std::string& detail) {
  throw error(code_of(status), concat(call.name, detail, " failed: ", describe(status)), call.where);
}

bool check_or_report(cudaError_t status, const call_site& call) noexcept {
  if (status == cudaSuccess || shutting_down(status)) {
    return true;
  }
  static_cast<void>(cudaGetLastError());
  try {
    report(call.name, describe(status));
  } catch (...) {
    report(call.name, cudaGetErrorString(status));
  }
  return false;
}

bool shutting_down(cudaError_t status) noexcept {
  return status == cudaErrorCudartUnloading || status == cudaErrorContextIsDestroyed;
}

bool shutting_down(CUresult status) noexcept {
  return status == CUDA_ERROR_DEINITIALIZED || status == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

} // namespace saeta::cuda
