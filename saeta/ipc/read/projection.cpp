#include "saeta/ipc/read/projection.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/column_name.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace saeta::ipc::detail {
namespace {

std::vector<int> numbers_of(const std::vector<std::string_view>& source,
                            const std::vector<std::string>& columns, std::string_view where) {
  std::unordered_multimap<std::string_view, int> places;
  for (const std::string_view name : source) {
    places.emplace(name, static_cast<int>(places.size()));
  }
  std::vector<int> numbers;
  for (const std::string& name : columns) {
    const auto [first, end] = places.equal_range(name);
    if (first == end) {
      throw error(errc::column_name, concat(where, ": ", unknown_column_text(name, source)));
    }
    if (std::next(first) != end) {
      throw error(errc::column_name, concat(where, ": more than one column is named '", name, "'"));
    }
    numbers.push_back(first->second);
  }
  return numbers;
}

} // namespace

projection project(const std::vector<std::string_view>& source,
                   const std::optional<std::vector<std::string>>& columns, std::string_view where) {
  projection chosen;
  if (!columns) {
    chosen.requested.resize(source.size());
    std::iota(chosen.requested.begin(), chosen.requested.end(), 0);
    chosen.decoded = chosen.order = chosen.requested;
    return chosen;
  }
  chosen.requested = numbers_of(source, *columns, where);
  chosen.decoded = chosen.requested;
  std::ranges::sort(chosen.decoded);
  chosen.decoded.erase(std::unique(chosen.decoded.begin(), chosen.decoded.end()), chosen.decoded.end());
  for (const int number : chosen.requested) {
    const auto place = std::ranges::lower_bound(chosen.decoded, number);
    chosen.order.push_back(static_cast<int>(place - chosen.decoded.begin()));
  }
  return chosen;
}

} // namespace saeta::ipc::detail
