// Seeded tables for tests, and tables compared by what their rows say.
//
// What      `random_table` fills batches with every requested type. `same_contents` decodes both sides,
//           dictionaries too: a table that went through a file has other buffers, offsets and dictionaries.
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
  bool one_dictionary = true; ///< for all batches of a column; otherwise one for each batch
  nulls in_dictionaries = nulls::absent;
  std::uint64_t seed = 1;
};

/// One column for each type, with nulls, names "0:null", "1:bool", and metadata on the schema and each field.
table random_table(const std::shared_ptr<context>& ctx, const std::vector<data_type>& types,
                   const table_shape& shape);

/// A table of plain arrays: `batches[b][c]` is column c of batch b, all of equal length in a batch.
table table_of(const std::shared_ptr<context>& ctx, const schema& fields,
               const std::vector<std::vector<shared_array>>& batches);

/// A column of strings without nulls.
shared_array strings(const std::vector<std::string_view>& values);
/// Dictionary indices of type int32 without nulls.
shared_array indices(const std::vector<std::int32_t>& values, shared_array dictionary);

/// Nothing for a null, otherwise the value's bytes. A boolean is one byte, a dictionary row its value.
using cell = std::optional<std::string>;
/// Rows of a column; downloads it.
std::vector<cell> cells(const column& source);
/// Rows of column `index` of a table, all batches.
std::vector<cell> cells(const table& source, std::size_t index);

/// Equal schemas, rows in each batch, values and null counts; says which is the first that differs.
::testing::AssertionResult same_contents(const table& seen, const table& expected);

} // namespace saeta::support
