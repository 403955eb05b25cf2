#include "allocate/peers.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/driver_resources.hpp"

namespace saeta::bench {
namespace {

class resource_allocator {
public:
  using block = saeta::block;

  explicit resource_allocator(std::shared_ptr<resource> memory) : memory_(std::move(memory)) {}

  block allocate(std::size_t bytes, const thread_stream& on) { return memory_->allocate(bytes, 0, on.ours); }
  void free(block&& what, const thread_stream& on) {
    if (!memory_->deallocate(what, on.ours)) {
      throw error(errc::device, concat("a block of ", what.bytes, " bytes could not be freed"));
    }
  }

private:
  std::shared_ptr<resource> memory_;
};

/// The top of a context's stack, which keeps the context.
std::shared_ptr<resource> stack_of(const std::shared_ptr<context>& where) {
  return {where, where->memory().top.get()};
}

std::shared_ptr<resource> cache_of(const std::shared_ptr<context>& where) {
  return {where, where->memory().cache.get()};
}

} // namespace

void add_saeta(peer_list& to, const std::shared_ptr<backend>& device) {
  using saeta_peer = peer_of<resource_allocator>;
  const auto create = [&] {
    context_options options;
    options.budget = budget_bytes;
    return context::create(device, std::move(options));
  };
  to.peers.push_back(std::make_unique<saeta_peer>("saeta", stack_of(create())));
  to.peers.push_back(std::make_unique<saeta_peer>("saeta, no budget", cache_of(create())));
  const bool on_host = device->device().kind == device_kind::cpu;
  to.peers.push_back(std::make_unique<saeta_peer>(on_host ? "aligned new" : "driver pool",
                                                  std::make_shared<async_resource>(device)));
}

} // namespace saeta::bench
