// Quantiles of measured samples.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

namespace saeta::bench {

/// Returns a quantile by linear interpolation; `share` 0.5 is the median.
/// @throws std::invalid_argument if there are no samples
inline double quantile(std::vector<double> samples, double share) {
  if (samples.empty()) {
    throw std::invalid_argument("no samples: nothing was measured");
  }
  std::sort(samples.begin(), samples.end());
  const double at = share * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  const double rest = at - static_cast<double>(below);
  return samples[below] * (1 - rest) + samples[above] * rest;
}

} // namespace saeta::bench
