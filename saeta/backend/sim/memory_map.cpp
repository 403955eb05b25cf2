#include "saeta/backend/sim/memory_map.hpp"

#include "saeta/base/text.hpp"

namespace saeta::sim {
namespace {

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

std::string describe(const allocation& where) {
  const char* const kind = where.kind == allocation_kind::pinned ? "page-locked allocation " : "allocation ";
  return concat(kind, where.number, " (", where.bytes, " bytes, sim:", where.ordinal, ")");
}

} // namespace

allocation& memory_map::add(std::uint8_t* base, std::size_t bytes, allocation_kind kind, std::int32_t ordinal,
                            access_record first) {
  const std::uintptr_t begin = address(base);
  auto covered = freed_.lower_bound(begin);
  if (covered != freed_.begin() && std::prev(covered)->first + std::prev(covered)->second.bytes > begin) {
    --covered;
  }
  while (covered != freed_.end() && covered->first < begin + bytes) {
    covered = freed_.erase(covered);
  }
  return live_.try_emplace(begin, allocation{++count_, base, bytes, kind, ordinal, shadow(bytes, first)})
      .first->second;
}

allocation* memory_map::beginning_at(const void* base) {
  const auto entry = live_.find(address(base));
  return entry == live_.end() ? nullptr : &entry->second;
}

allocation* memory_map::find_around(const void* pointer) {
  auto after = live_.upper_bound(address(pointer));
  if (after == live_.begin()) {
    return nullptr;
  }
  allocation& before = std::prev(after)->second;
  return address(pointer) - address(before.base) < before.bytes ? &before : nullptr;
}

std::vector<void*> memory_map::pinned_of(std::int32_t ordinal) const {
  std::vector<void*> values;
  for (const auto& [begin, one] : live_) {
    if (one.kind == allocation_kind::pinned && one.ordinal == ordinal) {
      values.push_back(one.base);
    }
  }
  return values;
}

void memory_map::remove(const allocation& gone, const access_record& freed) {
  const std::uintptr_t begin = address(gone.base);
  if (gone.kind != allocation_kind::pinned) {
    freed_[begin] = {gone.number, gone.bytes, freed};
  }
  live_.erase(begin);
}

bool memory_map::check(const access& touch, access_record later, const vector_clock& clock,
                       bool device_memory, journal& log) {
  later.reads = touch.reads;
  later.atomic = touch.atomic;
  if (touch.bytes == 0) {
    return true;
  }
  allocation* const where = find_around(touch.pointer);
  if (where == nullptr) {
    if (device_memory) {
      check_missing(touch, later, log);
    }
    return !device_memory;
  }
  const auto begin = static_cast<std::size_t>(static_cast<const std::uint8_t*>(touch.pointer) - where->base);
  const std::size_t end = begin + std::min(touch.bytes, where->bytes - begin);
  if (end - begin < touch.bytes) {
    log.add_race("the end", log.describe(later), {where->base + end, touch.bytes - (end - begin)},
                 concat(touch.bytes - (end - begin), " bytes past the end of ", describe(*where)));
  }
  const std::vector<conflict> conflicts = where->touched.touch(begin, end, later, clock);
  for (const conflict& one : conflicts) {
    log.add_race(log.describe(one.earlier), log.describe(later),
                 {where->base + one.begin, one.end - one.begin},
                 concat("bytes ", one.begin, " to ", one.end, " of ", describe(*where), "; operations #",
                        one.earlier.when.number, " and #", later.when.number));
  }
  return conflicts.empty() && end - begin == touch.bytes;
}

void memory_map::check_missing(const access& touch, const access_record& later, journal& log) {
  const auto after = freed_.upper_bound(address(touch.pointer));
  if (after != freed_.begin()) {
    const auto& [begin, gone] = *std::prev(after);
    const std::uintptr_t offset = address(touch.pointer) - begin;
    if (offset < gone.bytes) {
      log.add_race(log.describe(gone.freed), log.describe(later), {touch.pointer, touch.bytes},
                   concat("use of freed memory, ", touch.bytes, " bytes at ", offset,
                          " of what was allocation ", gone.number, " (", gone.bytes, " bytes)"));
      return;
    }
  }
  log.add_race("nobody", log.describe(later), {touch.pointer, touch.bytes},
               concat("use of ", touch.bytes, " bytes that were never allocated"));
}

} // namespace saeta::sim
