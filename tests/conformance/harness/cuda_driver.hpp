// Calls of the CUDA driver for tests that must look past the device contract. They are found in the library
// that is loaded already: these files are compiled without CUDA headers, also where there is no toolkit.
#pragma once

#include "saeta/device/handles.hpp"

namespace saeta::conformance {

/// @throws error device if the driver is not installed or lacks the call.
void* cuda_driver_symbol(const char* name);

/// `Function` is the type of a pointer to the call.
template <class Function>
Function cuda_driver_call(const char* name) {
  return reinterpret_cast<Function>(cuda_driver_symbol(name));
}

/// Makes the context of a stream current, that of device 0 for a default stream. The driver needs one, and
/// the backend leaves none behind.
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
