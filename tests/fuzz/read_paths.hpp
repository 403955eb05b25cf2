// Reads one IPC file or stream by every path of the reader, and compares the results.
//
// Paths     Views, copies, single batches, windows of a scan, selected columns and joined batches, on the
//           host and on a simulated device. Either all paths refuse a source, or all return the same rows.
//           There is one exception: planned copies have only the child rows that parent rows refer to. So
//           they may accept a source that the other paths refuse because of values in the remaining rows.
// Owner     The caller's bytes must outlive the tables. Afterwards the simulated device has no live buffer.
#pragma once

#include "saeta/base/error.hpp"
#include "saeta/column/table.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace saeta::fuzz {

/// The result of a read: a table, or the error.
struct attempt {
  std::optional<table> made;
  std::optional<error> refused;
};

template <class Make>
attempt try_to(Make make) {
  try {
    return {make(), std::nullopt};
  } catch (const error& failure) {
    return {std::nullopt, failure};
  }
}

std::string text_of(const attempt& of);

/// Aborts unless the tables have the same schema and rows. Their batches may differ.
/// @param path names the path that returned `seen`, for the message
void require_same_rows(const std::string& path, const table& seen, const table& expected);

/// Reads the bytes by every path and compares. Returns the common result of the paths that check every row.
attempt require_one_meaning(std::span<const std::byte> bytes);

} // namespace saeta::fuzz
