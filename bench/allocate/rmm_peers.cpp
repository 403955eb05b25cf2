#include "allocate/peers.hpp"

#if SAETA_BENCH_HAS_RMM
#include <rmm/aligned.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/version_config.hpp>
#endif

namespace saeta::bench {

#if SAETA_BENCH_HAS_RMM
namespace {

template <class Resource>
class rmm_allocator {
public:
  struct block {
    void* pointer;
    std::size_t bytes;
  };

  explicit rmm_allocator(Resource memory) : memory_(std::move(memory)) {}

  block allocate(std::size_t bytes, const thread_stream& on) {
    return {memory_.allocate(native(on), bytes, rmm::CUDA_ALLOCATION_ALIGNMENT), bytes};
  }
  void free(block&& freed, const thread_stream& on) {
    memory_.deallocate(native(on), freed.pointer, freed.bytes, rmm::CUDA_ALLOCATION_ALIGNMENT);
  }

private:
  static ::cuda::stream_ref native(const thread_stream& on) {
    return {reinterpret_cast<cudaStream_t>(on.handle)};
  }

  Resource memory_;
};

template <class Resource>
void add(peer_list& to, const std::string& name, const Resource& memory) {
  to.peers.push_back(std::make_unique<peer_of<rmm_allocator<Resource>>>(name, memory));
  const rmm::mr::limiting_resource_adaptor limited(memory, budget_bytes);
  to.peers.push_back(std::make_unique<peer_of<rmm_allocator<rmm::mr::limiting_resource_adaptor>>>(
      name + ", limited", limited));
}

} // namespace

void add_rmm(peer_list& to) {
  const rmm::mr::cuda_memory_resource driver;
  add(to, "rmm pool", rmm::mr::pool_memory_resource(driver, budget_bytes, budget_bytes));
  add(to, "rmm arena", rmm::mr::arena_memory_resource(driver, budget_bytes));
  to.versions["rmm"] = RMM_VERSION;
}
#else
void add_rmm(peer_list& to) {
  to.missing.emplace_back("rmm: the build has found none (the end of the configuration says why)");
}
#endif

} // namespace saeta::bench
