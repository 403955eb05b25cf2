#include "saeta/backend/cuda/driver.hpp"
#include "saeta/backend/cuda/kernels/modules.hpp"

#include <vector>

namespace saeta::cuda {

void kernel_module::load() const {
  const driver_calls& calls = driver();
  cudaFunction_t known = nullptr;
  check(cudaGetFuncBySymbol(&known, kernel_), "cudaGetFuncBySymbol");
  CUmodule module = nullptr;
  check(calls.function_get_module(&module, known), "cuFuncGetModule");
  unsigned count = 0;
  check(calls.module_get_function_count(&count, module), "cuModuleGetFunctionCount");
  std::vector<CUfunction> functions(count);
  check(calls.module_enumerate_functions(functions.data(), count, module), "cuModuleEnumerateFunctions");
  for (CUfunction function : functions) {
    check(calls.function_load(function), "cuFuncLoad");
  }
}

void load_kernels() {
  for (const kernel_module* entry = kernel_module::first_; entry != nullptr; entry = entry->next_) {
    entry->load();
  }
}

} // namespace saeta::cuda
