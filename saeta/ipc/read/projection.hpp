// The columns of a source that are decoded, and the order in which they are returned.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace saeta::ipc::detail {

struct projection {
  std::shared_ptr<arrow::Schema> described; ///< the requested columns, in the requested order
  std::vector<int> decoded;                 ///< their indices in the source, ascending; empty: all
  std::vector<int> order;                   ///< for each requested column, its index among the decoded ones
};

/// @param columns  names, each unique in the source; a name may be repeated. nullopt: all columns.
/// @throws error column_name with the name and the names in the source.
projection project(const arrow::Schema& source, const std::optional<std::vector<std::string>>& columns,
                   std::string_view where);

} // namespace saeta::ipc::detail
