// The dictionaries of tables that are written, one after the other, to a file or a stream.
//
// What      The batches of a table may share a dictionary, or have equal or different ones. Each dictionary
//           of a whole column is downloaded once. Batches are downloaded as plain indices, and `restore` adds
//           their dictionary again. A file holds one dictionary for a column and for each place inside its
//           type, so different ones of a table are united (placed_dictionaries.hpp). A stream replaces them
//           between batches. Symbols are downloaded as numbers and get one dictionary of their names, which
//           grows from table to table. Symbols on a device are downloaded twice, first to collect the names.
// Owner     Holds the table from `begin` to `end`, with copies of its dictionaries on the host (on a host
//           context, views). What the next table may need is kept.
// Thread    `restore` may be called from any thread, one at a time.
// Failure   As placed_dictionaries.hpp. unsupported: dictionaries that can't be read back; out_of_range: a
//           symbol that is not in its table. Every error names the column.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/ipc/write/placed_dictionaries.hpp"
#include "saeta/symbols/symbols.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

/// @throws error unsupported naming the column: dictionaries of dictionaries, which no reader takes, and
///         dictionaries of an extension type, which the format can't express.
void require_writable(const schema& fields);

/// Whether a column has a dictionary or symbols, itself or inside its type.
[[nodiscard]] bool has_dictionaries(const schema& fields);

class written_dictionaries {
public:
  /// @param fields   of every table
  /// @param several  more than one table may follow. Dictionaries inside other types are then kept without
  ///                 the rows that they came with.
  written_dictionaries(const schema& fields, container format, bool several);

  /// Takes the next table. The first one may widen indices in the schema that is written.
  void begin(const table& source);
  /// Drops the table.
  void end() noexcept;

  /// The schema that is written, final after the first `begin`.
  [[nodiscard]] const schema& described() const noexcept { return described_; }
  /// The table with plain indices in place of dictionary columns, and numbers in place of symbols.
  [[nodiscard]] const table& indices() const { return indices_.value(); }
  /// Whether `restore` reads or changes the values of a column, not only its dictionary.
  [[nodiscard]] bool will_rewrite(std::size_t number) const;
  /// Makes batch `index` of `indices()` have the form that is written. Its dictionaries own their memory.
  void restore(std::size_t index, host_batch& rows) const;

private:
  struct symbol_column {
    std::size_t number = 0; ///< column of the table
    std::string label;
    std::unique_ptr<symbol_dictionary> names;
    std::shared_ptr<const host_array> values; ///< with their owner
  };

  /// The dictionaries at one place, and whether the current table takes them from there.
  struct place {
    placed_dictionaries dictionaries;
    bool used = false;
  };

  static void gather_names(symbol_column& of, const table& source);
  static void rename_dictionary(const symbol_column& column, host_array& numbers,
                                std::vector<std::shared_ptr<void>>& owners);

  schema fields_;
  schema described_;
  bool begun_ = false;
  std::optional<table> indices_;
  std::vector<place> places_;
  std::vector<symbol_column> symbols_;
};

} // namespace saeta::ipc::detail
