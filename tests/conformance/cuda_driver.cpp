#include "conformance/cuda_driver.hpp"

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

} // namespace saeta::conformance
