// Makes columns of symbols from strings, dictionaries and numbers, and dictionaries from symbols.
//
// @code
// const std::shared_ptr<symbol_table>& cities = process_symbols();
// const std::vector<column> symbols = as_symbols(std::span(&city, 1), cities); // uint32 numbers of names
// @endcode
//
// What      A column of symbols holds numbers of names in a table (symbol_table.hpp). For a dictionary, the
//           host looks each value up once, and the indices become symbols on their device. Strings without a
//           dictionary are looked up row by row. Code that only moves the numbers asks for the codes of a
//           column, as it does for the indices of a dictionary.
// Owner     Columns are in memory of their context, under its budget. Names belong to the table.
// Order     Ready on the context's work stream, like every column.
// Thread    A mapping is immutable. A `symbol_dictionary` is used by one thread at a time.
// Failure   type_mismatch for columns that can't be symbols, out_of_range for numbers that the table does not
//           have, budget_exceeded, errors of the table, and download_forbidden for values that lie on a
//           device.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/symbols/symbol_table.hpp"
#include "saeta/transfer/host_array.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace SAETA_EXPORT saeta {

template <class T>
class device_copy; // memory/device_copy.hpp

/// "symbol": numbers of names in `table`; null: the process's table. Arrow consumers on the host get
/// dictionaries.
[[nodiscard]] data_type symbol_type(const std::shared_ptr<symbol_table>& table = nullptr);

/// The type of the integers that stand for the values of a column: the index type of a dictionary, uint32 for
/// symbols. Null for other types.
const data_type* code_type(const data_type& type) noexcept;
/// The codes of a column that has them, as plain integers over the same memory.
[[nodiscard]] column codes_of(const column& source);
[[nodiscard]] host_array codes_of(const host_array& source);
/// The codes of an array are less than this number: the entries of its dictionary that an index can name, or
/// the names in its symbol table. Returns nullopt if the array has no codes.
[[nodiscard]] std::optional<std::int64_t> code_limit(const host_array& of);

/// Whether columns of this type can become symbols: strings, dictionaries of strings, uint32 and int32, and
/// symbols.
bool can_be_symbols(const data_type& type) noexcept;

/// The symbols of a dictionary's values.
///
/// @code
/// const symbol_mapping mapping(ctx, names, process_symbols()); // interns the values of a dictionary, once
/// const column symbols = mapping.apply(indices);               // one kernel on the context's work stream
/// @endcode
class symbol_mapping {
public:
  /// Interns all values.
  /// @param values  strings in host memory
  symbol_mapping(std::shared_ptr<context> ctx, const host_array& values,
                 const std::shared_ptr<symbol_table>& table);
  symbol_mapping(const symbol_mapping&) = delete;
  symbol_mapping& operator=(const symbol_mapping&) = delete;
  ~symbol_mapping();

  /// Returns the symbol of the value that each row refers to. A row that refers to a null becomes null.
  /// @param indices  integers of any width, in the mapping's context; under a null they may be any number
  [[nodiscard]] column apply(const column& indices) const;

private:
  struct steps;
  std::shared_ptr<context> ctx_;
  data_type type_;
  std::vector<std::int64_t> symbols_; ///< the symbol of each value; 0 for a null
  std::vector<std::int64_t> valid_;   ///< 1 for each value, 0 for a null; empty if there are no nulls
  std::unique_ptr<const device_copy<std::int64_t>> symbols_there_;
  std::unique_ptr<const device_copy<std::int64_t>> valid_there_;
};

/// Converts the rows of the pieces to symbols of `table`. Numbers become symbols unchanged, over the same
/// memory, after all of them are checked. Symbols of another table are converted by name.
[[nodiscard]] std::vector<column> as_symbols(std::span<const column> pieces,
                                             const std::shared_ptr<symbol_table>& table);

/// The names of a column's symbols as one growing dictionary: each name once, in the order of its first row.
/// Earlier values are always the first values of a later dictionary.
///
/// @code
/// symbol_dictionary names(process_symbols());
/// std::vector<std::uint32_t> indices(static_cast<std::size_t>(symbols.length));
/// names.take(symbols, "column 'city'", indices.data());
/// const host_array values = names.values(); // valid as long as `names.keepalive()` is shared
/// @endcode
class symbol_dictionary {
public:
  explicit symbol_dictionary(std::shared_ptr<symbol_table> table);
  /// An empty dictionary for columns of this type. Null unless it is a symbol type.
  [[nodiscard]] static std::unique_ptr<symbol_dictionary> of(const data_type& type);

  /// Adds the names of an array's rows.
  /// @param label    prefix of error messages
  /// @param indices  receives the index of each row, 0 for a null; may be null
  void take(const host_array& symbols, std::string_view label, std::uint32_t* indices);
  /// The names added so far: strings, in memory that `keepalive` keeps.
  /// @throws error overflow past 2^31 - 1 bytes
  [[nodiscard]] host_array values();
  [[nodiscard]] std::shared_ptr<void> keepalive() const { return text_; }

private:
  static constexpr std::size_t page_size = 4096;
  using page = std::array<std::uint32_t, page_size>; ///< index plus one of each symbol; 0 for none
  /// Consumers hold the beginning while the end grows, so existing values never move.
  struct text {
    std::vector<std::int32_t> offsets;
    std::vector<char> bytes;
  };

  void make_room(std::size_t names, std::size_t bytes);

  std::shared_ptr<symbol_table> table_;
  std::vector<std::unique_ptr<page>> pages_; ///< by symbol
  std::vector<symbol> taken_;
  std::size_t written_ = 0; ///< number of `taken_` that are already in `text_`
  std::shared_ptr<text> text_;
};

} // namespace saeta
