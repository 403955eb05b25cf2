// Data types, as the Arrow columnar format defines them.
//
// @code
// const data_type amount = data_type::parse("d:10,2"); // decimal128(10, 2)
// const data_type words = data_type::nested("+l", {field{"item", data_type(type_id::string), true, {}}});
// const data_type city = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
// std::cout << city.name() << '\n'; // dictionary<values=string, indices=int32, ordered=0>
// @endcode
//
// What      A value: the Arrow format string (C Data Interface), the properties derived from it, the fields
//           of a nested type, the name and metadata of an extension, and for dictionaries the index and value
//           types. Parsing and widths come from nanoarrow, layouts from
//           column/layout.hpp.
// Owner     A handle of shared, immutable parts, as cheap to copy as a pointer, because wide tables hold one
//           for each column many times over. Types without parameters exist once per process; copying them
//           touches no reference count.
// Thread    Immutable.
// Failure   error format for text that is not a type, and for children that the type can't have.
// Standard  Arrow columnar format and C Data Interface, arrow.apache.org/docs/format.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/layout.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct ArrowLayout; // nanoarrow's

namespace SAETA_EXPORT saeta {

struct field;       // column/schema.hpp
class symbol_table; // symbols/symbol_table.hpp

enum class type_id {
  null,
  boolean, ///< one bit per value
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  half_float,
  float32,
  float64,
  decimal32,
  decimal64,
  decimal128,
  decimal256,
  date32,
  date64,
  time32,
  time64,
  timestamp,
  duration,
  interval_months,
  interval_day_time,
  interval_month_day_nano,
  fixed_size_binary,
  binary,
  large_binary,
  string,
  large_string,
  binary_view,
  string_view,
  list,
  large_list,
  list_view,
  large_list_view,
  fixed_size_list,
  struct_,
  map,
  dense_union,
  sparse_union,
  run_end_encoded,
  dictionary,
};

class data_type {
public:
  data_type() noexcept; ///< null
  // No moves: a moved-from type would be invalid.
  data_type(const data_type&) noexcept = default;
  data_type& operator=(const data_type&) noexcept = default;
  ~data_type() = default;
  /// A type without parameters, by its id. @throws error invalid_argument for types with parameters.
  explicit data_type(type_id simple);
  /// Parses a C Data Interface format string ("i", "u", "tsu:UTC", "d:10,2"); not for dictionaries.
  [[nodiscard]] static data_type parse(std::string_view format);
  /// The same for nested types: "+l" list, "+L" large list, "+vl" and "+vL" list views, "+w:N" fixed-size
  /// list, "+s" struct, "+m" map, "+ud:0,1" and "+us:0,1" unions, "+r" run-end encoded.
  /// @param children  as in the format: the entries of a map are one struct of key and value.
  /// @throws error format (also for children that the type can't have), unsupported past `max_depth`.
  [[nodiscard]] static data_type nested(std::string_view format, std::vector<field> children,
                                        bool keys_sorted = false);
  static constexpr int max_depth = 64; ///< levels of nesting, as in libarrow
  /// @throws error type_mismatch unless `index` is an integer type.
  [[nodiscard]] static data_type dictionary(const data_type& index, const data_type& values,
                                            bool ordered = false);
  /// The canonical extension `arrow.bool8`: int8 storage, 0 is false. Arrow consumers get this type.
  [[nodiscard]] static data_type bool8();
  /// "bool8": the same bytes without the extension, as tensors store bools. Arrow consumers get Arrow's bool
  /// (bits). Inside another type it becomes `bool8()`.
  [[nodiscard]] static data_type byte_bool();
  /// uint32 numbers of names in `table`, which must not be null. The table lives as long as a type refers to
  /// it. A symbol type can't be nested in another type. `symbol_type` (symbols/symbols.hpp) gives the name.
  [[nodiscard]] static data_type of_symbols(std::shared_ptr<symbol_table> table, std::string name);
  /// The same storage with this extension; an empty name removes the extension.
  [[nodiscard]] data_type with_extension(std::string name, std::string metadata) const;

