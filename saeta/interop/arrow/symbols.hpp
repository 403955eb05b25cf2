// Symbols at the border to Arrow: what says that numbers or dictionaries are symbols, and what stands for them.
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

/// The type of a field of uint32 whose metadata says that they are symbols: of the table that it names, or of the process's. That
/// part of the metadata is taken away. Nothing, and the metadata stay, where it names a table that is not of this process.
std::optional<data_type> symbols_by_metadata(const data_type& storage, metadata_list& metadata);

/// Whether an import makes symbols of this dictionary.
bool becomes_symbols(const field& described);

/// The columns of a batch that arrives as dictionaries and becomes symbols. Borrows what it is given.
class wire_symbols {
public:
  /// @param fields  of `source`.
  /// @param known   dictionaries that were interned before; learns those of the batch.
  wire_symbols(std::shared_ptr<context> ctx, std::span<const field> fields, const host_batch& source,
               dictionary_cache& known);

  [[nodiscard]] bool any() const noexcept { return !columns_.empty(); }
  /// Names the first of them; there is one.
  [[nodiscard]] const std::string& first_label() const noexcept { return columns_.front().label; }
  /// Of a batch in host memory: the same with indices alone, after their values were interned.
  [[nodiscard]] host_batch without_dictionaries();
  /// Symbols in the place of dictionaries, or of indices. Values that lie on a device are downloaded.
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

/// How a field leaves.
field exported_field(const field& source, symbol_form form);

/// The dictionaries of the symbols of several columns, for one batch or for those of a stream.
class symbol_names {
public:
  explicit symbol_names(const schema& fields);

  /// Dictionaries in the place of symbols, in memory of the context where that is the host.
  void replace(const std::shared_ptr<context>& ctx, host_batch& rows);

private:
  struct entry {
    std::string label;
    std::unique_ptr<symbol_dictionary> names; ///< null for other columns
  };
  std::vector<entry> columns_;
};

/// As in arrow_owned.hpp; what is exported one after the other shares `names`.
std::vector<owned_array> export_batches(const table& source, std::size_t first, std::size_t count,
                                        symbol_names& names);
/// Columns of one context, each an array of its own.
std::vector<owned_array> export_columns(std::span<const column> sources, symbol_names& names);

} // namespace saeta
