// The slabs of a cache: their sizes, and how they are added and returned.
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/resource/cache/store.hpp"

#include <algorithm>

namespace saeta {
namespace {

// At the limit, free blocks of partly used slabs can't be returned. So a small limit makes small slabs.
constexpr std::uint64_t least_slabs = 512; ///< the limit has room for at least this many slabs
/// Of the first slab of a class; each further slab is twice as large
constexpr std::size_t first_slab_bytes = 64 << 10;

} // namespace

std::size_t cache_store::blocks_of_a_slab(std::size_t size_class) const noexcept {
  if (!classes_.small(size_class)) {
    return 1;
  }
  const std::size_t size = classes_.bytes(size_class);
  const size_kind& kind = kinds_[size_class];
  const std::uint64_t next = kind.slabs.empty() ? first_slab_bytes / size : 2 * kind.slabs.back()->blocks;
  const std::uint64_t usual = std::max<std::uint64_t>(slab_bytes_ / size, 8);
  return static_cast<std::size_t>(
      std::max<std::uint64_t>(std::min({next, usual, limit() / least_slabs / size}), 1));
}

bool cache_store::add_slab(std::size_t size_class, lock_type& lock) {
  const std::size_t size = classes_.bytes(size_class);
  auto slab = std::make_unique<cache_slab>();
  slab->size_class = size_class;
  slab->blocks = blocks_of_a_slab(size_class);
  const std::size_t bytes = slab->blocks * size;
  // The bytes of one slab are always allowed: the limit may be smaller than a block.
  const std::uint64_t most = std::max<std::uint64_t>(limit(), bytes);
  if (!hold(bytes, most, collecting::if_promising, lock)) {
    return false;
  }
  try {
    slab->memory = ask_upstream({.bytes = bytes, .alignment = cache_classes::unit, .label = label_},
                                slabs_from_.ref(), lock);
  } catch (...) {
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    throw;
  }
  held_.fetch_add(slab->memory.base_bytes - bytes, std::memory_order_relaxed);
  size_kind& kind = kinds_[size_class];
  try {
    slab->ready.add(slab->memory.ready);
    kind.slabs.reserve(kind.slabs.size() + 1);
    kind.open.reserve(kind.slabs.capacity());
  } catch (...) {
    if (upstream_->deallocate(slab->memory, slabs_from_.ref())) {
      held_.fetch_sub(slab->memory.base_bytes, std::memory_order_relaxed);
    }
    throw;
  }
  kind.open.push_back(slab.get());
  kind.slabs.push_back(std::move(slab));
  return true;
}

extent cache_store::extent_of(const block& of) const noexcept {
  if (!of.cached) {
    return upstream_->extent_of(of);
  }
  const block& slab = static_cast<const cache_node*>(of.record)->home->memory;
  extent extent = upstream_->extent_of(slab);
  extent.offset += static_cast<std::size_t>(static_cast<const std::byte*>(of.pointer) -
                                            static_cast<const std::byte*>(slab.pointer));
  return extent;
}

extent caching_resource::extent_of(const block& of) const noexcept { return store_->extent_of(of); }

std::size_t cache_store::trim() {
  std::size_t freed = 0;
  {
    lock_type lock(mutex_);
    freed = trim_slabs(everything, lock);
  }
  return std::max(freed, upstream_->trim()); // upstream may count the same bytes, so they are not added up
}

std::size_t cache_store::trim_slabs(std::uint64_t wanted, lock_type& lock) {
  std::vector<cache_slab*> leaving;
  std::size_t slabs = 0;
  for (const size_kind& kind : kinds_) {
    slabs += kind.slabs.size();
  }
  leaving.reserve(slabs);
  std::uint64_t chosen = 0;
  // Large classes first: their blocks have slabs of their own, so fewer lists are taken from the threads.
  for (std::size_t c = classes_.count(); c-- > 0 && chosen < wanted;) {
    chosen += choose_leaving(c, wanted - chosen, leaving);
  }
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
  std::for_each(kept, leaving.end(), [&](cache_slab* slab) { // upstream kept it: treat it as a new slab
    slab->leaving = false;
    slab->ready = std::move(slab->users);
    kinds_[slab->size_class].open.push_back(slab);
  });
  return freed;
}

cache_node* cache_store::collect_free(std::size_t size_class) noexcept {
  cache_node* all = common_.take(size_class);
  for (const auto& shard : shards_) {
    for (cache_node* list = shard->take(size_class); list != nullptr;) {
      link(std::exchange(list, list->next), all);
    }
  }
  return all;
}

void cache_store::count_free(const size_kind& kind, const cache_node* all) {
  for (const auto& slab : kind.slabs) {
    if (slab->leaving) {
      continue; // another thread is returning it, and reads its users without the lock
    }
    slab->free = 0;
    slab->users.clear();
    if (slab->carved != slab->blocks) {
      slab->users.add(slab->ready.all());
    }
  }
  for (const cache_node* node = all; node != nullptr; node = node->next) {
    cache_slab& home = *node->home;
    ++home.free;
    home.users.add(node->after);
    if (node->others) {
      home.users.add(node->others->all());
    }
  }
}

std::uint64_t cache_store::choose_leaving(std::size_t size_class, std::uint64_t wanted,
                                          std::vector<cache_slab*>& leaving) {
  size_kind& kind = kinds_[size_class];
  if (kind.slabs.empty()) {
    return 0;
  }
  cache_node* all = collect_free(size_class);
  try {
    count_free(kind, all);
  } catch (const std::bad_alloc&) { // host memory is short: leave this class as it is
    common_.push_all(all);
    return 0;
  }
  std::uint64_t chosen = 0;
  for (const auto& slab : kind.slabs) {
    if (slab->leaving || slab->free != slab->carved || chosen >= wanted) {
      continue;
    }
    const bool unused = std::ranges::all_of(slab->users.all(), is_known_passed);
    if (!unused && slab->memory.order == release_order::when_complete) {
      continue; // upstream would wait for the device
    }
    slab->leaving = true;
    slab->carved = 0;
    chosen += slab->memory.base_bytes;
    leaving.push_back(slab.get());
  }
  std::erase_if(kind.open, [](const cache_slab* slab) { return slab->leaving; });
  while (all != nullptr) {
    cache_node* const node = std::exchange(all, all->next);
    if (node->home->leaving) {
      link(node, spare_);
      ++spares_;
    } else {
      common_.push(node);
    }
  }
  return chosen;
}

void cache_store::forget(const cache_slab& gone) {
  std::erase_if(kinds_[gone.size_class].slabs, [&](const auto& slab) { return slab.get() == &gone; });
}

} // namespace saeta
