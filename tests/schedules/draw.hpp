// A random generator (splitmix64) that gives the same numbers for a seed on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace saeta::schedules {

class draw {
public:
  explicit draw(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  std::size_t below(std::size_t limit) noexcept { return next() % limit; }
  bool chance(unsigned percent) noexcept { return below(100) < percent; }

private:
  std::uint64_t state_;
};

} // namespace saeta::schedules
