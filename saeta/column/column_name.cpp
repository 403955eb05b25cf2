#include "saeta/column/column_name.hpp"

#include "saeta/base/text.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace saeta {
namespace {

constexpr std::size_t shown_names = 32;
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

/// Empty if no name is close. About a third of the letters may differ; of one or two letters, only the case.
std::string_view closest(std::string_view wanted, std::span<const std::string_view> known) {
  std::string_view found;
  std::size_t least = wanted.size() < 3 ? 1 : (wanted.size() + 2) / 3 + 1;
  for (const std::string_view name : known) {
    if (std::max(name.size(), wanted.size()) <= longest_compared) {
      if (const std::size_t differs = distance(wanted, name); differs < least) {
        found = name;
        least = differs;
      }
    }
  }
  return found;
}

} // namespace

std::string unknown_column_text(std::string_view wanted, std::span<const std::string_view> known) {
  if (known.empty()) {
    return concat("no column '", wanted, "': there are no columns");
  }
  const std::string_view meant = closest(wanted, known);
  std::string text = meant.empty()
                         ? concat("no column '", wanted, "': the columns are ")
                         : concat("no column '", wanted, "': did you mean '", meant, "'? The columns are ");
  for (std::size_t i = 0; i < std::min(known.size(), shown_names); ++i) {
    text += concat(i == 0 ? "'" : ", '", known[i], "'");
  }
  return known.size() > shown_names ? concat(text, " and ", known.size() - shown_names, " more") : text;
}

} // namespace saeta
