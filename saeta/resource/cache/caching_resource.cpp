#include "saeta/resource/cache/caching_resource.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/resource/cache/store.hpp"

#include <algorithm>

namespace saeta {
namespace {

bool is_alignment(std::size_t alignment) noexcept { return (alignment & (alignment - 1)) == 0; }

/// A shard for one call; the calling thread is ending and may be unable to keep one.
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

/// Makes the shard's stream wait for the previous users of a block.
void wait_for_users(const cache_node& reused, cache_shard& shard, const stream_ref& stream) {
  const bool waited =
      reused.after.timeline == shard.waited.timeline && reused.after.epoch <= shard.waited.epoch;
  if (!waited) {
    wait(stream, reused.after);
    shard.waited = reused.after;
  }
  if (reused.others) {
    wait(stream, *reused.others);
  }
}

} // namespace

caching_resource::caching_resource(std::shared_ptr<resource> upstream, const std::shared_ptr<backend>& device,
                                   caching_options options, std::shared_ptr<const budget> bound)
    : device_(required(device, "device")->device()),
      own_alignment_(device_.kind == device_kind::cpu ? host_alignment : device_alignment),
      store_(std::make_unique<cache_store>(required(std::move(upstream), "upstream"), device, options,
                                           std::move(bound))) {}

caching_resource::~caching_resource() = default;

bool caching_resource::cached(std::size_t bytes, std::size_t alignment) const noexcept {
  return bytes - 1 < store_->classes().largest() && alignment <= cache_classes::unit &&
         is_alignment(alignment);
}

block caching_resource::describe_here(const allocation_request& request, const stream_ref& stream,
                                      timeline_id timeline) const {
  return describe(request, device_, std::max(request.alignment, own_alignment_), stream, timeline);
}

block caching_resource::allocate_uncached(const allocation_request& request, const stream_ref& stream) {
  if (!is_alignment(request.alignment)) {
    throw error(errc::invalid_argument, concat("alignment ", request.alignment, " is not a power of two"));
  }
  return request.bytes == 0 ? describe_here(request, stream, timeline_of(stream))
                            : store_->allocate_upstream(request, stream);
}

block caching_resource::do_allocate(const allocation_request& request, const stream_ref& stream) {
  if (!cached(request.bytes, request.alignment)) [[unlikely]] {
    return allocate_uncached(request, stream);
  }
  const timeline_id timeline = timeline_of(stream);
  if (cache_shard* const mine = cache_shards::find(store_->id(), timeline)) [[likely]] {
    return take(*mine, request, stream);
  }
  passing_shard claimed(store_->claim(timeline));
  return take(claimed.keep_if_possible(), request, stream);
}

block caching_resource::take(cache_shard& shard, const allocation_request& request,
                             const stream_ref& stream) {
  const std::size_t size_class = store_->classes().of(request.bytes);
  cache_node* taken = shard.pop(size_class);
  if (taken == nullptr) [[unlikely]] {
    taken = store_->refill(shard, size_class);
    if (taken == nullptr) { // no room for a slab
      if (auto memory = store_->allocate_within(request, stream)) {
        return *memory;
      }
      taken = store_->take_larger(shard, size_class);
      if (taken == nullptr) {
        return store_->allocate_upstream(request, stream);
      }
    }
  }
  return lend(*taken, shard, request, stream);
}

/// Returns a single object, constructed in place: copying a block right after it was written is slow.
block caching_resource::lend(cache_node& taken, cache_shard& shard, const allocation_request& request,
                             const stream_ref& stream) {
  point ready = taken.after;
  if (taken.others != nullptr || (!ready.empty() && ready.timeline != shard.timeline)) [[unlikely]] {
    try {
      wait_for_users(taken, shard, stream);
      if (taken.others) {
        ready = mark(stream);
      }
    } catch (...) {
      shard.push(&taken);
      throw;
    }
  }
  shard.add_in_use(taken.bytes);
  block block = describe_here(request, stream, shard.timeline);
  block.pointer = taken.pointer;
  block.ready = ready;
  block.base = taken.pointer;
  block.base_bytes = taken.bytes;
  block.record = &taken;
  block.cached = true;
  return block;
}

bool caching_resource::do_deallocate(const block& returned, std::span<const point> after) noexcept {
  if (!returned.cached) [[unlikely]] {
    return returned.bytes == 0 || store_->deallocate_upstream(returned, after);
  }
  cache_node& freed = *static_cast<cache_node*>(returned.record);
  try {
    freed.set_users(after, returned.timeline);
    // The stream of the allocation has waited for `ready`, so the block has not been used since.
    const bool unused = freed.after.empty() || (!freed.others && freed.after == returned.ready);
    const timeline_id timeline = unused ? returned.timeline : freed.after.timeline;
    if (cache_shard* const mine = cache_shards::find(store_->id(), timeline)) [[likely]] {
      put(*mine, freed);
      return true;
    }
    passing_shard claimed(store_->claim(timeline));
    put(claimed.keep_if_possible(), freed);
    return true;
  } catch (...) {
    report_current_exception("caching_resource::deallocate");
    return false;
  }
}

void caching_resource::put(cache_shard& shard, cache_node& freed) noexcept {
  shard.add_in_use(std::uint64_t{0} - freed.bytes);
  shard.push(&freed);
}

std::size_t caching_resource::trim() { return store_->trim(); }

std::uint64_t caching_resource::held_bytes() const { return store_->held_bytes(); }

caching_statistics caching_resource::statistics() const { return store_->statistics(); }

void caching_resource::set_soft_limit(std::uint64_t bytes) noexcept { store_->set_soft_limit(bytes); }

} // namespace saeta
