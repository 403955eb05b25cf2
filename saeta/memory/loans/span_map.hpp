// A span map: tracks which parts of some memory regions are free. Allocation is best fit: the rest of a span
// stays free, and free neighbours in a region are merged.
//
// Thread    One at a time.
// Failure   std::bad_alloc, with nothing changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace saeta {

class span_map {
public:
  using address = std::uintptr_t;

  /// Adds a free region. Regions must not overlap.
  void add(address begin, std::size_t bytes);
  /// Takes `bytes` from the smallest free span of `bytes` to `most` bytes, and returns their beginning.
  [[nodiscard]] std::optional<address> take(std::size_t bytes, std::size_t most);
  /// @param begin  as `take` returned it.
  void give_back(address begin);

private:
  struct span {
    std::size_t bytes;
    address region; ///< the beginning of its region
    bool free;
  };

  std::map<address, span> spans_;                     ///< no gaps inside a region
  std::set<std::pair<std::size_t, address>> by_size_; ///< free spans only
};

} // namespace saeta
