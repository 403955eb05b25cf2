// Numbers the tiles of a list of steps. A tile is the part of a step that a block of threads does at a
// time.
#pragma once

#include "saeta/base/export.hpp"

#include <cstdint>

namespace SAETA_EXPORT saeta {

/// Sets `first_tile` of every step to the number of tiles before it. Call it before the upload. Returns the
/// number of tiles of all steps.
/// @param steps  a range of steps, for which there is an overload of `count_tiles`
template <class Steps>
constexpr std::int64_t number_tiles(Steps&& steps) noexcept {
  std::int64_t total = 0;
  for (auto& step : steps) {
    step.first_tile = total;
    total += count_tiles(step);
  }
  return total;
}

} // namespace saeta
