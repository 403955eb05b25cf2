#include "saeta/resource/decorators/statistics_resource.hpp"

#include "saeta/base/thread_number.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace saeta {
namespace {

using counter = std::atomic<std::uint64_t>;

/// The counts of the threads whose numbers have the same remainder, on their own cache lines.
struct alignas(128) shard {
  counter allocations{0};
  counter frees{0};
  counter failed_allocations{0};
  counter failed_frees{0};
  counter allocated_bytes{0};
  counter freed_bytes{0};
  counter largest{0};
};

void raise(counter& highest, std::uint64_t value) noexcept {
  std::uint64_t seen = highest.load(std::memory_order_relaxed);
  while (seen < value && !highest.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void add(counter& to, std::uint64_t value) noexcept { to.fetch_add(value, std::memory_order_relaxed); }

} // namespace

struct SAETA_LOCAL statistics_resource::shards {
  std::array<shard, 64> all;

  shard& own_shard() noexcept { return all[thread_number() % all.size()]; }
};

statistics_resource::statistics_resource(std::shared_ptr<resource> upstream)
    : decorator(std::move(upstream)), shards_(std::make_unique<shards>()) {}

statistics_resource::~statistics_resource() = default;

block statistics_resource::do_allocate(const allocation_request& request, const stream_ref& stream) {
  shard& mine = shards_->own_shard();
  try {
    const block block = upstream().allocate(request, stream);
    add(mine.allocations, 1);
    add(mine.allocated_bytes, block.bytes);
    raise(mine.largest, block.bytes);
    return block;
  } catch (...) {
    add(mine.failed_allocations, 1);
    throw;
  }
}

bool statistics_resource::do_deallocate(const block& returned, std::span<const point> after) noexcept {
  const std::uint64_t bytes = returned.bytes;
  const bool freed = upstream().deallocate(returned, after);
  shard& mine = shards_->own_shard();
  if (freed) { // release: a reader that sees this free also sees its allocation
    mine.frees.fetch_add(1, std::memory_order_release);
    mine.freed_bytes.fetch_add(bytes, std::memory_order_release);
  } else {
    add(mine.failed_frees, 1);
  }
  return freed;
}

resource_statistics statistics_resource::read() const noexcept {
  resource_statistics sum;
  for (const shard& one : shards_->all) { // read frees before allocations, so that `live` is never negative
    sum.frees += one.frees.load(std::memory_order_acquire);
    sum.freed_bytes += one.freed_bytes.load(std::memory_order_acquire);
  }
  for (const shard& one : shards_->all) {
    sum.allocations += one.allocations.load(std::memory_order_relaxed);
    sum.allocated_bytes += one.allocated_bytes.load(std::memory_order_relaxed);
    sum.failed_allocations += one.failed_allocations.load(std::memory_order_relaxed);
    sum.failed_frees += one.failed_frees.load(std::memory_order_relaxed);
    sum.largest = std::max(sum.largest, one.largest.load(std::memory_order_relaxed));
  }
  return sum;
}

} // namespace saeta
