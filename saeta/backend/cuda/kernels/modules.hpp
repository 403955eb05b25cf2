// Loads the machine code of the kernels onto a device before any of them is launched.
//
// CUDA loads a kernel at its first launch, and loading may wait for all work on the device ("Lazy Loading" in
// the CUDA C++ Programming Guide). A launch must not do that: it would wait for work of other libraries, and
// deadlock if that work waits for ours. So every file of kernels has a `kernel_module`, and each backend
// loads all of them.
#pragma once

#include <cuda_runtime.h>

namespace saeta::cuda {

/// Represents all kernels of one source file. Constructed while the library is loaded, as objects at
/// namespace scope.
class kernel_module {
public:
  /// @param kernel  any kernel of the file.
  template <class... Parameters>
  explicit kernel_module(void (*kernel)(Parameters...)) noexcept
      : kernel_(reinterpret_cast<const void*>(kernel)), next_(first_) {
    first_ = this;
  }
  kernel_module(const kernel_module&) = delete;
  kernel_module& operator=(const kernel_module&) = delete;

private:
  friend void load_kernels();
  void load() const;

  const void* kernel_;
  const kernel_module* next_;
  static inline constinit const kernel_module* first_ = nullptr;
};

/// Loads every kernel in the current context. Kernels that are already loaded cost almost nothing. Any
/// thread.
/// @throws error device when the driver refuses, for instance because the device has no memory for the code.
void load_kernels();

} // namespace saeta::cuda
