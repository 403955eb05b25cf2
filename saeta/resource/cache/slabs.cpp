// The slabs of a cache: how many there may be, and how they come and go.
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/resource/cache/detail/store.hpp"

#include <algorithm>

namespace saeta {

std::uint64_t cache_store::limit() const noexcept {
  const std::uint64_t soft = soft_limit_.load(std::memory_order_relaxed);
  return bound_ ? std::min(soft, bound_->limit()) : soft;
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

bool cache_store::hold(std::uint64_t bytes, std::uint64_t most, lock_type& lock) {
  if (bytes > most) {
    return false;
  }
  if (try_hold(bytes, most)) {
    return true;
  }
  const bool locked = lock.owns_lock();
  if (!locked) {
    lock.lock();
  }
  const std::uint64_t held = held_.load(std::memory_order_relaxed);
  const std::uint64_t room = most - std::min(held, most);
  if (trim_slabs(bytes - std::min(room, bytes), lock) != 0) {
    lock.unlock();
    upstream_->trim(); // what went back is the device's, not the pool's
    lock.lock();
  }
  if (!locked) {
    lock.unlock();
  }
  return try_hold(bytes, most);
}

std::size_t cache_store::blocks_of_a_slab(std::size_t size_class) const noexcept {
  if (!classes_.small(size_class)) {
    return 1;
  }
  constexpr std::uint64_t least_slabs =
      8; // that fit into the limit, so that a small budget has room for several classes
  const std::size_t size = classes_.bytes(size_class);
  const std::size_t usual = std::max<std::size_t>(slab_bytes_ / size, 8);
  const std::uint64_t most = std::max<std::uint64_t>(limit() / least_slabs / size, 1);
  return static_cast<std::size_t>(std::min<std::uint64_t>(usual, most));
}

bool cache_store::add_slab(std::size_t size_class, lock_type& lock) {
  const std::size_t size = classes_.bytes(size_class);
  auto made = std::make_unique<cache_slab>();
  made->size_class = size_class;
  made->blocks = blocks_of_a_slab(size_class);
  const std::size_t bytes = made->blocks * size;
  // The first one always has room: the limit may be smaller than a block.
  const std::uint64_t most = std::max<std::uint64_t>(limit(), bytes);
  if (!hold(bytes, most, lock)) {
    return false;
  }
  try {
    made->memory = ask_upstream({.bytes = bytes, .alignment = cache_classes::unit, .label = label_},
                                slabs_from_.ref(), lock);
  } catch (...) {
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    throw;
  }
  held_.fetch_add(made->memory.base_bytes - bytes, std::memory_order_relaxed);
  size_kind& kind = kinds_[size_class];
  try {
    made->ready.add(made->memory.ready);
    kind.slabs.reserve(kind.slabs.size() + 1);
    kind.open.reserve(kind.slabs.capacity());
  } catch (...) {
    if (upstream_->deallocate(made->memory, slabs_from_.ref())) {
      held_.fetch_sub(made->memory.base_bytes, std::memory_order_relaxed);
    }
    throw;
  }
  kind.open.push_back(made.get());
  kind.slabs.push_back(std::move(made));
  return true;
}

block cache_store::ask_upstream(const allocation_request& what, stream_ref stream, lock_type& lock) {
  const auto ask = [&] {
    block made = upstream_->allocate(what, stream);
    upstream_allocations_.fetch_add(1, std::memory_order_relaxed);
    return made;
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

block cache_store::allocate_upstream(const allocation_request& what, stream_ref stream) {
  lock_type lock(mutex_, std::defer_lock);                 // only to give slabs back
  const std::uint64_t bytes = what.bytes + what.alignment; // an alignment beyond the device's own costs bytes
  if (bytes < what.bytes) {
    throw error(errc::overflow, concat("a block of ", what.bytes, " bytes aligned to ", what.alignment));
  }
  const std::uint64_t bound = limit();
  if (!hold(bytes, bound + std::min<std::uint64_t>(slab_bytes_, ~bound), lock)) {
    // The budget has admitted the request, and partly used slabs can't be given back: the promise to the caller counts more.
    held_.fetch_add(bytes, std::memory_order_relaxed);
    beyond_bound_.fetch_add(1, std::memory_order_relaxed);
  }
  try {
    block made = ask_upstream(what, stream, lock);
    held_.fetch_add(made.base_bytes - bytes, std::memory_order_relaxed);
    uncached_.fetch_add(made.base_bytes, std::memory_order_relaxed);
    return made;
  } catch (...) {
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    throw;
  }
}

bool cache_store::deallocate_upstream(const block& what, std::span<const point> after) noexcept {
  if (!upstream_->deallocate(what, after)) {
    return false;
  }
  held_.fetch_sub(what.base_bytes, std::memory_order_relaxed);
  uncached_.fetch_sub(what.base_bytes, std::memory_order_relaxed);
  return true;
}

std::size_t cache_store::trim() {
  std::size_t freed = 0;
  {
    lock_type lock(mutex_);
    freed = trim_slabs(everything, lock);
  }
  return std::max(freed, upstream_->trim()); // what upstream gives back is, in part, what it just got
}

std::size_t cache_store::trim_slabs(std::uint64_t wanted, lock_type& lock) {
  cache_node* all = collect_free();
  std::vector<cache_slab*> leaving;
  try {
    leaving = choose_leaving(all, wanted);
  } catch (...) {
    common_.push_all(all);
    throw;
  }
  common_.push_all(all);
  if (leaving.empty()) {
    return 0;
  }
  lock.unlock();
  std::size_t freed = 0;
  const auto kept = std::partition(leaving.begin(), leaving.end(), [&](const cache_slab* slab) {
    const bool gone = upstream_->deallocate(slab->memory, slab->users.all());
    freed += gone ? slab->memory.base_bytes : 0;
    return gone;
  });
  held_.fetch_sub(freed, std::memory_order_relaxed);
  lock.lock();
  std::for_each(leaving.begin(), kept, [&](const cache_slab* slab) { forget(*slab); });
  std::for_each(kept, leaving.end(), [&](cache_slab* slab) { // as if it were fresh
    slab->leaving = false;
    slab->ready = std::move(slab->users);
    kinds_[slab->size_class].open.push_back(slab);
  });
  return freed;
}

cache_node* cache_store::collect_free() noexcept {
  cache_node* all = nullptr;
  const auto collect = [&](cache_node* list) {
    while (list != nullptr) {
      link(std::exchange(list, next_of(list)), all);
    }
  };
  for (std::size_t c = 0; c < classes_.count(); ++c) {
    collect(common_.take(c));
    for (const auto& shard : shards_) {
      collect(shard->take(c));
    }
  }
  return all;
}

/// Takes slabs without a block in use out of `all` and out of use, the largest blocks first. Everything that may fail comes
/// before the first of them.
std::vector<cache_slab*> cache_store::choose_leaving(cache_node*& all, std::uint64_t wanted) {
  std::vector<cache_slab*> leaving;
  std::size_t slabs = 0;
  for (const size_kind& kind : kinds_) {
    slabs += kind.slabs.size();
    for (const auto& slab : kind.slabs) {
      slab->free = 0;
      slab->users.clear();
      if (slab->carved != slab->blocks) {
        slab->users.add(slab->ready.all());
      }
    }
  }
  leaving.reserve(slabs);
  for (const cache_node* node = all; node != nullptr; node = next_of(node)) {
    cache_slab& home = *node->home;
    ++home.free;
    home.users.add(node->after);
    if (node->others) {
      home.users.add(node->others->all());
    }
  }
  std::uint64_t chosen = 0;
  for (auto kind = kinds_.rbegin(); kind != kinds_.rend() && chosen < wanted; ++kind) {
    for (const auto& slab : kind->slabs) {
      if (slab->leaving || slab->free != slab->carved || chosen >= wanted) {
        continue;
      }
      const bool unused = std::ranges::all_of(slab->users.all(), known_to_have_passed);
      if (!unused && upstream_->order(slab->memory) == release_order::when_complete) {
        continue; // upstream would wait for the device
      }
      slab->leaving = true;
      slab->carved = 0;
      chosen += slab->memory.base_bytes;
      leaving.push_back(slab.get());
    }
    std::erase_if(kind->open, [](const cache_slab* slab) { return slab->leaving; });
  }
  cache_node* staying = nullptr;
  while (all != nullptr) {
    cache_node* const node = std::exchange(all, next_of(all));
    if (node->home->leaving) {
      node->others.reset();
      link(node, spare_);
      ++spares_;
    } else {
      link(node, staying);
    }
  }
  all = staying;
  return leaving;
}

void cache_store::forget(const cache_slab& gone) {
  std::erase_if(kinds_[gone.size_class].slabs, [&](const auto& slab) { return slab.get() == &gone; });
}

} // namespace saeta
