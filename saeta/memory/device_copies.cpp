#include "saeta/memory/device_copies.hpp"

#include "saeta/base/text.hpp"
#include "saeta/memory/context_core.hpp"

#include <algorithm>
#include <vector>

namespace saeta {

copy_kind device_copies::kind_between(memory_kind source, memory_kind target) const noexcept {
  return core_.on_host() ? copy_kind::host_to_host : copy_between(source, target);
}

void device_copies::copy(void* target, const void* source, std::size_t bytes, copy_kind kind,
                         stream_ref stream) {
  if (bytes == 0) {
    return;
  }
  if (kind == copy_kind::device_to_host) {
    require_downloads(bytes);
  }
  stream.owner().copy(target, source, bytes, kind, stream.native_handle());
  counter_of(kind).add_call(bytes);
}

void device_copies::copy_all(std::span<const copy_range> ranges, copy_kind kind, stream_ref stream) {
  std::uint64_t bytes = 0;
  for (const copy_range& range : ranges) {
    bytes += range.bytes;
  }
  if (kind == copy_kind::device_to_host) {
    require_downloads(bytes);
  }
  stream.owner().copy_all(ranges, kind, stream.native_handle());
  counter_of(kind).add_call(bytes);
}

void device_copies::copy_from_peer(void* target, const void* source, std::size_t bytes,
                                   memory_kind source_kind, stream_ref stream) {
  const copy_kind kind = kind_between(source_kind, own_kind(core_.device->device()));
  stream.owner().copy(target, source, bytes, kind, stream.native_handle());
  counted_.peer_to_device.add_call(bytes);
}

void device_copies::count_transfer(copy_kind kind) noexcept { counter_of(kind).add_transfer(); }

void device_copies::fill(void* target, std::uint8_t value, std::size_t bytes, stream_ref stream) {
  if (bytes != 0) {
    stream.owner().fill(target, value, bytes, stream.native_handle());
  }
}

void device_copies::read_scalar(void* target, const void* source, std::size_t bytes, stream_ref stream,
                                std::optional<memory_kind> kind) {
  constexpr std::size_t largest = 16;
  if (bytes > largest) {
    throw error(errc::invalid_argument,
                concat("can't read a scalar of ", bytes, " bytes: at most ", largest, " are supported"));
  }
  read_metadata({static_cast<std::byte*>(target), bytes}, source,
                kind_between(kind.value_or(own_kind(core_.device->device())), memory_kind::host), stream);
}

void device_copies::read_scalars(std::span<std::int64_t> target, const std::int64_t* source,
                                 stream_ref stream) {
  read_metadata(std::as_writable_bytes(target), source,
                kind_between(own_kind(core_.device->device()), memory_kind::host), stream);
}

void device_copies::send_description(void* target, std::span<const std::byte> source, stream_ref stream) {
  // The driver waits for the stream if it is given more bytes of pageable memory at a time.
  constexpr std::size_t most = 64 * 1024;
  const copy_kind kind = kind_between(memory_kind::host, own_kind(core_.device->device()));
  for (std::size_t at = 0; at < source.size(); at += most) {
    const auto part = source.subspan(at, std::min(most, source.size() - at));
    stream.owner().copy(static_cast<std::byte*>(target) + at, part.data(), part.size(), kind,
                        stream.native_handle());
  }
  counted_.scalars.add_transfer();
  counted_.scalars.add_call(source.size());
}

void device_copies::read_metadata(std::span<std::byte> target, const void* source, copy_kind kind,
                                  stream_ref stream) {
  // Copy into our own memory: if the wait fails, the copy may still run after the caller's memory is gone.
  const auto landing = std::make_shared<std::vector<std::byte>>(target.size());
  if (!core_.on_host()) { // the copy itself waits: its target is not page-locked
    counted_.synchronizations.fetch_add(1);
  }
  core_.device->copy(landing->data(), source, target.size(), kind, stream.native_handle());
  counted_.scalars.add_transfer();
  counted_.scalars.add_call(target.size());
  try {
    if (!core_.on_host()) {
      stream.owner().synchronize_stream(stream.native_handle());
    }
  } catch (...) {
    core_.releases->submit({.after = {.points = {}, .unknown = true},
                            .action = [landing, kept = core_.shared_from_this()] { return true; },
                            .label = "scalar",
                            .bytes = target.size()});
    throw;
  }
  std::ranges::copy(*landing, target.begin());
}

bool device_copies::forbids_downloads() const noexcept {
  return !core_.on_host() && download_bans_.load(std::memory_order_relaxed) != 0;
}

void device_copies::require_downloads(std::uint64_t bytes) const {
  if (bytes != 0 && forbids_downloads()) {
    throw error(errc::download_forbidden, concat("strict mode: ", bytes, " bytes would be copied from ",
                                                 to_string(core_.device->device()), " to the host"));
  }
}

std::shared_ptr<void> device_copies::forbid_downloads() {
  ++download_bans_;
  return {nullptr, [this, kept = core_.shared_from_this()](void*) { --download_bans_; }};
}

traffic_counter& device_copies::counter_of(copy_kind kind) noexcept {
  switch (kind) {
  case copy_kind::host_to_device:
    return counted_.host_to_device;
  case copy_kind::device_to_host:
    return counted_.device_to_host;
  case copy_kind::device_to_device:
    return counted_.device_to_device;
  case copy_kind::host_to_host:
    break;
  }
  return counted_.host_to_host;
}

counter_values device_copies::read_other_counters() const {
  const ledger_additions added = core_.holders->additions();
  counter_values sums;
  sums.allocations = added.own;
  sums.imports = added.external;
  sums.events = core_.clocks->events_recorded();
  return sums;
}

counter_values device_copies::read_counters() const {
  core_.require_own_process();
  const std::lock_guard lock(reset_mutex_);
  counter_values now = counted_.read();
  const counter_values elsewhere = read_other_counters();
  now.allocations = elsewhere.allocations - at_reset_.allocations;
  now.imports = elsewhere.imports - at_reset_.imports;
  now.events = elsewhere.events - at_reset_.events;
  return now;
}

void device_copies::reset_counters() {
  core_.require_own_process();
  const std::lock_guard lock(reset_mutex_);
  counted_.reset();
  at_reset_ = read_other_counters();
}

} // namespace saeta
