// The dictionaries of a table on their way into a file or a stream.
//
// What      The batches of a table may share a dictionary, have equal ones, or different ones. Those of whole
//           columns are brought to the host once each; the batches then travel as plain indices and get their
//           dictionary back here. A file holds one dictionary for a column and for each place inside of its
//           type: different ones are united (placed_dictionaries.hpp). A stream replaces them on the way.
//           Symbols travel as their numbers and get one dictionary of all names that the table has of them:
//           what is on a device is downloaded twice, once to find the names.
// Owner     Holds the host's copies (on a host context views) while a table is written.
// Thread    `restore` may be called from any thread, one at a time.
// Failure   As placed_dictionaries.hpp; unsupported: dictionaries that nobody can read; out_of_range: a
//           symbol that its table does not have. All name the column.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/compute/symbols.hpp"
#include "saeta/ipc/read/placed_dictionaries.hpp"

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

/// @throws error unsupported naming the column: dictionaries of dictionaries, which libarrow writes and can't
///         read, and of an extension type, for which the format has no place.
void require_writable(const schema& fields);

class written_dictionaries {
public:
  written_dictionaries(const table& source, container format);

  /// As it is written: indices are wider where united dictionaries need it.
  [[nodiscard]] const std::shared_ptr<arrow::Schema>& described() const noexcept { return described_; }
  /// `source` with plain indices in place of its dictionary columns, and numbers in place of symbols.
  [[nodiscard]] const table& indices() const noexcept { return indices_; }
  /// True for a column of which `restore` reads or changes values, and not their dictionary alone.
  [[nodiscard]] bool rewrites(std::size_t number) const;
  /// Batch `index` of `indices()` as it is written.
  [[nodiscard]] std::shared_ptr<arrow::RecordBatch> restore(std::size_t index,
                                                            const arrow::RecordBatch& plain) const;

private:
  struct symbol_column {
    std::size_t number = 0; ///< in the table
    std::string label;
    std::unique_ptr<symbol_dictionary> names;
    std::shared_ptr<arrow::ArrayData> values;
  };

  static symbol_column gather_names(const table& source, std::size_t number);
  static std::shared_ptr<arrow::ArrayData>
  renamed(const symbol_column& column, const arrow::ArrayData& numbers, const arrow::Field& described);

  table indices_;
  std::shared_ptr<arrow::Schema> described_;
  std::vector<placed_dictionaries> placed_;
  std::vector<symbol_column> symbols_;
};

} // namespace saeta::ipc::detail
