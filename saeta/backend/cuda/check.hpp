// Status codes of CUDA as errors of Saeta, for the runtime's calls and the driver's alike.
//
// Thread    Any. A failure is taken off the thread's last error, so that no later call is blamed for it; an error that
//           has broken the context stays broken, as CUDA wants it.
#pragma once

#include "saeta/base/text.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <source_location>
#include <string>
#include <string_view>

namespace saeta::cuda {

/// The call that is checked, and where it stands.
struct call_site {
  // Implicit: a check reads check(cudaFree(p), "cudaFree").
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

/// Throws unless `status` is success. The parts of `detail` are joined behind the call's name, only on failure.
template <class Status, class... Parts>
void check(Status status, const call_site& call, const Parts&... detail) {
  if (status != Status{}) {
    raise(status, call, concat("", detail...));
  }
}

/// For what can't throw: reports a failure and returns whether the call succeeded. A call that comes after the runtime
/// was unloaded at the end of the process counts as a success: what it would give back has gone with the context.
[[nodiscard]] bool settled(cudaError_t status, const call_site& call) noexcept;

/// True for "the process is ending", which is nobody's failure.
bool shutting_down(cudaError_t status) noexcept;
bool shutting_down(CUresult status) noexcept;

} // namespace saeta::cuda
