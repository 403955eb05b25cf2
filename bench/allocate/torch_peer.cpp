#include "allocate/peers.hpp"

#if SAETA_BENCH_HAS_TORCH
#include "saeta/base/text.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>
#endif

namespace saeta::bench {

#if SAETA_BENCH_HAS_TORCH
namespace {

namespace torch_cuda = c10::cuda;
namespace torch_memory = c10::cuda::CUDACachingAllocator;

/// Allocates as tensors do: on the current stream of the thread. `recordStream` reports a use on another
/// stream; without it torch would reuse the block before that use has finished.
class torch_allocator {
public:
  struct block {
    at::DataPtr data;
    cudaStream_t stream;
  };

  explicit torch_allocator(c10::DeviceIndex device) : device_(device) {}

  void begin(const thread_stream& own) {
    torch_cuda::set_device(device_);
    torch_cuda::setCurrentCUDAStream(torch_cuda::getStreamFromExternal(native(own), device_));
  }
  block allocate(std::size_t bytes, const thread_stream& on) {
    return {torch_memory::get()->allocate(bytes), native(on)};
  }
  void free(block&& freed, const thread_stream& on) {
    if (native(on) != freed.stream) {
      torch_memory::recordStream(freed.data, torch_cuda::getStreamFromExternal(native(on), device_));
    }
    // Not by the pointer's own deleter, which is noexcept: a driver error would end the program.
    torch_memory::raw_delete(freed.data.release_context());
  }

private:
  static cudaStream_t native(const thread_stream& on) { return reinterpret_cast<cudaStream_t>(on.handle); }

  c10::DeviceIndex device_;
};

} // namespace

void add_torch(peer_list& to, const backend& device) {
  const auto ordinal = static_cast<c10::DeviceIndex>(device.device().ordinal);
  // The allocator calls functions of this library for blocks that two streams have used. Loading it here
  // spares the build from finding it and all its dependencies.
  if (::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    to.missing.emplace_back(concat("torch, crossed: ", ::dlerror()));
  }
  torch_memory::init(torch_cuda::device_count());
  const auto whole = static_cast<double>(device.properties().total_bytes);
  torch_memory::setMemoryFraction(static_cast<double>(budget_bytes) / whole, ordinal);
  to.peers.push_back(std::make_unique<peer_of<torch_allocator>>("torch", ordinal));
  to.versions["torch"] = TORCH_VERSION;
}
#else
void add_torch(peer_list& to, const backend&) {
  to.missing.emplace_back("torch: the build has found none (the end of the configuration says why)");
}
#endif

} // namespace saeta::bench
