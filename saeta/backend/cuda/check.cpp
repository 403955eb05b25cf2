#include "saeta/backend/cuda/check.hpp"

#include "saeta/backend/cuda/driver.hpp"
#include "saeta/base/report.hpp"

namespace saeta::cuda {

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
