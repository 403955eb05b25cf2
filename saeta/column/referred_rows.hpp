// The rows of children, and the bytes, that the rows of columns refer to. Found for many columns at once.
#pragma once

#include "saeta/column/row_bytes.hpp"

#include <span>
#include <vector>

namespace saeta {

/// What the rows of a column refer to: rows of its children, one entry for each or one for all of them.
/// Without children, the bytes that offsets refer to; of views only their number.
struct referred_rows {
  std::vector<child_rows> rows{{}};
};

/// @param columns  of one context
/// @param counted  how child rows and bytes count for list views, dense unions and views, whose rows refer to
///                 them in any order.
/// @param measured set to false if the memory could not be read. Values then count as evenly spread.
[[nodiscard]] std::vector<referred_rows> find_referred_rows(std::span<const column> columns,
                                                            scattered_rows counted, bool& measured);

/// Bytes of the buffers that the views of a column refer to.
[[nodiscard]] std::int64_t bytes_behind_views(const column& of);

} // namespace saeta
