// Symbols in Arrow imports and exports: the fields and arrays that represent them.
//
// What      Metadata marks the fields of symbols, and describes them to others.
// Failure   type_mismatch and exchange, naming the column.
// Standard  XLOG's metadata of fields: xlog.symbol=true, xlog.symbol_encoding=u32.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/column/table.hpp"
#include "saeta/symbols/symbols.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace SAETA_EXPORT saeta {

/// The symbol type of a uint32 field whose metadata marks its values as symbols of a table that it names. The
/// symbol keys are removed from the metadata. Returns nullopt and leaves the metadata unchanged if the field
/// is not marked, or if no table is named, as in XLOG's own arrays, or one that is not in this process: the
/// numbers then stay numbers, because in another table they mean other names.
[[nodiscard]] std::optional<data_type> symbols_by_metadata(const data_type& storage, metadata_list& metadata);

/// True if an import turns this dictionary into symbols.
bool becomes_symbols(const field& described);

/// The schema of the imported columns: a dictionary that the metadata marks as symbols becomes symbols. All
/// other fields stay the same.
[[nodiscard]] schema resolve_symbols(schema described);
[[nodiscard]] field resolve_symbols(const field& described);

/// The field of a column that becomes symbols of `table`. Earlier symbol keys are removed from its metadata.
/// @param table  null: the process's, unless the metadata marks numbers as symbols of a table that it does
///               not name. That table has to be given.
/// @throws error type_mismatch for a type that can't become symbols, exchange if the metadata says that the
///         numbers are symbols of another table, or of one that is not given.
[[nodiscard]] field as_symbols(const field& described, const std::shared_ptr<symbol_table>& table);

/// How symbols are exported.
enum class symbol_form {
  dictionary, ///< names, for consumers on the host
  numbers,    ///< the symbols themselves (uint32), for devices; the metadata names their table
};
/// The field as an export describes it: symbols in that form, and every other type unchanged.
[[nodiscard]] field described_as(const field& source, symbol_form form);

/// The columns of a batch that arrive as dictionaries and become symbols. Borrows `source` and `known`.
///
/// @code
/// dictionary_cache known; // of the earlier batches of the stream
/// wire_symbols symbols(ctx, orders.fields().fields, rows, known);
/// if (symbols.any()) {
///   batch placed = upload(ctx, symbols.without_dictionaries(), known, {});
///   symbols.apply(placed); // indices become symbols, on their device
/// }
/// @endcode
class wire_symbols {
public:
  /// @param fields  describe the arrays of `source`.
  /// @param known   dictionaries that were interned before; those of this batch are added.
  wire_symbols(std::shared_ptr<context> ctx, std::span<const field> fields, const host_batch& source,
               dictionary_cache& known);

  [[nodiscard]] bool any() const noexcept { return !columns_.empty(); }
  /// The label of the first such column, for messages. Requires any().
  [[nodiscard]] const std::string& first_label() const noexcept { return columns_.front().label; }
  /// For a batch in host memory: interns the dictionaries and returns the batch with their indices only.
  [[nodiscard]] host_batch without_dictionaries();
  /// Replaces dictionaries, or their indices, by symbols. Dictionary values on a device are downloaded.
  void apply(batch& placed);

private:
  struct entry {
    std::size_t number = 0;
    std::string label;
    std::shared_ptr<const symbol_mapping> mapping;
  };
  void intern_values(entry& entry, const host_array& values) const;

  std::shared_ptr<context> ctx_;
  const host_batch& source_;
  dictionary_cache& known_;
  std::vector<entry> columns_;
};

/// The name dictionaries of several symbol columns, for one batch or for all batches of a stream.
///
/// @code
/// host_batch rows = download(ctx, orders.batches().front());
/// symbol_names names(orders.fields());
/// names.replace(ctx, rows); // columns of symbols are dictionaries of names now
/// @endcode
class symbol_names {
public:
  explicit symbol_names(const schema& fields);

  /// Replaces symbols by dictionaries. Their indices are in memory of the context if it is on the host.
  void replace(const std::shared_ptr<context>& ctx, host_batch& rows);

private:
  struct entry {
    std::string label;
    std::unique_ptr<symbol_dictionary> names; ///< null if the column has no symbols
  };
  std::vector<entry> columns_;
};

} // namespace saeta
