#include "saeta/base/closest.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace saeta {
namespace {

constexpr std::size_t longest_compared = 64; // bytes

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

/// How many bytes must be inserted, removed or replaced to make one name of the other, whatever their case.
std::size_t distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t k = 0; k < other.size(); ++k) {
      const std::size_t replaced = diagonal + (lower(one[i]) == lower(other[k]) ? 0 : 1);
      diagonal = row[k + 1];
      row[k + 1] = std::min({replaced, diagonal + 1, row[k] + 1});
    }
  }
  return row.back();
}

} // namespace

std::string_view closest(std::string_view wanted, std::span<const std::string_view> known) {
  std::string_view text;
  std::size_t least = wanted.size() < 3 ? 1 : (wanted.size() + 2) / 3 + 1;
  for (const std::string_view name : known) {
    if (std::max(name.size(), wanted.size()) <= longest_compared) {
      if (const std::size_t differs = distance(wanted, name); differs < least) {
        text = name;
        least = differs;
      }
    }
  }
  return text;
}

} // namespace saeta
