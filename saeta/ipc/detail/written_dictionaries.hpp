// The dictionaries of a table on their way into a file or a stream.
//
// What      The batches of a table may share a dictionary, have equal ones, or different ones. Each distinct one is brought
//           to the host once; the batches then travel as plain indices and get their dictionary back here. A file holds
//           one dictionary a column, so there different ones are united and the indices renumbered; a stream replaces
//           them on the way. Symbols travel as their numbers and get one dictionary of all names that the table has of them: what is
//           on a device is downloaded twice, once to find the names.
// Owner     Holds the host's copies (on a host context views) while a table is written.
// Thread    `restore` may be called from any thread, one at a time.
// Failure   unsupported: dictionaries that can't be united (they have nulls, the indices are too narrow for the union, or they
//           lie inside of another type), a dictionary of a dictionary; out_of_range: an index outside its dictionary.
//           or a symbol that its table does not have. All name the column.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/transfer/symbols.hpp"

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

class written_dictionaries {
public:
  written_dictionaries(const table& source, const arrow::Schema& described, container format);

  /// `source` with plain indices in place of its dictionary columns, and numbers in place of symbols.
  [[nodiscard]] const table& indices() const noexcept { return indices_; }
  /// True for a column of which `restore` reads or changes values, and not their dictionary alone.
  [[nodiscard]] bool rewrites(std::size_t number) const;
  /// Batch `index` of `indices()`, with dictionaries again.
  [[nodiscard]] std::shared_ptr<arrow::RecordBatch>
  restore(std::size_t index, const arrow::RecordBatch& plain,
          const std::shared_ptr<arrow::Schema>& described) const;

private:
  /// One distinct dictionary of a column.
  struct entry {
    std::shared_ptr<arrow::Array> values;
    std::vector<std::int32_t> renumbered; ///< new index of each value; empty: they keep theirs
  };
  struct encoded_column {
    std::size_t number = 0; ///< in the table
    std::vector<entry> distinct;
    std::vector<std::size_t> of_batch; ///< which of `distinct`
  };
  struct symbol_column {
    std::size_t number = 0;
    std::string label;
    std::unique_ptr<symbol_dictionary> names;
    std::shared_ptr<arrow::ArrayData> values;
  };

  /// Of the dictionaries inside of a column's type.
  static void require_inner(const table& source, std::size_t number, container format);
  static encoded_column gather(const table& source, std::size_t number);
  static void unite(encoded_column& column, const arrow::Field& described);
  static symbol_column gather_names(const table& source, std::size_t number);
  static std::shared_ptr<arrow::ArrayData>
  renamed(const symbol_column& column, const arrow::ArrayData& numbers, const arrow::Field& described);

  table indices_;
  std::vector<encoded_column> columns_;
  std::vector<symbol_column> symbols_;
};

} // namespace saeta::ipc::detail
