// The shadow of an allocation: for each of its bytes the last write, and the reads and atomic writes since then.
//
// Order     Accesses come in the order in which they are queued. One that an earlier one it conflicts with does not
//           come before, by the later one's clock, is a conflict. Costs grow with the pieces touched, not the bytes.
// Thread    Guarded by the lock of the machine.
#pragma once

#include "saeta/backend/sim/vector_clock.hpp"

namespace saeta::sim {

struct access_record {
  stamp when; ///< number 0: nobody
  std::uint32_t name = 0;
  bool reads = false;
  bool atomic = false; ///< of a write: others of the kind may come at the same time
};

/// Bytes [begin, end) of the allocation that the later access shares with an earlier one.
struct conflict {
  access_record earlier;
  std::size_t begin;
  std::size_t end;
};

class shadow {
public:
  /// `first` wrote all of it, or nobody.
  shadow(std::size_t bytes, access_record first) : pieces_{{0, bytes, first, {}}} {}

  /// Checks an access to bytes [begin, end) that knows what `clock` covers, and remembers it unless it is the host's.
  std::vector<conflict> touch(std::size_t begin, std::size_t end, const access_record& later,
                              const vector_clock& clock);

private:
  struct piece {
    std::size_t begin;
    std::size_t end;
    access_record write;
    std::vector<access_record> shared; ///< since then, the last read and atomic write of each stream
  };
  /// Index of the piece that begins at `at`, which is cut out of the one around it where needed.
  std::size_t cut(std::size_t at);
  void remember(std::size_t first, std::size_t last, const access_record& later);

  std::vector<piece> pieces_; ///< sorted, without gaps
};

} // namespace saeta::sim
