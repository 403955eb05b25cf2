// Every way of reading one IPC file or stream, compared.
//
// What      The reader reads views, copies, batches one by one, windows of a scan and chosen columns, and
//           joins batches, on the host and on a simulated device. All of them refuse a source, or all have
//           its rows.
//           There is one exception: copies by a plan have only the rows that the rows of their parents refer
//           to, so that they may take a source that the others refuse for the values of other rows.
// Owner     The caller's bytes outlive the tables. Nothing is alive on the simulated device afterwards.
#pragma once

#include "saeta/base/error.hpp"
#include "saeta/column/table.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace saeta::fuzz {

/// A table, or why there is none.
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

/// Ends the program unless the columns are the same and have the same rows, in whatever batches.
/// @param way  of reading `seen`, for the text
void require_same_rows(const std::string& way, const table& seen, const table& expected);

/// Reads the bytes in every way. Returns what the ways have in common that check every row.
attempt require_one_meaning(std::span<const std::byte> bytes);

} // namespace saeta::fuzz
