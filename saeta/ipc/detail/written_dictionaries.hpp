// The dictionaries of a table on their way into a file or a stream.
//
// What      The batches of a table may share a dictionary, have equal ones, or different ones. Each distinct one is brought
//           to the host once; the batches then travel as plain indices and get their dictionary back here. A file holds
//           one dictionary a column, so there different ones are united and the indices renumbered; a stream replaces
//           them on the way.
// Owner     Holds the host's copies (on a host context views) while a table is written.
// Thread    `restore` may be called from any thread, one at a time.
// Failure   unsupported: dictionaries that can't be united (they have nulls, the indices are too narrow for the union, or they
//           lie inside of another type), a dictionary of a dictionary; out_of_range: an index outside its dictionary.
//           All name the column.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/ipc/reader.hpp"

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace saeta::ipc::detail {

class written_dictionaries {
public:
  written_dictionaries(const table& source, const arrow::Schema& described, container format);

  /// `source` with plain indices in place of its dictionary columns.
  [[nodiscard]] const table& indices() const noexcept { return indices_; }
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

  /// Of the dictionaries inside of a column's type.
  static void require_inner(const table& source, std::size_t number, container format);
  static encoded_column gather(const table& source, std::size_t number);
  static void unite(encoded_column& column, const arrow::Field& described);

  table indices_;
  std::vector<encoded_column> columns_;
};

} // namespace saeta::ipc::detail
