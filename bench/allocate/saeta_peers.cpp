#include "allocate/peers.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/resource/driver/driver_resources.hpp"

namespace saeta::bench {
namespace {

void give_back(resource& memory, const saeta::block& what, stream_ref stream) {
  if (!memory.deallocate(what, stream)) {
    throw error(errc::device, concat("a block of ", what.bytes, " bytes could not be freed"));
  }
}

class resource_allocator {
public:
  using block = saeta::block;

  explicit resource_allocator(std::shared_ptr<resource> memory) : memory_(std::move(memory)) {}

  block allocate(std::size_t bytes, const thread_stream& on) { return memory_->allocate(bytes, 0, on.ours); }
  void free(block&& freed, const thread_stream& on) { give_back(*memory_, freed, on.ours); }

private:
  std::shared_ptr<resource> memory_;
};

/// The backend's allocation. A free on another stream waits for the allocation, which the driver requires
/// even if the block was never used.
class driver_allocator {
public:
  struct block {
    saeta::block memory;
    stream_ref stream;
  };

  explicit driver_allocator(const std::shared_ptr<backend>& device) : memory_(device) {}

  block allocate(std::size_t bytes, const thread_stream& on) {
    return {memory_.allocate(bytes, 0, on.ours), on.ours};
  }
  void free(block&& freed, const thread_stream& on) {
    if (freed.stream != on.ours) {
      wait(on.ours, mark(freed.stream));
    }
    give_back(memory_, freed.memory, on.ours);
  }

private:
  async_resource memory_;
};

/// Buffers, as users allocate them: with ordering state and an entry in the ledger. A use token records a
/// last use on another stream.
class buffer_allocator {
public:
  struct block {
    buffer bytes;
    std::uint64_t stream_id;
  };

  explicit buffer_allocator(std::shared_ptr<context> ctx) : ctx_(std::move(ctx)) {}

  block allocate(std::size_t bytes, const thread_stream& on) {
    return {buffer::allocate(ctx_, bytes, on.ours, label_), on.ours.id()};
  }
  void free(block&& freed, const thread_stream& on) {
    if (on.ours.id() != freed.stream_id) {
      use_token(on.ours, {writes(freed.bytes)}).finish();
    }
    freed.bytes = {};
  }

private:
  std::shared_ptr<context> ctx_;
  tag label_{"bench"};
};

/// Returns the top of a context's resource stack; the pointer keeps the context alive.
std::shared_ptr<resource> stack_of(const std::shared_ptr<context>& ctx) {
  return {ctx, ctx->memory().top.get()};
}

std::shared_ptr<resource> cache_of(const std::shared_ptr<context>& ctx) {
  return {ctx, ctx->memory().cache.get()};
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
  to.peers.push_back(std::make_unique<peer_of<buffer_allocator>>("saeta buffer", create()));
  const bool on_host = device->device().kind == device_kind::cpu;
  to.peers.push_back(
      std::make_unique<peer_of<driver_allocator>>(on_host ? "aligned new" : "driver pool", device));
}

} // namespace saeta::bench
