// The journal of a machine: the races that were found, and the operations in the order in which they ran.
//
// Order     The same seed and program give the same text, which names streams, allocations and offsets, not
//           addresses.
// Thread    Guarded by the lock of the machine.

#pragma once

#include "saeta/backend/sim/operation.hpp"
#include "saeta/backend/sim/sim.hpp"

#include <map>
#include <string_view>
#include <unordered_map>

namespace saeta::sim {

/// The shadow of an allocation: for each byte its last write, and the reads and atomic writes since then.
///
/// Order     Accesses are checked in the order in which they are queued. An access conflicts with an earlier
///           incompatible one that its clock does not cover. Costs grow with the pieces touched, not the
///           bytes.
/// Thread    Guarded by the lock of the machine.
struct access_record {
  stamp when; ///< number 0: no access
  std::uint32_t name = 0;
  bool reads = false;
  bool atomic = false; ///< a write that may be concurrent with other atomic writes
};

/// A conflict with an earlier access, in bytes [begin, end) of the allocation.
struct conflict {
  access_record earlier;
  std::size_t begin;
  std::size_t end;
};

class shadow {
public:
  /// `first` is the write that fills all bytes, if there is one.
  shadow(std::size_t bytes, access_record first) : pieces_{{0, {bytes, first, {}}}} {}

  /// Checks an access to bytes [begin, end) that comes after everything that `clock` covers. Records it
  /// unless it is the host's.
  std::vector<conflict> touch(std::size_t begin, std::size_t end, const access_record& later,
                              const vector_clock& clock);

private:
  struct piece {
    std::size_t end;
    access_record write;
    /// Since `write`: the last read and the last atomic write of each stream
    std::vector<access_record> shared;
  };
  /// Keyed by the first byte of each piece. A sorted vector would move all later pieces whenever one is cut.
  using pieces = std::map<std::size_t, piece>;

  /// The piece that begins at `at`. Splits the piece that contains `at` if needed.
  pieces::iterator cut(std::size_t at);
  static void share(piece& where, const access_record& later);

  pieces pieces_; ///< without gaps
};

class journal {
public:
  /// The number of an operation's name; equal names have equal numbers.
  std::uint32_t name(std::string_view text);
  [[nodiscard]] const std::string& name(std::uint32_t number) const { return names_[number]; }

  /// "copy on stream 7 (reads)", "free by the host".
  [[nodiscard]] std::string describe(const access_record& access) const;
  /// Beyond `most_races`, races are only counted. `where` names the allocation and the bytes in it.
  void add_race(std::string first, std::string second, byte_range meeting, std::string_view where);
  void add_finding(race race);
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
