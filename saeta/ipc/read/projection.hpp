// The columns of a source that are decoded, and the order in which they are returned.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace saeta::ipc::detail {

struct projection {
  std::vector<int> requested; ///< indices in the source, in the requested order
  std::vector<int> decoded;   ///< the same, each once and ascending
  std::vector<int> order;     ///< for each requested column, its index among the decoded ones
};

/// @param source   the names of the columns of the source.
/// @param columns  names, each unique in the source; a name may be repeated. nullopt: all columns.
/// @throws error column_name with the name and the names in the source.
projection project(const std::vector<std::string_view>& source,
                   const std::optional<std::vector<std::string>>& columns, std::string_view where);

} // namespace saeta::ipc::detail
