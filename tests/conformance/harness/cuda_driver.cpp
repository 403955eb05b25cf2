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

cuda_current_context::cuda_current_context(stream_handle stream) {
  const auto retain = cuda_driver_call<int (*)(void**, int)>("cuDevicePrimaryCtxRetain");
  const auto find = cuda_driver_call<int (*)(void*, void**)>("cuStreamGetCtx");
  const auto push = cuda_driver_call<int (*)(void*)>("cuCtxPushCurrent_v2");
  void* context = nullptr;
  retained_ = stream == legacy_stream || stream == per_thread_stream;
  const int found = retained_ ? retain(&context, 0) : find(reinterpret_cast<void*>(stream), &context);
  if (found != 0 || push(context) != 0) {
    throw error(errc::device, "the CUDA context of a stream can't be made current");
  }
}

cuda_current_context::~cuda_current_context() {
  void* context = nullptr;
  cuda_driver_call<int (*)(void**)>("cuCtxPopCurrent_v2")(&context);
  if (retained_) {
    cuda_driver_call<int (*)(int)>("cuDevicePrimaryCtxRelease_v2")(0);
  }
}

} // namespace saeta::conformance
