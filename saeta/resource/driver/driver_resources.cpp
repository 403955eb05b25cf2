#include "saeta/resource/driver/driver_resources.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/report.hpp"

#include <atomic>
#include <bit>

namespace saeta {
namespace {

constexpr std::size_t smallest_pinned_class = 4096;

std::size_t own_alignment(const backend& device) {
  return device.device().kind == device_kind::cpu ? host_alignment : device_alignment;
}

block describe(const backend& device, const allocation_request& what, std::uint64_t stream_id) {
  return describe_block(what, device.device(), own_alignment(device), stream_id);
}

} // namespace

/// Sizes that could not be rounded up to an alignment are refused here: aligned new would make 0 bytes of them.
block describe_block(const allocation_request& what, device_id device, std::size_t given,
                     std::uint64_t stream_id) {
  if (what.alignment != 0 && !std::has_single_bit(what.alignment)) {
    throw error(errc::invalid_argument, concat("alignment ", what.alignment, " is no power of two"));
  }
  block made;
  made.bytes = what.bytes;
  made.alignment = std::max(what.alignment, given);
  made.device = device;
  made.stream_id = stream_id;
  made.generation = next_generation();
  made.label = what.label;
  static_cast<void>(checked_add(what.bytes, made.alignment, "block with its alignment"));
  made.base_bytes = what.bytes == 0 ? 0 : what.bytes + (made.alignment - given);
  return made;
}

void place_block(block& made, void* base) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  made.base = base;
  made.pointer = reinterpret_cast<void*>(round_up(address, static_cast<std::uintptr_t>(made.alignment)));
}

std::uint64_t next_generation() noexcept {
  constexpr std::uint64_t range = 4096; // taken at a time: threads would meet on a counter of single numbers
  static std::atomic<std::uint64_t> ranges{0};
  thread_local constinit std::uint64_t last = 0;
  if (last % range == 0) {
    last = ranges.fetch_add(1, std::memory_order_relaxed) * range;
  }
  return ++last;
}

block direct_resource::do_allocate(const allocation_request& what, stream_ref stream) {
  block made = describe(*device_, what, stream.id());
  if (what.bytes != 0) {
    place_block(made, device_->allocate(made.base_bytes, own_alignment(*device_)));
    held_.fetch_add(made.base_bytes, std::memory_order_relaxed);
  }
  return made;
}

bool direct_resource::do_deallocate(const block& what, stream_ref) noexcept {
  if (what.base != nullptr && !device_->deallocate(what.base, what.base_bytes, own_alignment(*device_))) {
    return false;
  }
  held_.fetch_sub(what.base_bytes, std::memory_order_relaxed);
  return true;
}

block async_resource::do_allocate(const allocation_request& what, stream_ref stream) {
  block made = describe(*device_, what, stream.id());
  if (what.bytes != 0) {
    place_block(made, device_->allocate_async(made.base_bytes, stream.native_handle()));
    held_.fetch_add(made.base_bytes, std::memory_order_relaxed);
  }
  return made;
}

bool async_resource::do_deallocate(const block& what, stream_ref stream) noexcept {
  if (what.base != nullptr &&
      !device_->deallocate_async(what.base, what.base_bytes, stream.native_handle())) {
    return false;
  }
  held_.fetch_sub(what.base_bytes, std::memory_order_relaxed);
  return true;
}

pinned_resource::~pinned_resource() { trim(); }

block pinned_resource::do_allocate(const allocation_request& what, stream_ref stream) {
  if (what.alignment > smallest_pinned_class || (what.alignment & (what.alignment - 1)) != 0) {
    throw error(errc::invalid_argument, concat("pinned memory is aligned to a power of two of at most ",
                                               smallest_pinned_class, " bytes, not ", what.alignment));
  }
  block made;
  made.bytes = what.bytes;
  made.alignment = std::max(what.alignment, device_alignment);
  made.device = {device_->device().kind == device_kind::cpu ? device_kind::cpu : device_kind::cuda_host, 0};
  made.stream_id = stream.id();
  made.generation = next_generation();
  made.label = what.label;
  if (what.bytes == 0) {
    return made;
  }
  if (what.bytes > (std::size_t{1} << 62)) {
    throw error(errc::overflow, concat("pinned block of ", what.bytes, " bytes"));
  }
  made.base_bytes = std::bit_ceil(std::max(what.bytes, smallest_pinned_class));
  const std::lock_guard lock(mutex_);
  auto& pool = free_[made.base_bytes];
  if (pool.empty()) {
    made.base = device_->allocate_pinned(made.base_bytes);
    held_ += made.base_bytes;
  } else {
    made.base = pool.back();
    pool.pop_back();
  }
  made.pointer = made.base;
  return made;
}

bool pinned_resource::do_deallocate(const block& what, stream_ref) noexcept {
  if (what.base == nullptr) {
    return true;
  }
  const std::lock_guard lock(mutex_);
  try {
    free_[what.base_bytes].push_back(what.base);
    return true;
  } catch (...) {
    report_current_exception("pinned_resource::deallocate");
    return false;
  }
}

std::size_t pinned_resource::trim() {
  const std::lock_guard lock(mutex_);
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

std::uint64_t pinned_resource::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

} // namespace saeta
