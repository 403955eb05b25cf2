// Which columns of a source are decoded, and the order in which they are given out.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace saeta::ipc::detail {

struct projection {
  std::shared_ptr<arrow::Schema> described; ///< the columns asked for, in the order asked for
  std::vector<int> decoded;                 ///< their numbers in the source, ascending; empty: all
  std::vector<int> order;                   ///< for each column asked for, its place among those decoded
};

/// @param columns  names, each unique in the source; may repeat. Nothing: every column.
/// @throws error invalid_argument naming the column, and those that there are.
projection project(const arrow::Schema& source, const std::optional<std::vector<std::string>>& columns,
                   std::string_view where);

} // namespace saeta::ipc::detail
