#include "saeta/resource/decorators/guard_resource.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/report.hpp"
#include "saeta/resource/decorators/detail/guard_scan.hpp"

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <mutex>

namespace saeta {
namespace {

constexpr std::uint8_t canary_value = 0xCB;
constexpr std::uint8_t fresh_value = 0xA5;
constexpr std::uint8_t freed_value = 0xDD;

using kind = guard_finding::kind;

/// A block that a caller has or had, around it the block of upstream.
struct guarded {
  block inner;
  block outer; ///< as the caller got it
  bool poisoned = false;
  fence freed;              ///< over the work that was queued before the free, and the poison
  unsigned found = 0;       ///< kinds reported already, one bit each
  std::uintptr_t begin = 0; ///< of the upstream block
};

using blocks = std::map<std::uint64_t, guarded>; ///< by generation

std::uint8_t* start(const guarded& of) { return static_cast<std::uint8_t*>(of.outer.pointer); }

std::string_view words(kind what) {
  switch (what) {
  case kind::front_canary:
    return "bytes before it were overwritten";
  case kind::back_canary:
    return "bytes behind it were overwritten";
  case kind::written_after_free:
    return "it was written to after its free";
  case kind::overlap:
    return "it overlaps a block that is alive or in quarantine";
  case kind::unknown_block:
    return "it is freed, but not alive: freed twice, or never allocated here";
  }
  return "";
}

guard_finding describe(kind what, const block& of, std::int64_t offset, const std::string& details = {}) {
  const auto address = reinterpret_cast<std::uintptr_t>(of.pointer);
  return {what,
          of.label,
          of.generation,
          address,
          of.bytes,
          offset,
          concat("block '", of.label.name(), "' of ", of.bytes, " bytes at ", of.pointer, " (generation ",
                 of.generation, "): ", words(what), details)};
}

/// A region to scan, and what is wrong when its bytes are.
struct suspect {
  guarded* of;
  kind what;
  std::int64_t offset; ///< of the region, from the start of the block
};

} // namespace

struct guard_resource::impl {
  impl(const std::shared_ptr<backend>& device, guard_options chosen)
      : options(chosen),
        own_alignment(device->device().kind == device_kind::cpu ? host_alignment : device_alignment),
        events(std::make_shared<event_pool>(device)), scanner(device) {}

  const guard_options options;
  const std::size_t own_alignment;
  const std::shared_ptr<event_pool> events;

  std::mutex scan_mutex; ///< taken after `mutex` where both are
  guard_scanner scanner;

  std::mutex mutex;
  blocks live;
  std::list<blocks::node_type> quarantine; ///< oldest first
  std::size_t quarantined = 0;             ///< bytes of upstream
  std::map<std::pair<std::uintptr_t, std::uint64_t>, std::uintptr_t>
      extents; ///< (begin, generation) to end of what upstream gave and did not get back

  mutable std::mutex findings_mutex;
  std::vector<guard_finding> findings;

