// A span map: which parts of some regions of memory are free. Best fit; what is left over stays free, and free neighbours of
// one region are merged.
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

  /// A region, which is free. Regions do not overlap.
  void add(address begin, std::size_t bytes);
  /// The beginning of the smallest free span of `bytes` to `most` bytes, taken as far as it is needed.
  [[nodiscard]] std::optional<address> take(std::size_t bytes, std::size_t most);
  /// @param begin  as `take` returned it.
  void give_back(address begin);

private:
  struct span {
    std::size_t bytes;
    address region; ///< the beginning of its region
    bool free;
  };

  std::map<address, span> spans_;                     ///< without gaps inside a region
  std::set<std::pair<std::size_t, address>> by_size_; ///< the free ones
};

} // namespace saeta
