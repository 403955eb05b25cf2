// Makes columns of symbols from strings, dictionaries and numbers, and dictionaries from symbols.
//
// What      A column of symbols holds numbers of names in a table (column/symbol_table.hpp). For a
//           dictionary, the host looks each value up once, and the indices become symbols on their device.
//           Strings without a dictionary are looked up row by row.
// Owner     Columns are in memory of their context, under its budget. Names belong to the table.
// Order     Ready on the context's work stream, like every column.
// Thread    A mapping is immutable. A `symbol_dictionary` is used by one thread at a time.
// Failure   type_mismatch for columns that can't be symbols, out_of_range for numbers that the table does not
//           have, budget_exceeded, errors of the table, and download_forbidden for values that lie on a
//           device.
#pragma once

#include "saeta/column/symbol_table.hpp"
#include "saeta/transfer/host_array.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace saeta {

template <class T>
class device_copy; // memory/device_copy.hpp

/// Whether columns of this type can become symbols: strings, dictionaries of strings, uint32 and int32, and
/// symbols.
bool can_be_symbols(const data_type& type) noexcept;

/// The symbols of a dictionary's values.
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
  std::vector<std::int64_t> symbols_; ///< for each value; 0 for a null
  std::vector<std::int64_t> valid_;   ///< 1 for each value, 0 for a null; empty if there are no nulls
  std::unique_ptr<const device_copy<std::int64_t>> symbols_there_;
  std::unique_ptr<const device_copy<std::int64_t>> valid_there_;
};

/// The indices of a dictionary column as integers, over the same memory.
column indices_of(const column& dictionary);
host_array indices_of(const host_array& dictionary);

/// Converts the rows of the pieces to symbols of `table`. Numbers become symbols unchanged, over the same
/// memory, after all of them are checked. Symbols of another table are converted by name.
std::vector<column> as_symbols(std::span<const column> pieces, const std::shared_ptr<symbol_table>& table);

/// The names of a column's symbols as one growing dictionary: each name once, in the order of its first row.
/// Earlier values are always the first values of a later dictionary.
class symbol_dictionary {
public:
  explicit symbol_dictionary(std::shared_ptr<symbol_table> table);

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