  /// Queues what a new block is filled with.
  void paint(const guarded& made, stream_ref stream) const;
  /// Queues the poison of a freed block; false, and reported, when the device refuses.
  bool poison(guarded& freed, stream_ref stream) const noexcept;
  void remember(guarded made);
  /// Gives a block back that nobody got to see.
  void abandon(const guarded& made, stream_ref stream, resource& upstream) const noexcept;
  /// The free of a caller; false when the block stays the caller's.
  bool take_back(const block& what, stream_ref stream, resource& upstream);
  void suspect_regions(guarded& of, std::vector<guard_region>& regions, std::vector<suspect>& suspects) const;
  /// Reads the regions back. Under `scan_mutex`.
  std::vector<guard_finding> examine(const std::vector<guard_region>& regions,
                                     const std::vector<suspect>& suspects);
  void publish(std::vector<guard_finding> found) noexcept;
  /// Waits for the work on the block, checks it and gives it to upstream; false when it must be kept.
  bool retire(guarded& freed, resource& upstream) noexcept;
  /// Retires the oldest until at most `limit` bytes are left.
  void shrink(std::size_t limit, resource& upstream) noexcept;
};

void guard_resource::impl::paint(const guarded& made, stream_ref stream) const {
  const auto fill = [&](std::uint8_t* from, std::uint8_t value, std::size_t bytes) {
    stream.owner().fill(from, value, bytes, stream.native_handle());
  };
  if (options.canary != 0) {
    fill(start(made) - options.canary, canary_value, options.canary);
    fill(start(made) + made.outer.bytes, canary_value, options.canary);
  }
  if (options.poison) {
    fill(start(made), fresh_value, made.outer.bytes);
  }
}

bool guard_resource::impl::poison(guarded& freed, stream_ref stream) const noexcept {
  try {
    if (options.poison) {
      stream.owner().fill(freed.outer.pointer, freed_value, freed.outer.bytes, stream.native_handle());
      freed.poisoned = true;
    }
    freed.freed = events->record(stream);
    return true;
  } catch (...) {
    report_current_exception("guard_resource");
    return false;
  }
}

void guard_resource::impl::remember(guarded made) {
  std::vector<guard_finding> found;
  {
    const std::lock_guard lock(mutex);
    const std::pair key(made.begin, made.outer.generation);
    const std::uintptr_t end = made.begin + made.inner.bytes;
    const auto next = extents.lower_bound({made.begin, 0});
    if ((next != extents.end() && next->first.first < end) ||
        (next != extents.begin() && std::prev(next)->second > made.begin)) {
      found.push_back(describe(kind::overlap, made.outer, 0));
    }
    const auto extent = extents.emplace(key, end).first;
    try {
      live.emplace(key.second, std::move(made));
    } catch (...) {
      extents.erase(extent);
      throw;
    }
  }
  publish(std::move(found));
}

void guard_resource::impl::abandon(const guarded& made, stream_ref stream,
                                   resource& upstream) const noexcept {
  try {
    events->record(stream).synchronize(); // some of its paint may be queued
  } catch (...) {
    report_current_exception("guard_resource");
  }
  if (!upstream.deallocate(made.inner, stream)) {
    report("guard_resource", "a block that could not be guarded was not taken back");
  }
}

bool guard_resource::impl::take_back(const block& what, stream_ref stream, resource& upstream) {
  std::list<blocks::node_type> leaving(1); // from here on no failure to allocate can lose the block
  std::unique_lock lock(mutex);
  const auto known = live.find(what.generation);
  if (known == live.end() || known->second.outer.pointer != what.pointer) {
    lock.unlock();
    publish({describe(kind::unknown_block, what, 0)});
    return false;
  }
  leaving.front() = live.extract(known);
  lock.unlock();

  guarded& freed = leaving.front().mapped();
  const bool at_once = options.quarantine == 0;
  if (!poison(freed, stream) || (at_once && !retire(freed, upstream))) {
    freed.poisoned = false;
    lock.lock();
    live.insert(std::move(leaving.front()));
    return false;
  }
  if (!at_once) {
    lock.lock();
    quarantined += freed.inner.bytes;
    quarantine.splice(quarantine.end(), leaving);
    lock.unlock();
    shrink(options.quarantine, upstream);
  }
  return true;
}

void guard_resource::impl::suspect_regions(guarded& of, std::vector<guard_region>& regions,
                                           std::vector<suspect>& suspects) const {
  const auto size = static_cast<std::int64_t>(of.outer.bytes);
  const auto canary = static_cast<std::int64_t>(options.canary);
  const auto add = [&](kind what, std::int64_t offset, std::size_t bytes, std::uint8_t expected) {
    if (bytes != 0 && (of.found & (1u << static_cast<unsigned>(what))) == 0) {
      suspects.push_back({&of, what, offset});
      regions.push_back({start(of) + offset, bytes, expected});
    }
  };
  add(kind::front_canary, -canary, options.canary, canary_value);
  add(kind::back_canary, size, options.canary, canary_value);
  add(kind::written_after_free, 0, of.poisoned ? of.outer.bytes : 0, freed_value);
}

std::vector<guard_finding> guard_resource::impl::examine(const std::vector<guard_region>& regions,
                                                         const std::vector<suspect>& suspects) {
  std::vector<guard_finding> found;
  const auto wrong = scanner.scan(regions);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    if (wrong[i]) {
      const suspect& seen = suspects[i];
      const std::int64_t offset = seen.offset + static_cast<std::int64_t>(wrong[i]->offset);
      found.push_back(describe(
          seen.what, seen.of->outer, offset,
          concat(", first at byte ", offset, ": ", +wrong[i]->value, " instead of ", +regions[i].expected)));
      seen.of->found |= 1u << static_cast<unsigned>(seen.what);
    }
  }
  return found;
}

void guard_resource::impl::publish(std::vector<guard_finding> found) noexcept {
  for (guard_finding& each : found) {
    report("guard_resource", each.text);
    try {
      const std::lock_guard lock(findings_mutex);
      findings.push_back(std::move(each));
    } catch (...) {
      report_current_exception("guard_resource");
    }
  }
}

