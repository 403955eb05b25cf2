#include "saeta/staging/host_pool.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/pages.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/context.hpp"

#include <algorithm>
#include <bit>

namespace saeta {
namespace {

/// Eight size classes between two powers of two: rounding loses at most an eighth. Blocks are whole pages.
std::size_t class_of(std::size_t bytes) {
  const std::size_t smallest_class = page_bytes();
  const std::size_t step = std::bit_floor(std::max(bytes, smallest_class)) / 8;
  return round_up(round_up(std::max(bytes, smallest_class), step), smallest_class);
}

void* map(std::size_t bytes) {
  void* const result = map_pages(bytes);
  if (result == nullptr) {
    throw error(errc::out_of_memory, concat("host: the system has too little memory for a download of ",
                                            bytes, " bytes (", human_bytes(bytes), ")"));
  }
  return result;
}

/// Holds the pool for the contexts. Blocks may outlive it.
struct pool_service final : context_service {
  explicit pool_service(std::shared_ptr<host_pool> host_pool) : pool(std::move(host_pool)) {}
  ~pool_service() override { pool->trim(); }
  [[nodiscard]] std::uint64_t host_bytes() const noexcept override { return pool->held_bytes(); }
  std::size_t trim() noexcept override { return pool->trim(); }
  std::shared_ptr<host_pool> pool;
};

} // namespace

std::shared_ptr<host_pool> host_pool_of(const std::shared_ptr<context>& ctx) {
  require_argument(ctx, "ctx");
  return ctx->services()
      .of<pool_service>([&] {
        return std::make_unique<pool_service>(
            std::make_shared<host_pool>(ctx->pinned_budget(), ctx->options().host_cache.value_or(0)));
      })
      .pool;
}

landing_block landing_memory(const std::shared_ptr<context>& ctx, std::size_t bytes) {
  require_argument(ctx, "ctx");
  return host_pool_of(ctx)->take(bytes, ctx->charge_host(bytes, tag("download")));
}

host_pool::~host_pool() { trim(); }

landing_block host_pool::take(std::size_t bytes, std::shared_ptr<void> charge) {
  if (made_in_ != fork_generation()) {
    throw error(errc::device, "memory for a download: the pool belongs to the parent of this forked process");
  }
  const std::size_t of_class = class_of(bytes);
  blocks taken = find(of_class);
  const bool fresh = taken.empty();
  if (fresh) {
    taken = map_new(of_class);
  }
  auto* const memory = static_cast<std::byte*>(taken.front().memory);
  // The deleter carries the block in its list node, so that returning it allocates nothing.
  auto back = [pool = shared_from_this(), taken = std::move(taken),
               charge = std::move(charge)](std::byte*) mutable {
    pool->give_back(taken);
    charge.reset();
  };
  return {{memory, std::move(back)}, fresh};
}

host_pool::blocks host_pool::find(std::size_t bytes) {
  blocks taken;
  const std::lock_guard lock(mutex_);
  const auto match = std::ranges::find(kept_, bytes, &block::bytes);
  if (match != kept_.end()) {
    taken.splice(taken.begin(), kept_, match);
    kept_bytes_ -= bytes;
  }
  return taken;
}

host_pool::blocks host_pool::map_new(std::size_t bytes) {
  blocks taken;
  blocks in_the_way;
  {
    const std::lock_guard lock(mutex_);
    if (held_ + bytes > limit_->limit()) {
      in_the_way = take_oldest(0);
    }
    held_ += bytes;
  }
  unmap(in_the_way);
  try {
    taken.push_back({nullptr, bytes});
    taken.back().memory = map(bytes);
  } catch (...) {
    held_ -= bytes;
    throw;
  }
  return taken;
}

void host_pool::give_back(blocks& returned) noexcept {
  if (made_in_ != fork_generation()) {
    return;
  }
  blocks surplus;
  {
    const std::lock_guard lock(mutex_);
    kept_bytes_ += returned.front().bytes;
    kept_.splice(kept_.begin(), returned);
    surplus = take_oldest(most_kept_);
  }
  unmap(surplus);
}

host_pool::blocks host_pool::take_oldest(std::uint64_t most) noexcept {
  blocks taken;
  while (kept_bytes_ > most) {
    kept_bytes_ -= kept_.back().bytes;
    held_ -= kept_.back().bytes;
    taken.splice(taken.begin(), kept_, std::prev(kept_.end()));
  }
  return taken;
}

std::size_t host_pool::trim() noexcept {
  if (made_in_ != fork_generation()) {
    return 0;
  }
  blocks all;
  {
    const std::lock_guard lock(mutex_);
    all = take_oldest(0);
  }
  return unmap(all);
}

std::size_t host_pool::unmap(const blocks& gone) noexcept {
  std::size_t freed = 0;
  for (const block& block : gone) {
    unmap_pages(block.memory, block.bytes);
    freed += block.bytes;
  }
  return freed;
}

} // namespace saeta
