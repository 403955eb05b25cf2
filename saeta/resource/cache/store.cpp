#include "saeta/resource/cache/store.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>

namespace saeta {
namespace {

constexpr std::size_t carved_bytes = 64u << 10; ///< bytes of new blocks that a shard gets at a time
constexpr std::size_t most_carved = 64;         ///< the same limit as a number of blocks
constexpr std::size_t most_moved = 16;          ///< common blocks that a shard gets at a time
constexpr unsigned contention_threshold = 8;    ///< contended misses that lead to another slab

std::uint64_t next_cache_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

const caching_options& checked(const caching_options& options) {
  if (options.largest_small < cache_classes::least_small || options.largest_small > options.largest_cached ||
      options.largest_cached > cache_classes::most_cached) {
    throw error(errc::invalid_argument,
                concat("caching_options: expected ", cache_classes::least_small,
                       " <= largest_small <= ", "largest_cached <= ", cache_classes::most_cached, ", not ",
                       options.largest_small, " and ", options.largest_cached));
  }
  return options;
}

} // namespace

cache_store::cache_store(std::shared_ptr<resource> upstream, const std::shared_ptr<backend>& device,
                         caching_options options, std::shared_ptr<const budget> bound)
    : id_(next_cache_id()), classes_(checked(options).largest_small, options.largest_cached),
      slab_bytes_(options.slab), upstream_(std::move(upstream)), bound_(std::move(bound)),
      wait_above_(options.wait_above.value_or(device->properties().total_bytes / 8)),
      soft_limit_(options.soft_limit), slabs_from_(timelines::of(*device)), common_(id_, timeline_id::none),
      kinds_(classes_.count()) {}

cache_store::~cache_store() {
  try {
    trim();
  } catch (...) {
    report_current_exception("caching_resource");
  }
  if (const std::uint64_t left = held_.load(); left != 0) {
    report("caching_resource",
           concat("destroyed with ", left, " bytes that are in use or could not be freed"));
  }
  for (const auto& shard : shards_) {
    shard->orphaned.store(true, std::memory_order_relaxed);
  }
}

std::shared_ptr<cache_shard> cache_store::claim(timeline_id timeline) {
  const lock_type lock(mutex_);
  const auto abandoned = [](const auto& shard) { return !shard->owned.load(std::memory_order_acquire); };
  auto match = std::find_if(shards_.begin(), shards_.end(), [&](const auto& shard) {
    return shard->timeline == timeline && abandoned(shard);
  });
  if (match == shards_.end()) {
    // Reuse any shard without an owner, so that there are no more shards than threads use at once. Its blocks
    // become common.
    match = std::find_if(shards_.begin(), shards_.end(), abandoned);
    if (match == shards_.end()) {
      match = shards_.insert(shards_.end(), std::make_shared<cache_shard>(id_, timeline));
    }
    for (std::size_t c = 0; c < classes_.count(); ++c) {
      common_.push_all((*match)->take(c));
    }
    (*match)->timeline = timeline;
  }
  cache_shard& shard = **match;
  shard.list_stolen = {};
  shard.waited = {};
  shard.owned.store(true, std::memory_order_relaxed);
  return *match;
}

cache_node* cache_store::refill(cache_shard& shard, std::size_t size_class) {
  lock_type lock(mutex_);
  for (;;) {
    if (cache_node* const fresh = carve(shard, size_class)) {
      return fresh;
    }
    if (cache_node* const freed = take_same_timeline(shard, size_class)) {
      return freed;
    }
    if (!is_contended(shard, size_class)) {
      if (cache_node* const ready = take_ready(shard, size_class)) {
        return ready;
      }
      cache_node* const pending = may_grow() ? nullptr : take_pending(shard, size_class);
      if (pending != nullptr) {
        return pending;
      }
    }
    try {
      if (!add_slab(size_class, lock)) {
        return take_pending(shard, size_class);
      }
    } catch (const error& refused) {
      if (refused.code() != errc::out_of_memory) {
        throw;
      }
      if (cache_node* const freed = take_pending(shard, size_class)) {
        return freed;
      }
      throw;
    }
  }
}

cache_node* cache_store::carve(cache_shard& shard, std::size_t size_class) {
  size_kind& kind = kinds_[size_class];
  if (kind.open.empty()) {
    return nullptr;
  }
  cache_slab& slab = *kind.open.back();
  const std::size_t size = classes_.bytes(size_class);
  const std::size_t count =
      std::min(slab.blocks - slab.carved, std::clamp(carved_bytes / size, std::size_t{1}, most_carved));
  reserve_nodes(count);
  cache_node* spare = spare_;
  for (std::size_t i = count; i-- > 0; spare = spare->next) { // may throw; nothing has been taken by then
    spare->pointer = static_cast<std::byte*>(slab.memory.pointer) + (slab.carved + i) * size;
    spare->home = &slab;
    spare->size_class = size_class;
    spare->bytes = size;
    spare->set_users(slab.ready.all(), shard.timeline);
  }
  cache_node* fresh = nullptr;
  for (std::size_t i = count; i-- > 0;) { // the lowest address is handed out first
    cache_node* const node = std::exchange(spare_, spare_->next);
    if (i == 0) {
      fresh = node;
    } else {
      shard.push(node);
    }
  }
  spares_ -= count;
  slab.carved += count;
  if (slab.carved == slab.blocks) {
    kind.open.pop_back();
  }
  return fresh;
}

cache_node* cache_store::take_same_timeline(cache_shard& shard, std::size_t size_class) {
  for (const auto& other : shards_) {
    if (other->timeline != shard.timeline) {
      continue;
    }
    if (cache_node* const freed = other->take(size_class)) {
      other->list_stolen[size_class] = true;
      shard.push_all(freed->next);
      return freed;
    }
  }
  return nullptr;
}

cache_node* cache_store::take_ready(cache_shard& shard, std::size_t size_class) {
  if (cache_node* const ready = take_ready_of(common_, shard, size_class)) {
    return ready;
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    cache_shard& victim = *shards_[next_victim_++ % shards_.size()];
    if (victim.timeline == shard.timeline) {
      continue;
    }
    if (cache_node* const ready = take_ready_of(victim, shard, size_class)) {
      note_theft(victim, size_class);
      return ready;
    }
  }
  return nullptr;
}

cache_node* cache_store::take_ready_of(cache_shard& from, cache_shard& shard, std::size_t size_class) {
  const auto needs_no_wait = [&](const cache_node& node) {
    return !node.others && (node.after.timeline == shard.timeline || is_known_passed(node.after));
  };
  cache_node* pending = nullptr;
  cache_node* ready = nullptr;
  for (std::size_t i = 0; i < most_moved; ++i) {
    cache_node* const node = from.pop(size_class);
    if (node == nullptr) {
      break;
    }
    if (!needs_no_wait(*node)) {
      link(node, pending);
    } else if (ready == nullptr) {
      ready = node;
    } else {
      shard.push(node);
    }
  }
  from.push_all(pending);
  return ready;
}

cache_node* cache_store::take_pending(cache_shard& shard, std::size_t size_class) {
  if (cache_node* const freed = common_.pop(size_class)) {
    return freed;
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    cache_shard& victim = *shards_[next_victim_++ % shards_.size()];
    cache_node* const freed = victim.timeline == shard.timeline ? nullptr : victim.take(size_class);
    if (freed != nullptr) {
      note_theft(victim, size_class);
      shard.push_all(freed->next);
      return freed;
    }
  }
  return nullptr;
}

void cache_store::note_theft(cache_shard& victim, std::size_t size_class) {
  victim.list_stolen[size_class] = true;
  ++steals_;
}

cache_node* cache_store::take_larger(cache_shard& shard, std::size_t size_class) {
  const lock_type lock(mutex_);
  for (std::size_t larger = size_class + 1; larger < classes_.count(); ++larger) {
    for (auto take : {&cache_store::carve, &cache_store::take_same_timeline, &cache_store::take_ready,
                      &cache_store::take_pending}) {
      if (cache_node* const freed = (this->*take)(shard, larger)) {
        return freed;
      }
    }
  }
  return nullptr;
}

bool cache_store::may_grow() const noexcept {
  return held_.load(std::memory_order_relaxed) < std::min(wait_above_, limit() / 2);
}

bool cache_store::is_contended(cache_shard& shard, std::size_t size_class) {
  size_kind& kind = kinds_[size_class];
  if (std::exchange(shard.list_stolen[size_class], false)) {
    ++kind.contended_misses;
  }
  if (!classes_.small(size_class) || kind.contended_misses < contention_threshold ||
      kind.slabs.size() > shards_.size()) {
    return false;
  }
  kind.contended_misses = 0;
  return held_.load(std::memory_order_relaxed) < limit();
}

void cache_store::reserve_nodes(std::size_t count) {
  constexpr std::size_t at_a_time = 256;
  while (spares_ < count) {
    nodes_.push_back(std::make_unique<cache_node[]>(at_a_time));
    for (std::size_t i = 0; i < at_a_time; ++i) {
      link(&nodes_.back()[i], spare_);
    }
    spares_ += at_a_time;
  }
}

std::uint64_t cache_store::held_bytes() const {
  return std::max(held_.load(std::memory_order_relaxed), upstream_->held_bytes());
}

caching_statistics cache_store::statistics() const {
  caching_statistics now;
  now.held = held_.load(std::memory_order_relaxed);
  now.in_use = uncached_.load(std::memory_order_relaxed);
  now.upstream_allocations = upstream_allocations_.load(std::memory_order_relaxed);
  now.beyond_bound = beyond_bound_.load(std::memory_order_relaxed);
  const lock_type lock(mutex_);
  for (const auto& shard : shards_) {
    now.in_use += shard->in_use();
  }
  for (const size_kind& kind : kinds_) {
    now.slabs += kind.slabs.size();
  }
  now.steals = steals_;
  return now;
}

} // namespace saeta