bool guard_resource::impl::retire(guarded& freed, resource& upstream) noexcept {
  try {
    std::vector<guard_region> regions;
    std::vector<suspect> suspects;
    suspect_regions(freed, regions, suspects);
    std::unique_lock scanning(scan_mutex);
    scanner.wait(freed.freed);
    auto found = examine(regions, suspects);
    scanning.unlock();
    publish(std::move(found));
  } catch (...) {
    report_current_exception("guard_resource");
    return false;
  }
  std::unique_lock lock(mutex);
  auto extent = extents.extract({freed.begin, freed.outer.generation}); // before others may get the address
  lock.unlock();
  if (upstream.deallocate(freed.inner, scanner.stream())) {
    return true;
  }
  lock.lock();
  extents.insert(std::move(extent));
  return false;
}

void guard_resource::impl::shrink(std::size_t limit, resource& upstream) noexcept {
  for (;;) {
    std::list<blocks::node_type> leaving;
    std::unique_lock lock(mutex);
    if (quarantined <= limit) {
      return;
    }
    leaving.splice(leaving.begin(), quarantine, quarantine.begin());
    quarantined -= leaving.front().mapped().inner.bytes;
    lock.unlock();
    if (!retire(leaving.front().mapped(), upstream)) {
      lock.lock();
      quarantined += leaving.front().mapped().inner.bytes;
      quarantine.splice(quarantine.begin(), leaving);
      return;
    }
  }
}

guard_resource::guard_resource(std::shared_ptr<resource> upstream, const std::shared_ptr<backend>& device,
                               guard_options options)
    : decorator(std::move(upstream)) {
  if (options.canary % device_alignment != 0) {
    throw error(errc::invalid_argument,
                concat("guard: a canary of ", options.canary, " bytes is no multiple of ", device_alignment));
  }
  impl_ = std::make_unique<impl>(device, options);
}

guard_resource::~guard_resource() {
  impl_->shrink(0, upstream());
  if (!impl_->quarantine.empty()) {
    report("guard_resource", "blocks in quarantine could not be given back");
  }
}

block guard_resource::do_allocate(const allocation_request& what, stream_ref stream) {
  if (what.bytes == 0) {
    return upstream().allocate(what, stream);
  }
  const std::size_t alignment = std::max(what.alignment, impl_->own_alignment);
  const std::size_t canary = impl_->options.canary;
  const std::size_t front = canary == 0 ? 0 : round_up(canary, alignment);
  allocation_request around = what;
  around.bytes = checked_add(checked_add(front, what.bytes, "guarded block"), canary, "guarded block");

  guarded made;
  try {
    made.inner = upstream().allocate(around, stream);
  } catch (const error& failure) {
    if (failure.code() != errc::out_of_memory) {
      throw;
    }
    impl_->shrink(0, upstream());
    made.inner = upstream().allocate(around, stream);
  }
  made.begin = reinterpret_cast<std::uintptr_t>(made.inner.pointer);
  made.outer = made.inner;
  made.outer.pointer = static_cast<std::uint8_t*>(made.inner.pointer) + front;
  made.outer.bytes = what.bytes;
  try {
    impl_->paint(made, stream);
    impl_->remember(made); // after its canaries are queued: `check` looks at all that is remembered
  } catch (...) {
    impl_->abandon(made, stream, upstream());
    throw;
  }
  return made.outer;
}

bool guard_resource::do_deallocate(const block& what, stream_ref stream) noexcept {
  if (what.bytes == 0) {
    return upstream().deallocate(what, stream);
  }
  try {
    return impl_->take_back(what, stream, upstream());
  } catch (...) {
    report_current_exception("guard_resource");
    return false;
  }
}

std::size_t guard_resource::trim() {
  const std::uint64_t before = upstream().held_bytes();
  impl_->shrink(0, upstream());
  const std::size_t trimmed = upstream().trim();
  // What a direct resource got back from the quarantine went to the device at once, and it has nothing to trim.
  const std::uint64_t after = upstream().held_bytes();
  return std::max<std::size_t>(trimmed, before - std::min(before, after));
}

std::size_t guard_resource::check() {
  impl& state = *impl_;
  std::vector<guard_finding> found;
  {
    const std::lock_guard lock(state.mutex);
    std::vector<guard_region> regions;
    std::vector<suspect> suspects;
    for (auto& [generation, each] : state.live) {
      state.suspect_regions(each, regions, suspects);
    }
    for (auto& each : state.quarantine) {
      state.suspect_regions(each.mapped(), regions, suspects);
    }
    const std::optional<fence> everything = state.events->record_context();
    if (!everything) {
      throw error(errc::busy, "guard: can't check while a stream of the device captures a graph");
    }
    const std::lock_guard scanning(state.scan_mutex);
    state.scanner.wait(*everything);
    found = state.examine(regions, suspects);
  }
  state.publish(std::move(found));
  const std::lock_guard lock(state.findings_mutex);
  return state.findings.size();
}

std::vector<guard_finding> guard_resource::findings() const {
  const std::lock_guard lock(impl_->findings_mutex);
  return impl_->findings;
}

} // namespace saeta
