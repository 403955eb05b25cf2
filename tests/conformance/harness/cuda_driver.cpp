#include "conformance/harness/cuda_driver.hpp"

#include "saeta/base/text.hpp"

#include <dlfcn.h>

namespace saeta::conformance {

void* cuda_driver_symbol(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library == nullptr ? nullptr : dlsym(library, name);
  if (symbol == nullptr) {
    throw error(errc::device, concat("the CUDA driver has no ", name));
  }
  return symbol;
}

cuda_current_context::cuda_current_context() {
  const auto retain = cuda_driver_call<int (*)(void**, int)>("cuDevicePrimaryCtxRetain");
  const auto push = cuda_driver_call<int (*)(void*)>("cuCtxPushCurrent_v2");
  void* context = nullptr;
  if (retain(&context, 0) != 0 || push(context) != 0) {
    throw error(errc::device, "the primary context of CUDA device 0 can't be made current");
  }
}

cuda_current_context::~cuda_current_context() {
  void* context = nullptr;
  cuda_driver_call<int (*)(void**)>("cuCtxPopCurrent_v2")(&context);
  cuda_driver_call<int (*)(int)>("cuDevicePrimaryCtxRelease_v2")(0);
}

} // namespace saeta::conformance