  [[nodiscard]] type_id id() const noexcept { return parts_->id; }
  /// Format string of the storage; for a dictionary, that of its indices.
  [[nodiscard]] const std::string& format() const noexcept { return parts_->format; }
  [[nodiscard]] layout_kind layout() const noexcept { return parts_->layout.kind; }
  /// Bytes of one value (for dictionaries, of one index) if the type has a fixed width; 0 for others.
  [[nodiscard]] std::int32_t byte_width() const noexcept {
    return parts_->buffers[1].role == buffer_role::values ? parts_->buffers[1].width : 0;
  }
  /// Minimum number of buffers in the Arrow layout.
  [[nodiscard]] std::size_t buffer_count() const noexcept { return parts_->layout.buffers.count; }
  /// True for views, which may have any number of data buffers after these.
  [[nodiscard]] bool has_variadic_buffers() const noexcept { return parts_->layout.variadic_buffers; }
  /// Describes buffer `index`.
  [[nodiscard]] buffer_spec buffer(std::size_t index) const noexcept {
    return index < buffer_count() ? parts_->buffers[index]
                                  : buffer_spec{buffer_role::bytes, 0, name_of(buffer_role::bytes)};
  }
  /// False for unions, run-end encoded columns and nulls.
  [[nodiscard]] bool has_validity() const noexcept {
    return parts_->buffers[0].role == buffer_role::validity;
  }
  /// Bytes of one offset (4 or 8) in layouts with offsets; 0 for others.
  [[nodiscard]] std::size_t offset_width() const noexcept {
    return parts_->buffers[1].role == buffer_role::offsets
               ? static_cast<std::size_t>(parts_->buffers[1].width)
               : 0;
  }
  /// How the rows of a column of this type map to rows of its children.
  [[nodiscard]] row_mapping mapping() const noexcept { return parts_->layout.mapping; }
  /// True for structs and unions.
  [[nodiscard]] bool has_named_children() const noexcept { return parts_->layout.named_children; }
  /// The check that the values of a column need before anything follows them; nullopt if they refer to
  /// nothing.
  [[nodiscard]] std::optional<check_kind> check() const noexcept {
    return index_type() != nullptr || is_symbol() ? check_kind::indices : parts_->layout.check;
  }
  /// The fields of a nested type.
  [[nodiscard]] std::span<const field> children() const noexcept;
  /// Levels of nesting; 0 without children and dictionaries.
  [[nodiscard]] int depth() const noexcept { return parts_->depth; }
  /// Child rows per row of a fixed-size list; 0 for others.
  [[nodiscard]] std::int32_t list_size() const noexcept { return parts_->list_size; }
  /// For each child of a union, the type id (0 to 127) of its rows.
  [[nodiscard]] std::span<const std::int8_t> type_codes() const noexcept { return parts_->type_codes; }
  /// For maps.
  [[nodiscard]] bool keys_sorted() const noexcept { return parts_->keys_sorted; }
  [[nodiscard]] bool is_integer() const noexcept {
    return id() >= type_id::int8 && id() <= type_id::uint64 && !is_symbol();
  }
  [[nodiscard]] bool is_signed() const noexcept;
  [[nodiscard]] bool is_floating() const noexcept {
    return id() >= type_id::half_float && id() <= type_id::float64;
  }
  [[nodiscard]] bool is_decimal() const noexcept {
    return id() >= type_id::decimal32 && id() <= type_id::decimal256;
  }
  /// Digits of a decimal after its point; 0 for other types.
  [[nodiscard]] std::int32_t decimal_scale() const noexcept { return parts_->decimal_scale; }
  /// A date, a time, a timestamp or a duration: an integer of 32 or 64 bits with a unit.
  [[nodiscard]] bool is_temporal() const noexcept {
    return id() >= type_id::date32 && id() <= type_id::duration;
  }
  /// A bool of one byte: `bool8()` or `byte_bool()`.
  [[nodiscard]] bool is_bool8() const noexcept;
  [[nodiscard]] bool is_byte_bool() const noexcept { return parts_->byte_bool; }
  [[nodiscard]] bool is_symbol() const noexcept { return parts_->symbols != nullptr; }
  /// The table of the symbols; null for other types.
  [[nodiscard]] const std::shared_ptr<symbol_table>& symbols() const noexcept { return parts_->symbols; }
  /// Null unless this is a dictionary.
  [[nodiscard]] const data_type* index_type() const noexcept { return parts_->index.get(); }
  [[nodiscard]] const data_type* value_type() const noexcept { return parts_->value.get(); }
  [[nodiscard]] bool ordered() const noexcept { return parts_->ordered; }
  [[nodiscard]] const std::string& extension_name() const noexcept { return parts_->extension_name; }
  [[nodiscard]] const std::string& extension_metadata() const noexcept { return parts_->extension_metadata; }

  /// A readable name in Arrow's terms: "timestamp[us, tz=UTC]", "dictionary<values=string, indices=int32,
  /// ordered=0>".
  [[nodiscard]] std::string name() const;

  friend bool operator==(const data_type& a, const data_type& b) noexcept {
    return a.parts_ == b.parts_ || same_parts(*a.parts_, *b.parts_);
  }

private:
  struct parts {
    type_id id = type_id::null;
    layout_description layout{};
    bool ordered = false;
    bool keys_sorted = false;
    bool byte_bool = false;
    std::int32_t list_size = 0;
    std::int32_t decimal_scale = 0;
    int depth = 0;
    std::array<buffer_spec, 3> buffers{};
    std::string format = "n";
    std::string name = "null";
    std::string extension_name{};
    std::string extension_metadata{};
    std::shared_ptr<symbol_table> symbols{};
    std::shared_ptr<const data_type> index{};
    std::shared_ptr<const data_type> value{};
    std::shared_ptr<const std::vector<field>> children{};
    std::vector<std::int8_t> type_codes{};
  };
  explicit data_type(parts parts);
  explicit data_type(const parts* of_the_process) noexcept;

  static bool same_parts(const parts& a, const parts& b) noexcept;
  static parts parse_simple(std::string_view format);
  static void take_layout(layout_kind layout, const ArrowLayout& widths, parts& parts);
  /// Finds a type without parameters by its format; null for others.
  static const parts* find_simple(std::string_view format);

  std::shared_ptr<const parts> parts_; ///< never null
};

} // namespace saeta
