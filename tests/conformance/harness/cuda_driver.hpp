// Functions of the CUDA driver API for tests that need more than the backend offers. They are looked up in
// the loaded library at run time, because the tests are compiled without CUDA headers.
#pragma once

#include "saeta/device/handles.hpp"

namespace saeta::conformance {

/// Looks up a function. @throws error device if the driver is not installed or lacks the function
void* cuda_driver_symbol(const char* name);

/// Looks up a function. `Function` is its pointer type.
template <class Function>
Function cuda_driver_call(const char* name) {
  return reinterpret_cast<Function>(cuda_driver_symbol(name));
}

/// Makes the CUDA context of a stream current until the end of the scope; for a default stream that of device
/// 0. The driver API needs a current context, and the backend leaves none behind.
class cuda_current_context {
public:
  explicit cuda_current_context(stream_handle stream = legacy_stream);
  cuda_current_context(const cuda_current_context&) = delete;
  cuda_current_context& operator=(const cuda_current_context&) = delete;
  ~cuda_current_context();

private:
  bool retained_ = false;
};

} // namespace saeta::conformance
