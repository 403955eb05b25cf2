// A small random number generator with the same sequence on every platform (splitmix64).
#pragma once

#include <cstdint>

namespace saeta::sim {

class random_source {
public:
  explicit random_source(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t mixed = (state_ += 0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }
  /// 0 to `end` - 1; the bias of the remainder does not matter here.
  std::uint64_t below(std::uint64_t end) noexcept { return next() % end; }
  bool chance(unsigned percent) noexcept { return below(100) < percent; }

private:
  std::uint64_t state_;
};

} // namespace saeta::sim
