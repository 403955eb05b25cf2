// The dictionaries of a table that is written to a file or a stream.
//
// What      The batches of a table may share a dictionary, or have equal or different ones. Each dictionary
//           of a whole column is downloaded once. Batches are downloaded as plain indices, and `restore` adds
//           their dictionary again. A file holds one dictionary for a column and for each place inside its
//           type, so different ones are united (placed_dictionaries.hpp). A stream replaces them between
//           batches. Symbols are downloaded as numbers and get one dictionary with all of their names in the
//           table. Symbols on a device are downloaded twice, first to collect the names.
// Owner     Holds copies on the host (on a host context, views) while a table is written.
// Thread    `restore` may be called from any thread, one at a time.
// Failure   As placed_dictionaries.hpp. unsupported: dictionaries that can't be read back; out_of_range: a
//           symbol that is not in its table. Every error names the column.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/ipc/read/placed_dictionaries.hpp"
#include "saeta/symbols/symbols.hpp"

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

/// @throws error unsupported naming the column: dictionaries of dictionaries, which libarrow writes but can't
///         read, and dictionaries of an extension type, which the format can't express.
void require_writable(const schema& fields);

class written_dictionaries {
public:
  written_dictionaries(const table& source, container format);

  /// The schema that is written. Indices are wider if united dictionaries need it.
  [[nodiscard]] const std::shared_ptr<arrow::Schema>& described() const noexcept { return described_; }
  /// The table with plain indices in place of dictionary columns, and numbers in place of symbols.
  [[nodiscard]] const table& indices() const noexcept { return indices_; }
  /// Whether `restore` reads or changes the values of a column, not only its dictionary.
  [[nodiscard]] bool rewrites(std::size_t number) const;
  /// Returns batch `index` of `indices()` in the form that is written.
  [[nodiscard]] std::shared_ptr<arrow::RecordBatch> restore(std::size_t index,
                                                            const arrow::RecordBatch& plain) const;

private:
  struct symbol_column {
    std::size_t number = 0; ///< column of the table
    std::string label;
    std::unique_ptr<symbol_dictionary> names;
    std::shared_ptr<arrow::ArrayData> values;
  };

  /// @param names  empty dictionary of the column's table
  static symbol_column gather_names(const table& source, std::size_t number,
                                    std::unique_ptr<symbol_dictionary> names);
  static std::shared_ptr<arrow::ArrayData>
  renamed(const symbol_column& column, const arrow::ArrayData& numbers, const arrow::Field& described);

  table indices_;
  std::shared_ptr<arrow::Schema> described_;
  std::vector<placed_dictionaries> placed_;
  std::vector<symbol_column> symbols_;
};

} // namespace saeta::ipc::detail
