#include "saeta/resource/cache/caching_resource.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/resource/cache/detail/store.hpp"

#include <algorithm>

namespace saeta {
namespace {

bool is_alignment(std::size_t alignment) noexcept { return (alignment & (alignment - 1)) == 0; }

/// A shard for one call, of a thread that is ending and can keep none.
class passing_shard {
public:
  explicit passing_shard(std::shared_ptr<cache_shard> claimed) noexcept : shard_(std::move(claimed)) {}
  passing_shard(const passing_shard&) = delete;
  passing_shard& operator=(const passing_shard&) = delete;
  ~passing_shard() {
    if (!kept_) {
      shard_->owned.store(false, std::memory_order_release);
    }
  }

  [[nodiscard]] cache_shard& keep_if_possible() {
    kept_ = cache_shards::keep(shard_);
    return *shard_;
  }

private:
  std::shared_ptr<cache_shard> shard_;
  bool kept_ = false;
};

} // namespace

caching_resource::caching_resource(std::shared_ptr<resource> upstream, const std::shared_ptr<backend>& device,
                                   std::shared_ptr<event_pool> events, caching_options options,
                                   fence_source fence_over)
    : device_(device->device()),
      own_alignment_(device_.kind == device_kind::cpu ? host_alignment : device_alignment),
      store_(std::make_unique<cache_store>(std::move(upstream), device, std::move(events), options,
                                           std::move(fence_over))) {}

caching_resource::~caching_resource() = default;

bool caching_resource::cached(std::size_t bytes, std::size_t alignment) const noexcept {
  return bytes - 1 < store_->classes().largest() && alignment <= cache_classes::unit &&
         is_alignment(alignment);
}

block caching_resource::allocate_uncached(const allocation_request& what, stream_ref stream) {
  if (!is_alignment(what.alignment)) {
    throw error(errc::invalid_argument, concat("alignment ", what.alignment, " is no power of two"));
  }
  if (what.bytes != 0) {
    return store_->allocate_upstream(what, stream);
  }
  block empty;
  empty.alignment = std::max(what.alignment, own_alignment_);
  empty.device = device_;
  empty.stream_id = stream.id();
  empty.generation = next_generation();
  empty.label = what.label;
  return empty;
}

block caching_resource::do_allocate(const allocation_request& what, stream_ref stream) {
  if (!cached(what.bytes, what.alignment)) [[unlikely]] {
    return allocate_uncached(what, stream);
  }
  if (cache_shard* const mine = cache_shards::find(store_->id(), stream.id())) [[likely]] {
    return take(*mine, what, stream);
  }
  passing_shard claimed(store_->claim(stream.id()));
  return take(claimed.keep_if_possible(), what, stream);
}

block caching_resource::take(cache_shard& shard, const allocation_request& what, stream_ref stream) {
  const std::size_t size_class = store_->classes().of(what.bytes);
  cache_node* taken = shard.pop(size_class);
  if (taken == nullptr) [[unlikely]] {
    taken = store_->refill(shard, size_class, stream);
  }
  const std::size_t size = store_->classes().bytes(size_class);
  shard.add_in_use(size);
  return {.pointer = taken->pointer,
          .bytes = what.bytes,
          .alignment = std::max(what.alignment, own_alignment_),
          .device = device_,
          .stream_id = stream.id(),
          .generation = next_generation(),
          .label = what.label,
          .base = taken->pointer,
          .base_bytes = size,
          .record = taken};
}

bool caching_resource::do_deallocate(const block& what, stream_ref stream) noexcept {
  if (!cached(what.bytes, what.alignment)) [[unlikely]] {
    return what.bytes == 0 || store_->deallocate_upstream(what, stream);
  }
  cache_node& freed = *static_cast<cache_node*>(what.record);
  if (cache_shard* const mine = cache_shards::find(store_->id(), stream.id())) [[likely]] {
    put(*mine, freed);
    return true;
  }
  try {
    passing_shard claimed(store_->claim(stream.id()));
    put(claimed.keep_if_possible(), freed);
    return true;
  } catch (...) {
    report_current_exception("caching_resource::deallocate");
    return false;
  }
}

void caching_resource::put(cache_shard& shard, cache_node& freed) noexcept {
  shard.add_in_use(std::uint64_t{0} - store_->classes().bytes(freed.size_class));
  shard.push(&freed);
}

std::size_t caching_resource::trim() { return store_->trim(); }

std::uint64_t caching_resource::held_bytes() const { return store_->held_bytes(); }

caching_statistics caching_resource::statistics() const { return store_->statistics(); }

void caching_resource::set_soft_limit(std::uint64_t bytes) noexcept { store_->set_soft_limit(bytes); }

} // namespace saeta
