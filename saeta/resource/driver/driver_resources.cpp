#include "saeta/resource/driver/driver_resources.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

namespace saeta {
namespace {

constexpr std::size_t smallest_pinned_class = 4096;

std::size_t own_alignment(const backend& device) {
  return device.device().kind == device_kind::cpu ? host_alignment : device_alignment;
}

block describe_on(const backend& device, const allocation_request& request, const stream_ref& stream) {
  return describe_block(request, device.device(), own_alignment(device), stream);
}

std::size_t class_of_pinned(std::size_t bytes) noexcept {
  return std::bit_ceil(std::max(bytes, smallest_pinned_class));
}

/// For resources that free at once: the host waits for the work on the block. False when the wait fails.
bool wait_for_users(std::span<const point> after) noexcept {
  try {
    for (const point& point : after) {
      synchronize(point);
    }
    return true;
  } catch (...) {
    report_current_exception("a block stays allocated: its work can't be waited for");
    return false;
  }
}

} // namespace

/// Refuses sizes that overflow when rounded up to an alignment: aligned new would round them to 0 bytes.
block describe_block(const allocation_request& request, device_id device, std::size_t given,
                     const stream_ref& stream) {
  if (request.alignment != 0 && !std::has_single_bit(request.alignment)) {
    throw error(errc::invalid_argument, concat("alignment ", request.alignment, " is not a power of two"));
  }
  block block = describe(request, device, std::max(request.alignment, given), stream, timeline_of(stream));
  static_cast<void>(checked_add(request.bytes, block.alignment, "block with its alignment"));
  block.base_bytes = request.bytes == 0 ? 0 : request.bytes + (block.alignment - given);
  return block;
}

void place_block(block& block, void* base) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  block.base = base;
  block.pointer = reinterpret_cast<void*>(round_up(address, static_cast<std::uintptr_t>(block.alignment)));
}

block direct_resource::do_allocate(const allocation_request& request, const stream_ref& stream) {
  block block = describe_on(*device_, request, stream);
  block.order = release_order::when_complete;
  if (request.bytes != 0) {
    place_block(block, device_->allocate(block.base_bytes, own_alignment(*device_)));
    held_.fetch_add(block.base_bytes, std::memory_order_relaxed);
  }
  return block;
}

bool direct_resource::do_deallocate(const block& freed, std::span<const point> after) noexcept {
  if (freed.base != nullptr && (!wait_for_users(after) || !device_->deallocate(freed.base, freed.base_bytes,
                                                                               own_alignment(*device_)))) {
    return false;
  }
  held_.fetch_sub(freed.base_bytes, std::memory_order_relaxed);
  return true;
}

async_resource::async_resource(std::shared_ptr<backend> device, std::uint64_t pool_threshold, bool exportable)
    : device_(required(std::move(device), "device")), timelines_(timelines::of(*device_)),
      bounded_pool_(pool_threshold != everything),
      largest_(exportable ? device_->properties().largest_pool_export : everything), beyond_(device_),
      unused_(timelines_), in_use_(timelines_) {
  if (exportable) {
    device_->make_pool_exportable();
  }
  device_->set_pool_threshold(pool_threshold);
}

block async_resource::do_allocate(const allocation_request& request, const stream_ref& stream) {
  if (request.bytes > largest_) {
    return beyond_.allocate(request, stream);
  }
  block block = describe_on(*device_, request, stream);
  if (request.bytes == 0) {
    return block;
  }
  wait_for_own_frees(stream);
  const auto ask = [&] { return device_->allocate_async(block.base_bytes, stream.native_handle()); };
  void* given = nullptr;
  try {
    given = ask();
  } catch (const error& refused) {
    if (refused.code() != errc::out_of_memory) {
      throw;
    }
    // Memory freed on these streams can be allocated once `stream` waits for them.
    wait(stream, mark(unused_.ref()));
    wait(stream, mark(in_use_.ref()));
    given = ask();
  }
  place_block(block, given);
  held_.fetch_add(block.base_bytes, std::memory_order_relaxed);
  try {
    block.ready = mark(stream);
  } catch (...) { // no other stream could be ordered after the work, so the block is freed on its own stream
    if (!device_->deallocate_async(block.base, block.base_bytes, stream.native_handle())) {
      with_report_text([](std::string_view text) { report("async_resource", text); },
                       "memory could not be freed", block.bytes, " bytes could not be freed");
    }
    held_.fetch_sub(block.base_bytes, std::memory_order_relaxed);
    throw;
  }
  return block;
}

