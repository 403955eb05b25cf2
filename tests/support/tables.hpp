// Random tables for tests, and comparison of tables by value.
//
// Contents  `random_table` fills batches with every requested type. `same_contents` decodes both sides,
//           including dictionaries: a table that went through a file has other buffers, offsets and
//           dictionaries.
#pragma once

#include "saeta/column/table.hpp"
#include "support/arrays.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace saeta::support {

struct table_shape {
  std::vector<std::int64_t> batch_rows{200, 1, 0, 77};
  bool one_dictionary = true; ///< all batches of a column share a dictionary; otherwise each has its own
  nulls in_dictionaries = nulls::absent;
  std::uint64_t seed = 1;
};

/// Makes one column for each type, with nulls, names such as "0:null" and "1:bool", and metadata on schema
/// and fields.
table random_table(const std::shared_ptr<context>& ctx, const std::vector<data_type>& types,
                   const table_shape& shape);

/// Makes a table of arrays: `batches[b][c]` is column c of batch b. All columns of a batch have the same
/// length.
table table_of(const std::shared_ptr<context>& ctx, const schema& fields,
               const std::vector<std::vector<shared_array>>& batches);

/// Makes an array of strings without nulls.
shared_array strings(const std::vector<std::string_view>& values);
/// Makes dictionary indices of type int32 without nulls.
shared_array indices(const std::vector<std::int32_t>& values, shared_array dictionary);

/// The value of a row as bytes, or nullopt for a null. A boolean is one byte; dictionary rows are decoded.
using cell = std::optional<std::string>;
/// Downloads a column and returns its rows.
std::vector<cell> cells(const column& source);
/// Returns the rows of column `index` of a table, in all batches.
std::vector<cell> cells(const table& source, std::size_t index);

/// Compares schemas, rows in each batch, values and null counts. The message names the first difference.
::testing::AssertionResult same_contents(const table& seen, const table& expected);

} // namespace saeta::support
