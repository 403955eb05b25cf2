// Turns status codes of CUDA's runtime and driver into errors of Saeta.
//
// Thread    Any. A failure is cleared from the thread's last error, so that it is not reported again by a
//           later call. An error that has broken the context stays, as CUDA defines it.
#pragma once

#include "saeta/base/text.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <source_location>
#include <string>
#include <string_view>

namespace saeta::cuda {

/// The checked call and its source location.
struct call_site {
  // Implicit, so that callers write check(cudaFree(p), "cudaFree").
  call_site(const char* called, std::source_location at = std::source_location::current())
      : name(called), where(at) {}

  const char* name;
  std::source_location where;
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
