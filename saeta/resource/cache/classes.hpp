// The size classes of the cache (resource/cache/caching_resource.hpp): four per doubling for small blocks,
// eight for large ones.
//
// A class is a number from 0; sizes are multiples of 256 bytes. A small block wastes at most a fifth of its
// bytes, a large block at most a ninth.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace saeta {

class cache_classes {
public:
  static constexpr std::size_t unit = 256;
  static constexpr std::size_t least_small = 4096;                 ///< minimum of `largest_small`
  static constexpr std::size_t most_cached = std::size_t{1} << 36; ///< maximum of `largest_cached`
  /// Maximum number of classes: with the smallest `largest_small` and the largest `largest_cached`.
  static constexpr std::size_t most = 4 * 3 + 8 * (std::bit_width(most_cached / least_small) - 1);

  cache_classes(std::size_t largest_small, std::size_t largest_cached) noexcept
      : small_(small_index((largest_small - 1) / unit) + 1), small_units_(small_bytes(small_ - 1) / unit),
        large_offset_(large_index(small_units_)),
        count_(largest_cached <= small_units_ * unit ? small_ : of(largest_cached) + 1),
        largest_(bytes(count_ - 1)) {}

  /// The smallest class that holds `bytes`, which is 1 to `largest()`.
  [[nodiscard]] std::size_t of(std::size_t bytes) const noexcept {
    const std::size_t last = (bytes - 1) / unit;
    return last < small_units_ ? small_index(last) : small_ + large_index(last) - large_offset_;
  }
  [[nodiscard]] std::size_t bytes(std::size_t size_class) const noexcept {
    if (size_class < small_) {
      return small_bytes(size_class);
    }
    const std::size_t index = size_class - small_ + large_offset_;
    return step(index / 8 - 3, 9 + index % 8);
  }
  [[nodiscard]] bool small(std::size_t size_class) const noexcept { return size_class < small_; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::size_t largest() const noexcept { return largest_; }

private:
  static std::size_t power_below(std::size_t value) noexcept {
    return static_cast<std::size_t>(std::bit_width(value)) - 1;
  }
  static std::size_t step(std::size_t shift, std::size_t parts) noexcept { return (parts << shift) * unit; }
  static std::size_t small_bytes(std::size_t size_class) noexcept {
    return size_class < 4 ? (size_class + 1) * unit : step(size_class / 4 - 1, 5 + size_class % 4);
  }
  /// @param last  index of the last unit that is needed, from 0
  static std::size_t small_index(std::size_t last) noexcept {
    if (last < 4) {
      return last;
    }
    const std::size_t power = power_below(last);
    return 4 * (power - 1) + ((last >> (power - 2)) & 3);
  }
  static std::size_t large_index(std::size_t last) noexcept {
    const std::size_t power = power_below(last);
    return 8 * power + ((last >> (power - 3)) & 7);
  }

  std::size_t small_; ///< number of classes of small blocks
  std::size_t small_units_;
  std::size_t large_offset_; ///< index of the first large class
  std::size_t count_;
  std::size_t largest_;
};

} // namespace saeta
