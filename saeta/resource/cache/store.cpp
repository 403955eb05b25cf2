#include "saeta/resource/cache/detail/store.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>

namespace saeta {
namespace {

constexpr std::size_t carved_bytes = 64u << 10; ///< of blocks that a shard gets at a time
constexpr std::size_t most_carved = 64;         ///< blocks
constexpr unsigned patience = 8;                ///< quarrels before there is another slab

std::uint64_t next_cache_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

cache_node* next_of(const cache_node* node) noexcept { return node->next.load(std::memory_order_relaxed); }

void link(cache_node* node, cache_node*& list) noexcept {
  node->next.store(list, std::memory_order_relaxed);
  list = node;
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
                         std::shared_ptr<event_pool> events, caching_options options,
                         caching_resource::fence_source fence_over)
    : id_(next_cache_id()), classes_(checked(options).largest_small, options.largest_cached),
      slab_bytes_(options.slab), upstream_(std::move(upstream)), events_(std::move(events)),
      fence_over_(fence_over ? std::move(fence_over)
                             : [pool = events_](std::uint64_t) { return pool->record_context(); }),
      soft_limit_(options.soft_limit), slabs_from_(device), slabs_to_(device), kinds_(classes_.count()) {}

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

std::shared_ptr<cache_shard> cache_store::claim(std::uint64_t stream_id) {
  const lock_type lock(mutex_);
  const auto abandoned = [](const auto& shard) { return !shard->owned.load(std::memory_order_acquire); };
  auto found = std::find_if(shards_.begin(), shards_.end(), [&](const auto& shard) {
    return shard->stream_id == stream_id && abandoned(shard);
  });
  if (found == shards_.end()) {
    found = std::find_if(shards_.begin(), shards_.end(),
                         [&](const auto& shard) { return abandoned(shard) && shard->empty(); });
  }
  if (found == shards_.end()) {
    found = shards_.insert(shards_.end(), std::make_shared<cache_shard>(id_, stream_id));
  }
  (*found)->stream_id = stream_id;
  (*found)->robbed = {};
  (*found)->owned.store(true, std::memory_order_relaxed);
  return *found;
}

cache_node* cache_store::refill(cache_shard& shard, std::size_t size_class, stream_ref stream) {
  lock_type lock(mutex_);
  retry_late_frees(lock);
  settle_aside();
  for (bool relieved = false;;) {
    if (cache_node* const fresh = carve(shard, size_class, stream)) {
      return fresh;
    }
    if (cache_node* const freed = take_same_stream(shard, size_class)) {
      return freed;
    }
    if (!wants_more(shard, size_class)) {
      if (cache_node* const freed = take_other_stream(shard, size_class, stream)) {
        return freed;
      }
    }
    try {
      add_slab(size_class, lock);
    } catch (const error& refused) {
      if (refused.code() != errc::out_of_memory) {
        throw;
      }
      if (cache_node* const freed = take_other_stream(shard, size_class, stream)) {
        return freed;
      }
      if (relieved || !relieve(slabs_from_.ref(), lock)) {
        throw;
      }
      relieved = true;
    }
  }
}

cache_node* cache_store::carve(cache_shard& shard, std::size_t size_class, stream_ref stream) {
  size_kind& kind = kinds_[size_class];
  if (kind.open.empty()) {
    return nullptr;
  }
  cache_slab& slab = *kind.open.back();
  const std::size_t size = classes_.bytes(size_class);
  const std::size_t count =
      std::min(slab.blocks - slab.carved, std::clamp(carved_bytes / size, std::size_t{1}, most_carved));
  reserve_nodes(count);
  if (!slab.ready.empty()) {
    if (slab.ready.complete()) {
      slab.ready = {};
    } else {
      slab.ready.wait(stream);
    }
  }
  cache_node* fresh = nullptr;
  for (std::size_t i = count; i-- > 0;) { // the lowest address is handed out first
    cache_node* const node = std::exchange(spare_, next_of(spare_));
    node->pointer = static_cast<std::byte*>(slab.memory.pointer) + (slab.carved + i) * size;
    node->home = &slab;
    node->size_class = size_class;
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

cache_node* cache_store::take_all_of(std::uint64_t stream_id, std::size_t size_class) {
  cache_node* all = nullptr;
  for (const auto& other : shards_) {
    if (other->stream_id != stream_id) {
      continue;
    }
    cache_node* list = other->take(size_class);
    if (list != nullptr) {
      other->robbed[size_class] = true;
    }
    while (list != nullptr) {
      link(std::exchange(list, next_of(list)), all);
    }
  }
  return all;
}

cache_node* cache_store::take_same_stream(cache_shard& shard, std::size_t size_class) {
  cache_node* const freed = take_all_of(shard.stream_id, size_class);
  if (freed != nullptr) {
    shard.push_all(next_of(freed));
  }
  return freed;
}

cache_node* cache_store::take_other_stream(cache_shard& shard, std::size_t size_class, stream_ref stream) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const std::uint64_t source = shards_[i]->stream_id;
    cache_node* const freed = source == shard.stream_id || shards_[i]->empty(size_class)
                                  ? nullptr
                                  : take_all_of(source, size_class);
    if (freed == nullptr) {
      continue;
    }
    try {
      // Recorded after the lists were taken, so it covers the work of everybody who freed something into them.
      const std::optional<fence> done = fence_over_(source);
      if (done) {
        done->wait(stream);
        ++steals_;
        shard.push_all(next_of(freed));
        return freed;
      }
    } catch (...) {
      set_aside(freed, source);
      throw;
    }
    set_aside(freed, source);
  }
  return nullptr;
}

bool cache_store::wants_more(cache_shard& shard, std::size_t size_class) {
  size_kind& kind = kinds_[size_class];
  if (std::exchange(shard.robbed[size_class], false)) {
    ++kind.quarrels;
  }
  if (!classes_.small(size_class) || kind.quarrels < patience || kind.slabs.size() > shards_.size()) {
    return false;
  }
  kind.quarrels = 0;
  return held_.load(std::memory_order_relaxed) < soft_limit_.load(std::memory_order_relaxed);
}

void cache_store::make_room_for(std::uint64_t bytes, lock_type& lock) {
  const std::uint64_t limit = soft_limit_.load(std::memory_order_relaxed);
  if (bytes > limit || held_.load(std::memory_order_relaxed) > limit - bytes) {
    trim_slabs(lock);
  }
}

void cache_store::add_slab(std::size_t size_class, lock_type& lock) {
  const std::size_t size = classes_.bytes(size_class);
  auto made = std::make_unique<cache_slab>();
  cache_slab& slab = *made;
  slab.size_class = size_class;
  slab.blocks = classes_.small(size_class) ? std::max<std::size_t>(slab_bytes_ / size, 8) : 1;
  make_room_for(slab.blocks * size, lock);
  size_kind& kind = kinds_[size_class];
  kind.slabs.push_back(std::move(made));
  try {
    kind.open.reserve(kind.slabs.capacity());
    slab.memory = upstream_->allocate(
        {.bytes = slab.blocks * size, .alignment = cache_classes::unit, .label = label_}, slabs_from_.ref());
    try {
      slab.ready = events_->record(slabs_from_.ref());
    } catch (...) {
      if (!upstream_->deallocate(slab.memory, slabs_from_.ref())) {
        report("caching_resource", concat("a slab of ", slab.memory.bytes, " bytes is lost"));
      }
      throw;
    }
  } catch (...) {
    kind.slabs.pop_back();
    throw;
  }
  kind.open.push_back(&slab);
  held_.fetch_add(slab.memory.base_bytes, std::memory_order_relaxed);
  upstream_allocations_.fetch_add(1, std::memory_order_relaxed);
}

bool cache_store::relieve(stream_ref stream, lock_type& lock) {
  const std::size_t freed = trim_slabs(lock);
  lock.unlock();
  const std::size_t trimmed = upstream_->trim();
  if (freed != 0) {
    events_->record(slabs_to_.ref()).wait(stream); // so that the driver may hand out what was freed there
  }
  lock.lock();
  return freed != 0 || trimmed != 0;
}

block cache_store::allocate_upstream(const allocation_request& what, stream_ref stream) {
  lock_type lock(mutex_);
  retry_late_frees(lock);
  make_room_for(what.bytes, lock);
  lock.unlock();
  const allocation_request plain{.bytes = what.bytes, .alignment = what.alignment, .label = what.label};
  const auto ask = [&] {
    block made = upstream_->allocate(plain, stream);
    held_.fetch_add(made.base_bytes, std::memory_order_relaxed);
    uncached_.fetch_add(made.base_bytes, std::memory_order_relaxed);
    upstream_allocations_.fetch_add(1, std::memory_order_relaxed);
    return made;
  };
  try {
    return ask();
  } catch (const error& refused) {
    lock.lock();
    if (refused.code() != errc::out_of_memory || !relieve(stream, lock)) {
      throw;
    }
  }
  lock.unlock();
  return ask();
}

bool cache_store::deallocate_upstream(const block& what, stream_ref stream) noexcept {
  try {
    if (upstream_->order() == release_order::by_identity) {
      if (!upstream_->deallocate(what, stream)) {
        return false;
      }
      held_.fetch_sub(what.base_bytes, std::memory_order_relaxed);
    } else if (const std::optional<fence> done = fence_over_(stream.id())) {
      if (!give_back(what, *done)) {
        return false;
      }
    } else {
      const lock_type lock(mutex_);
      late_.push_back({what, stream.id()});
    }
    uncached_.fetch_sub(what.base_bytes, std::memory_order_relaxed);
    return true;
  } catch (...) {
    report_current_exception("caching_resource::deallocate");
    return false;
  }
}

bool cache_store::give_back(const block& what, const fence& done) noexcept {
  try {
    if (upstream_->order() == release_order::when_complete) {
      done.synchronize();
    } else {
      done.wait(slabs_to_.ref());
    }
  } catch (...) {
    report_current_exception("caching_resource");
    return false;
  }
  if (!upstream_->deallocate(what, slabs_to_.ref())) {
    return false;
  }
  held_.fetch_sub(what.base_bytes, std::memory_order_relaxed);
  return true;
}

void cache_store::retry_late_frees(lock_type& lock) {
  if (late_.empty()) {
    return;
  }
  std::list<late_free> trying;
  trying.swap(late_);
  lock.unlock();
  trying.remove_if([&](const late_free& each) {
    try {
      const std::optional<fence> done = fence_over_(each.stream_id);
      return done && give_back(each.what, *done);
    } catch (...) {
      report_current_exception("caching_resource");
      return false;
    }
  });
  lock.lock();
  late_.splice(late_.end(), trying);
}

std::size_t cache_store::trim() {
  std::size_t freed = 0;
  {
    lock_type lock(mutex_);
    retry_late_frees(lock);
    freed = trim_slabs(lock);
  }
  return std::max(freed, upstream_->trim()); // what upstream gives back is, in part, what it just got
}

std::size_t cache_store::trim_slabs(lock_type& lock) {
  std::size_t slabs = 0;
  for (const size_kind& kind : kinds_) {
    slabs += kind.slabs.size();
  }
  std::vector<cache_slab*> leaving;
  leaving.reserve(slabs); // before anything is taken out of the shards
  collect_free();
  std::size_t freed = 0;
  if (const std::optional<fence> done = fence_over_(fence::every_stream)) {
    leave(leaving);
    lock.unlock();
    const auto kept = std::partition(leaving.begin(), leaving.end(), [&](const cache_slab* slab) {
      const bool gone = give_back(slab->memory, *done);
      freed += gone ? slab->memory.base_bytes : 0;
      return gone;
    });
    lock.lock();
    std::for_each(leaving.begin(), kept, [&](cache_slab* slab) { forget(*slab); });
    std::for_each(kept, leaving.end(), [&](cache_slab* slab) {
      slab->leaving = false;
      slab->ready = *done;
      kinds_[slab->size_class].open.push_back(slab);
    });
  }
  settle_aside();
  return freed;
}

void cache_store::collect_free() noexcept {
  for (const auto& shard : shards_) {
    for (std::size_t c = 0; c < classes_.count(); ++c) {
      set_aside(shard->take(c), shard->stream_id);
    }
  }
}

void cache_store::leave(std::vector<cache_slab*>& leaving) noexcept {
  for (const cache_node* node = aside_; node != nullptr; node = next_of(node)) {
    ++node->home->free;
  }
  for (size_kind& kind : kinds_) {
    for (const auto& slab : kind.slabs) {
      if (!slab->leaving && slab->free == slab->carved) {
        slab->leaving = true;
        slab->carved = 0;
        leaving.push_back(slab.get());
      }
      slab->free = 0;
    }
    std::erase_if(kind.open, [](const cache_slab* slab) { return slab->leaving; });
  }
  cache_node* staying = nullptr;
  while (aside_ != nullptr) {
    cache_node* const node = std::exchange(aside_, next_of(aside_));
    if (node->home->leaving) {
      link(node, spare_);
      ++spares_;
    } else {
      link(node, staying);
    }
  }
  aside_ = staying;
}

void cache_store::forget(const cache_slab& gone) {
  std::erase_if(kinds_[gone.size_class].slabs, [&](const auto& slab) { return slab.get() == &gone; });
}

void cache_store::set_aside(cache_node* list, std::uint64_t stream_id) noexcept {
  while (list != nullptr) {
    cache_node* const node = std::exchange(list, next_of(list));
    node->stream_id = stream_id;
    link(node, aside_);
  }
}

void cache_store::settle_aside() {
  cache_shard* target = nullptr; // nobody's: so whoever has the lock may push
  while (aside_ != nullptr) {
    if (target == nullptr || target->stream_id != aside_->stream_id) {
      const auto found = std::find_if(shards_.begin(), shards_.end(), [&](const auto& shard) {
        return shard->stream_id == aside_->stream_id && !shard->owned.load(std::memory_order_acquire);
      });
      if (found != shards_.end()) {
        target = found->get();
      } else {
        shards_.push_back(std::make_shared<cache_shard>(id_, aside_->stream_id));
        target = shards_.back().get();
        target->owned.store(false, std::memory_order_relaxed);
      }
    }
    target->push(std::exchange(aside_, next_of(aside_)));
  }
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
