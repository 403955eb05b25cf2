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
    for (const point& each : after) {
      synchronize(each);
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
  block made = describe(request, device, std::max(request.alignment, given), stream, timeline_of(stream));
  static_cast<void>(checked_add(request.bytes, made.alignment, "block with its alignment"));
  made.base_bytes = request.bytes == 0 ? 0 : request.bytes + (made.alignment - given);
  return made;
}

void place_block(block& made, void* base) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  made.base = base;
  made.pointer = reinterpret_cast<void*>(round_up(address, static_cast<std::uintptr_t>(made.alignment)));
}

block direct_resource::do_allocate(const allocation_request& request, const stream_ref& stream) {
  block made = describe_on(*device_, request, stream);
  made.order = release_order::when_complete;
  if (request.bytes != 0) {
    place_block(made, device_->allocate(made.base_bytes, own_alignment(*device_)));
    held_.fetch_add(made.base_bytes, std::memory_order_relaxed);
  }
  return made;
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
  block made = describe_on(*device_, request, stream);
  if (request.bytes == 0) {
    return made;
  }
  wait_for_own_frees(stream);
  const auto ask = [&] { return device_->allocate_async(made.base_bytes, stream.native_handle()); };
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
  place_block(made, given);
  held_.fetch_add(made.base_bytes, std::memory_order_relaxed);
  try {
    made.ready = mark(stream);
  } catch (...) { // no other stream could be ordered after it, so free it on its own stream
    if (!device_->deallocate_async(made.base, made.base_bytes, stream.native_handle())) {
      with_report_text([](std::string_view text) { report("async_resource", text); },
                       "memory could not be freed", made.bytes, " bytes could not be freed");
    }
    held_.fetch_sub(made.base_bytes, std::memory_order_relaxed);
    throw;
  }
  return made;
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
  const auto is_own = [own = timeline_of(stream)](const point& each) { return each.timeline == own; };
  if (!users_.empty() && std::ranges::all_of(users_.all(), is_own) && is_ours(stream)) {
    wait(stream, mark(in_use_.ref()));
  }
}

void async_resource::await_users(std::span<const point> after) {
  const std::lock_guard lock(users_mutex_);
  users_.remove_if(is_known_passed);
  for (const point& each : after) {
    wait(in_use_.ref(), each);
    users_.add(each);
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
  block made = describe_block(request, device_->device(), device_alignment, stream);
  made.order = release_order::when_complete;
  if (made.kind == memory_kind::device) { // on the host, pinned memory is ordinary memory
    made.kind = memory_kind::pinned;
  }
  if (request.bytes == 0) {
    return made;
  }
  if (made.base_bytes > (std::size_t{1} << 62)) {
    throw error(errc::overflow, concat("a pinned block of ", request.bytes, " bytes is too large"));
  }
  made.base_bytes = class_of_pinned(made.base_bytes);
  {
    const std::lock_guard lock(mutex_);
    auto& pool = free_[made.base_bytes];
    if (!pool.empty()) {
      place_block(made, pool.back());
      pool.pop_back();
      return made;
    }
    if (bound_ && held_ + made.base_bytes > bound_->limit()) {
      trim_unused();
    }
    held_ += made.base_bytes;
  }
  try { // without the lock: page-locking takes milliseconds, and others may need unused blocks meanwhile
    place_block(made, device_->allocate_pinned(made.base_bytes));
  } catch (...) {
    const std::lock_guard lock(mutex_);
    held_ -= made.base_bytes;
    throw;
  }
  return made;
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
