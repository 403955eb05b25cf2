// The shadow of an allocation: for each byte its last write, and the reads and atomic writes since then.
//
// Order     Accesses are checked in the order in which they are queued. An access conflicts with an earlier
//           incompatible one that its clock does not cover. Costs grow with the pieces touched, not the
//           bytes.
// Thread    Guarded by the lock of the machine.
#pragma once

#include "saeta/backend/sim/vector_clock.hpp"

#include <map>

namespace saeta::sim {

struct access_record {
  stamp when; ///< number 0: no access
  std::uint32_t name = 0;
  bool reads = false;
  bool atomic = false; ///< a write that may be concurrent with other atomic ones
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
  /// By their first bytes. A sorted vector would move all later pieces for each of thousands that are cut.
  using pieces = std::map<std::size_t, piece>;

  /// The piece that begins at `at`. Splits the piece that contains `at` if needed.
  pieces::iterator cut(std::size_t at);
  static void share(piece& where, const access_record& later);

  pieces pieces_; ///< without gaps
};

} // namespace saeta::sim
