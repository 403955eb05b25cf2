// Symbols in Arrow imports and exports: which metadata marks them, and which arrays represent them.
//
// Standard  XLOG's metadata of fields: xlog.symbol=true, xlog.symbol_encoding=u32.
#pragma once

#include "saeta/compute/symbols.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace saeta {

/// The symbol type of a uint32 field whose metadata marks its values as symbols. They belong to the table
/// that the metadata names, else to the process's table. The symbol keys are removed from the metadata.
/// Returns nullopt and leaves the metadata unchanged if the field is not marked, or if the named table is not
/// in this process.
std::optional<data_type> symbols_by_metadata(const data_type& storage, metadata_list& metadata);

/// True if an import turns this dictionary into symbols.
bool becomes_symbols(const field& described);

/// The columns of a batch that arrive as dictionaries and become symbols. Borrows `source` and `known`.
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
  void interned(entry& each, const host_array& values) const;

  std::shared_ptr<context> ctx_;
  const host_batch& source_;
  dictionary_cache& known_;
  std::vector<entry> columns_;
};

/// The field as an export describes it.
field exported_field(const field& source, symbol_form form);

/// The name dictionaries of several symbol columns, for one batch or for all batches of a stream.
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

/// As in batches.hpp. Exports that follow each other share `names`.
std::vector<owned_array> export_batches(const table& source, std::size_t first, std::size_t count,
                                        symbol_names& names);
/// Exports columns of one context, each as an array of its own.
std::vector<owned_array> export_columns(std::span<const column> sources, symbol_names& names);

} // namespace saeta
