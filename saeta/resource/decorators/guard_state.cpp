#include "saeta/resource/decorators/guard_state.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/report.hpp"

#include <algorithm>

namespace saeta {
namespace {

constexpr std::uint8_t canary_value = 0xCB;
constexpr std::uint8_t fresh_value = 0xA5;
constexpr std::uint8_t freed_value = 0xDD;

using kind = guard_finding::kind;

std::uint8_t* start(const guarded& of) { return static_cast<std::uint8_t*>(of.outer.pointer); }

std::string_view words(kind found) {
  switch (found) {
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

guard_finding describe(kind kind, const block& of, std::int64_t offset, const std::string& details = {}) {
  const auto address = reinterpret_cast<std::uintptr_t>(of.pointer);
  return {kind,
          of.label,
          of.generation,
          address,
          of.bytes,
          offset,
          concat("block '", of.label.name(), "' of ", of.bytes, " bytes at ", of.pointer, " (generation ",
                 of.generation, "): ", words(kind), details)};
}

} // namespace

void guard_state::paint(const guarded& made, stream_ref stream) const {
  const auto fill = [&](std::uint8_t* from, std::uint8_t value, std::size_t bytes) {
    stream.owner().fill(from, value, bytes, stream.native_handle());
  };
  fill(start(made) - guard_canary, canary_value, guard_canary);
  fill(start(made) + made.outer.bytes, canary_value, guard_canary);
  fill(start(made), fresh_value, made.outer.bytes);
}

bool guard_state::poison(guarded& freed, std::span<const point> after) noexcept {
  try {
    const stream_ref stream = scanner.stream();
    for (const point& point : after) {
      wait(stream, point);
    }
    stream.owner().fill(freed.outer.pointer, freed_value, freed.outer.bytes, stream.native_handle());
    freed.poisoned = true;
    freed.freed = mark(stream);
    return true;
  } catch (...) {
    report_current_exception("guard_resource");
    return false;
  }
}

void guard_state::remember(const guarded& made) {
  std::vector<guard_finding> detected;
  {
    const std::lock_guard lock(mutex);
    const std::pair key(made.begin, made.outer.generation);
    const std::uintptr_t end = made.begin + made.inner.bytes;
    const auto next = extents.lower_bound({made.begin, 0});
    if ((next != extents.end() && next->first.first < end) ||
        (next != extents.begin() && std::prev(next)->second > made.begin)) {
      detected.push_back(describe(kind::overlap, made.outer, 0));
    }
    const auto extent = extents.emplace(key, end).first;
    try {
      live.emplace(key.second, made);
    } catch (...) {
      extents.erase(extent);
      throw;
    }
  }
  publish(std::move(detected));
}

void guard_state::abandon(const guarded& made, stream_ref stream, resource& upstream) noexcept {
  if (!upstream.deallocate(made.inner, stream)) { // some of its fills may be queued
    report("guard_resource", "a block that could not be guarded could not be freed");
  }
}

bool guard_state::take_back(const block& returned, std::span<const point> after, resource& upstream) {
  std::list<blocks::node_type> leaving(1); // allocated first, so that a later bad_alloc can't lose the block
  std::unique_lock lock(mutex);
  const auto known = live.find(returned.generation);
  if (known == live.end() || known->second.outer.pointer != returned.pointer) {
    lock.unlock();
    publish({describe(kind::unknown_block, returned, 0)});
    return false;
  }
  leaving.front() = live.extract(known);
  lock.unlock();

  guarded& freed = leaving.front().mapped();
  const bool at_once = options.quarantine == 0;
  if (!poison(freed, after) || (at_once && !retire(freed, upstream))) {
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

void guard_state::add_regions(guarded& of, std::vector<guard_region>& regions,
                              std::vector<guard_suspect>& suspects) const {
  const auto size = static_cast<std::int64_t>(of.outer.bytes);
  const auto add = [&](kind kind, std::int64_t offset, std::size_t bytes, std::uint8_t expected) {
    if (bytes != 0 && (of.found & (1u << static_cast<unsigned>(kind))) == 0) {
      suspects.push_back({&of, kind, offset});
      regions.push_back({start(of) + offset, bytes, expected});
    }
  };
  add(kind::front_canary, -static_cast<std::int64_t>(guard_canary), guard_canary, canary_value);
  add(kind::back_canary, size, guard_canary, canary_value);
  add(kind::written_after_free, 0, of.poisoned ? of.outer.bytes : 0, freed_value);
}

std::vector<guard_finding> guard_state::examine(const std::vector<guard_region>& regions,
                                                const std::vector<guard_suspect>& suspects) {
  std::vector<guard_finding> detected;
  const auto wrong = scanner.scan(regions);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    if (wrong[i]) {
      const guard_suspect& seen = suspects[i];
      const std::int64_t offset = seen.offset + static_cast<std::int64_t>(wrong[i]->offset);
      detected.push_back(describe(
          seen.found, seen.of->outer, offset,
          concat(", first at byte ", offset, ": ", +wrong[i]->value, " instead of ", +regions[i].expected)));
      seen.of->found |= 1u << static_cast<unsigned>(seen.found);
    }
  }
  return detected;
}

void guard_state::publish(std::vector<guard_finding> detected) noexcept {
  for (guard_finding& finding : detected) {
    report("guard_resource", finding.text);
    try {
      const std::lock_guard lock(findings_mutex);
      findings.push_back(std::move(finding));
    } catch (...) {
      report_current_exception("guard_resource");
    }
  }
}

bool guard_state::retire(guarded& freed, resource& upstream) noexcept {
  try {
    std::vector<guard_region> regions;
    std::vector<guard_suspect> suspects;
    add_regions(freed, regions, suspects);
    std::unique_lock scanning(scan_mutex);
    auto detected = examine(regions, suspects);
    scanning.unlock();
    publish(std::move(detected));
  } catch (...) {
    report_current_exception("guard_resource");
    return false;
  }
  std::unique_lock lock(mutex);
  // Before another thread may get the address.
  auto extent = extents.extract({freed.begin, freed.outer.generation});
  lock.unlock();
  if (upstream.deallocate(freed.inner, std::span<const point>())) {
    return true;
  }
  lock.lock();
  extents.insert(std::move(extent));
  return false;
}

void guard_state::shrink(std::size_t limit, resource& upstream) noexcept {
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

void guard_state::check_all() {
  std::vector<guard_finding> detected;
  {
    const std::lock_guard lock(mutex);
    std::vector<guard_region> regions;
    std::vector<guard_suspect> suspects;
    for (auto& [generation, each] : live) {
      add_regions(each, regions, suspects);
    }
    for (auto& each : quarantine) {
      add_regions(each.mapped(), regions, suspects);
    }
    // Taken now, so that it covers all work queued for the blocks that were found.
    const std::optional<point> everything = clock->mark_device();
    if (!everything) {
      throw error(errc::busy, "guard: can't check while a stream of the device captures a graph");
    }
    const std::lock_guard scanning(scan_mutex);
    wait(scanner.stream(), *everything);
    detected = examine(regions, suspects);
  }
  publish(std::move(detected));
}

} // namespace saeta