bool async_resource::do_deallocate(const block& freed, std::span<const point> after) noexcept {
  if (freed.base == nullptr) {
    return true;
  }
  if (freed.bytes > largest_) {
    return beyond_.deallocate(freed, after);
  }
  const bool unused = std::all_of(after.begin(), after.end(), is_known_passed);
  const stream_ref on = unused ? unused_.ref() : in_use_.ref();
  if (!unused) {
    try {
      await_users(after);
    } catch (...) {
      report_current_exception("async_resource::deallocate");
      return false;
    }
  }
  if (!device_->deallocate_async(freed.base, freed.base_bytes, on.native_handle())) {
    return false;
  }
  held_.fetch_sub(freed.base_bytes, std::memory_order_relaxed);
  if (unused && bounded_pool_) {
    notice_unused();
  }
  return true;
}

void async_resource::wait_for_own_frees(const stream_ref& stream) {
  const std::lock_guard lock(users_mutex_);
  users_.remove_if(is_known_passed);
  const auto is_own = [own = timeline_of(stream)](const point& point) { return point.timeline == own; };
  if (!users_.empty() && std::ranges::all_of(users_.all(), is_own) && is_ours(stream)) {
    wait(stream, mark(in_use_.ref()));
  }
}

void async_resource::await_users(std::span<const point> after) {
  const std::lock_guard lock(users_mutex_);
  users_.remove_if(is_known_passed);
  for (const point& point : after) {
    wait(in_use_.ref(), point);
    users_.add(point);
  }
}

std::size_t async_resource::trim() {
  notice_unused();
  return device_->trim_pool(0);
}

void async_resource::notice_unused() noexcept {
  try {
    device_->synchronize_stream(unused_.ref().native_handle());
  } catch (...) {
    report_current_exception("async_resource: can't trim the driver's pool");
  }
}

pinned_resource::~pinned_resource() { trim(); }

block pinned_resource::do_allocate(const allocation_request& request, const stream_ref& stream) {
  block block = describe_block(request, device_->device(), device_alignment, stream);
  block.order = release_order::when_complete;
  if (block.kind == memory_kind::device) { // on the host, pinned memory is ordinary memory
    block.kind = memory_kind::pinned;
  }
  if (request.bytes == 0) {
    return block;
  }
  if (block.base_bytes > (std::size_t{1} << 62)) {
    throw error(errc::overflow, concat("a pinned block of ", request.bytes, " bytes is too large"));
  }
  block.base_bytes = class_of_pinned(block.base_bytes);
  {
    const std::lock_guard lock(mutex_);
    auto& pool = free_[block.base_bytes];
    if (!pool.empty()) {
      place_block(block, pool.back());
      pool.pop_back();
      return block;
    }
    if (bound_ && held_ + block.base_bytes > bound_->limit()) {
      trim_unused();
    }
    held_ += block.base_bytes;
  }
  try { // without the lock: page-locking takes milliseconds, and others may need unused blocks meanwhile
    place_block(block, device_->allocate_pinned(block.base_bytes));
  } catch (...) {
    const std::lock_guard lock(mutex_);
    held_ -= block.base_bytes;
    throw;
  }
  return block;
}

bool pinned_resource::do_deallocate(const block& freed, std::span<const point> after) noexcept {
  if (freed.base == nullptr) {
    return true;
  }
  if (!wait_for_users(after)) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  try {
    free_[freed.base_bytes].push_back(freed.base);
    return true;
  } catch (...) {
    report_current_exception("pinned_resource::deallocate");
    return false;
  }
}

std::size_t pinned_resource::trim() {
  const std::lock_guard lock(mutex_);
  return trim_unused();
}

std::size_t pinned_resource::trim_unused() {
  std::size_t trimmed = 0;
  for (auto& [bytes, pool] : free_) {
    while (!pool.empty() && device_->deallocate_pinned(pool.back(), bytes)) {
      pool.pop_back();
      trimmed += bytes;
    }
  }
  held_ -= trimmed;
  return trimmed;
}

std::size_t pinned_resource::kept(std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto pool = free_.find(class_of_pinned(bytes));
  return pool == free_.end() ? 0 : pool->second.size();
}

std::uint64_t pinned_resource::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

} // namespace saeta
