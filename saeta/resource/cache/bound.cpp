// The bytes that a cache holds. They are counted before they are allocated, to stay within the limit.
#include "saeta/base/checked.hpp"
#include "saeta/resource/cache/store.hpp"

#include <algorithm>

namespace saeta {
namespace {

/// Bytes to hold for a request. An alignment beyond the device's own costs bytes. @throws error overflow.
std::uint64_t bytes_upstream(const allocation_request& request) {
  return checked_add(request.bytes, request.alignment, "block with its alignment");
}

} // namespace

std::uint64_t cache_store::limit() const noexcept {
  const std::uint64_t soft = soft_limit_.load(std::memory_order_relaxed);
  return bound_ ? std::min(soft, bound_->limit()) : soft;
}

std::uint64_t cache_store::limit_with_slab() const noexcept {
  const std::uint64_t most = limit();
  return most + std::min<std::uint64_t>(slab_bytes_, ~most);
}

bool cache_store::try_hold(std::uint64_t bytes, std::uint64_t most) noexcept {
  std::uint64_t now = held_.load(std::memory_order_relaxed);
  do {
    if (bytes > most || now > most - bytes) {
      return false;
    }
  } while (!held_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  return true;
}

bool cache_store::hold(std::uint64_t bytes, std::uint64_t most, collecting how, lock_type& lock) {
  if (try_hold(bytes, most)) {
    return true;
  }
  const bool locked = lock.owns_lock();
  if (!locked) {
    lock.lock();
  }
  const std::uint64_t unused = unused_bytes();
  if (how == collecting::always || unused >= promising_) {
    const std::uint64_t held = held_.load(std::memory_order_relaxed);
    const std::uint64_t others = most - std::min(bytes, most); // bytes that may be held in addition
    if (trim_slabs(held - std::min(others, held), lock) != 0) {
      promising_ = 0;
      lock.unlock();
      upstream_->trim(); // moves the returned bytes from the driver's pool to the device
      lock.lock();
    } else {
      promising_ = unused + std::min(slab_bytes_, bytes);
    }
  } else {
    promising_ = std::min(promising_, unused + std::min(slab_bytes_, bytes));
  }
  if (!locked) {
    lock.unlock();
  }
  return try_hold(bytes, most);
}

std::uint64_t cache_store::unused_bytes() const noexcept {
  std::uint64_t used = uncached_.load(std::memory_order_relaxed);
  for (const auto& shard : shards_) {
    used += shard->in_use();
  }
  const std::uint64_t held = held_.load(std::memory_order_relaxed);
  return held - std::min(used, held); // the two are not read at the same instant
}

std::optional<block> cache_store::allocate_within(const allocation_request& request,
                                                  const stream_ref& stream) {
  lock_type lock(mutex_, std::defer_lock); // taken only to return slabs
  const std::uint64_t bytes = bytes_upstream(request);
  if (!hold(bytes, limit_with_slab(), collecting::if_promising, lock)) {
    return std::nullopt;
  }
  return allocate_held(request, stream, bytes, lock);
}

block cache_store::allocate_upstream(const allocation_request& request, const stream_ref& stream) {
  lock_type lock(mutex_, std::defer_lock);
  const std::uint64_t bytes = bytes_upstream(request);
  if (!hold(bytes, limit_with_slab(), collecting::always, lock)) {
    // The budget has admitted the request, and partly used slabs can't be returned: serve it anyway.
    held_.fetch_add(bytes, std::memory_order_relaxed);
    beyond_bound_.fetch_add(1, std::memory_order_relaxed);
  }
  return allocate_held(request, stream, bytes, lock);
}

block cache_store::allocate_held(const allocation_request& request, const stream_ref& stream,
                                 std::uint64_t bytes, lock_type& lock) {
  try {
    block block = ask_upstream(request, stream, lock);
    held_.fetch_add(block.base_bytes - bytes, std::memory_order_relaxed);
    uncached_.fetch_add(block.base_bytes, std::memory_order_relaxed);
    return block;
  } catch (...) {
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    throw;
  }
}

block cache_store::ask_upstream(const allocation_request& request, const stream_ref& stream,
                                lock_type& lock) {
  const auto ask = [&] {
    block block = upstream_->allocate(request, stream);
    upstream_allocations_.fetch_add(1, std::memory_order_relaxed);
    return block;
  };
  try {
    return ask();
  } catch (const error& refused) {
    if (refused.code() != errc::out_of_memory) {
      throw;
    }
    const bool locked = lock.owns_lock();
    if (!locked) {
      lock.lock();
    }
    const std::size_t freed = trim_slabs(everything, lock);
    lock.unlock();
    const std::size_t trimmed = upstream_->trim();
    if (locked) {
      lock.lock();
    }
    if (freed == 0 && trimmed == 0) {
      throw;
    }
  }
  return ask();
}

bool cache_store::deallocate_upstream(const block& freed, std::span<const point> after) noexcept {
  if (!upstream_->deallocate(freed, after)) {
    return false;
  }
  held_.fetch_sub(freed.base_bytes, std::memory_order_relaxed);
  uncached_.fetch_sub(freed.base_bytes, std::memory_order_relaxed);
  return true;
}

} // namespace saeta
