// The memory map of a machine: what is allocated where, and who touched it.
//
// Owner     Records only; the bytes belong to arenas and, page-locked, to whoever asked for the record.
// Order     Every access is checked when it is queued. Ordinary host memory is unknown here and never checked.
// Thread    Guarded by the lock of the machine.
#pragma once

#include "saeta/backend/sim/journal.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <optional>

namespace saeta::sim {

struct access {
  const void* pointer;
  std::size_t bytes;
  bool reads;
  bool atomic = false; ///< a write that agrees with other atomic ones at the same time
};

enum class allocation_kind { direct, stream_ordered, pinned, imported };

struct allocation {
  std::uint64_t number;
  std::uint8_t* base;
  std::size_t bytes;
  allocation_kind kind;
  std::int32_t ordinal; ///< of the device that it was asked from
  shadow touched;
  /// Who of this process has it open; of an imported one, that of the original, where the original is of this process.
  std::shared_ptr<std::atomic<int>> importers{};
};

class memory_map {
public:
  /// `first` wrote all of it, or nobody.
  allocation& add(std::uint8_t* base, std::size_t bytes, allocation_kind kind, std::int32_t ordinal,
                  access_record first = {});
  /// Null where no allocation begins, or holds the address.
  [[nodiscard]] allocation* beginning_at(const void* base);
  [[nodiscard]] allocation* around(const void* pointer);
  /// Where the page-locked allocations of a device begin.
  [[nodiscard]] std::vector<void*> pinned_of(std::int32_t ordinal) const;
  /// Forgets it; for device memory, `freed` is named when the address is used afterwards.
  void remove(const allocation& gone, const access_record& freed);

  /// Reports what conflicts with the access by `later`, which knows what `clock` covers. `device_memory`: the address lies
  /// in an arena, so there must be an allocation. True when it found nothing.
  bool check(const access& touch, access_record later, const vector_clock& clock, bool device_memory,
             journal& log);

private:
  struct grave {
    std::uint64_t number;
    std::size_t bytes;
    access_record freed;
  };
  void check_missing(const access& touch, const access_record& later, journal& log);

  std::map<std::uintptr_t, allocation> live_; ///< by base
  std::map<std::uintptr_t, grave> freed_;     ///< by base, where nothing was allocated since
  std::uint64_t count_ = 0;
};

} // namespace saeta::sim
