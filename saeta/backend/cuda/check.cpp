#include "saeta/backend/cuda/check.hpp"

#include "saeta/backend/cuda/driver.hpp"
#include "saeta/base/report.hpp"

namespace saeta::cuda {

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
  const errc code = status == cudaErrorMemoryAllocation ? errc::out_of_memory : errc::device;
  throw error(code, concat(call.name, detail, " failed: ", describe(status)), call.where);
}

void raise(CUresult status, const call_site& call, const std::string& detail) {
  const errc code = status == CUDA_ERROR_OUT_OF_MEMORY ? errc::out_of_memory : errc::device;
  throw error(code, concat(call.name, detail, " failed: ", describe(status)), call.where);
}

bool settled(cudaError_t status, const call_site& call) noexcept {
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
