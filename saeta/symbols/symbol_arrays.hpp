// Symbols in Arrow imports and exports: the arrays that represent them. symbol_fields.hpp has the fields.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/symbols/symbols.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace saeta {

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
  void intern_values(entry& each, const host_array& values) const;

  std::shared_ptr<context> ctx_;
  const host_batch& source_;
  dictionary_cache& known_;
  std::vector<entry> columns_;
};

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

} // namespace saeta
