// The memory map of a machine: its allocations and the accesses to them.
//
// Owner     The map owns only records. The bytes belong to arenas or, if page-locked, to the caller that
//           added the record.
// Order     Every access is checked when it is queued. Ordinary host memory is not recorded and never
//           checked.
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
  bool atomic = false; ///< a write that does not conflict with concurrent atomic writes
};

enum class allocation_kind { direct, stream_ordered, pinned, imported };

struct allocation {
  std::uint64_t number;
  std::uint8_t* base;
  std::size_t bytes;
  allocation_kind kind;
  std::int32_t ordinal; ///< of the device that allocated it
  shadow touched;
  /// How many imports of this process have the allocation open. An imported allocation shares the original's
  /// counter if the original belongs to this process.
  std::shared_ptr<std::atomic<int>> importers{};
};

class memory_map {
public:
  /// Records a new allocation. `first` is the write that fills all of it, if there is one.
  allocation& add(std::uint8_t* base, std::size_t bytes, allocation_kind kind, std::int32_t ordinal,
                  access_record first = {});
  /// `beginning_at` finds the allocation that begins at an address, `around` the one that contains it; null
  /// if none does.
  [[nodiscard]] allocation* beginning_at(const void* base);
  [[nodiscard]] allocation* find_around(const void* pointer);
  /// The addresses of a device's page-locked allocations.
  [[nodiscard]] std::vector<void*> pinned_of(std::int32_t ordinal) const;
  /// Removes an allocation. For device memory, a later use of the address is reported together with `freed`.
  void remove(const allocation& gone, const access_record& freed);

  /// Reports conflicts of the access by `later`, which comes after everything that `clock` covers.
  /// `device_memory`: the address lies in an arena, so an allocation must exist there. True when there is no
  /// conflict.
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
  std::map<std::uintptr_t, grave> freed_;     ///< by base; blocks whose addresses were not reused since
  std::uint64_t count_ = 0;
};

} // namespace saeta::sim
