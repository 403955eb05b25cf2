// The journal of a machine: the races that were found, and the operations in the order in which they ran.
//
// Order     The same seed and program give the same text, which names streams, allocations and offsets, not
//           addresses.
// Thread    Guarded by the lock of the machine.
#pragma once

#include "saeta/backend/sim/operation.hpp"
#include "saeta/backend/sim/shadow.hpp"
#include "saeta/backend/sim/sim.hpp"

#include <string_view>
#include <unordered_map>

namespace saeta::sim {

class journal {
public:
  /// The number of an operation's name; equal names have equal numbers.
  std::uint32_t name(std::string_view text);
  [[nodiscard]] const std::string& name(std::uint32_t number) const { return names_[number]; }

  /// "copy on stream 7 (reads)", "free by the host".
  [[nodiscard]] std::string describe(const access_record& access) const;
  /// Beyond `most_races`, races are only counted. `where` names the allocation and the bytes in it.
  void add_race(std::string first, std::string second, byte_range meeting, std::string_view where);
  void add_finding(race found);
  void add_run(const operation& ran);

  [[nodiscard]] const std::vector<race>& races() const { return races_; }
  [[nodiscard]] std::string report(std::uint64_t seed) const;

private:
  static constexpr std::size_t most_races = 256;
  static constexpr std::size_t most_runs = std::size_t{1} << 16;

  struct run {
    stamp when;
    std::uint32_t name;
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<race> races_;
  std::vector<run> runs_;
  std::uint64_t races_left_out_ = 0;
  std::uint64_t runs_left_out_ = 0;
};

} // namespace saeta::sim
