// Data types, as the Arrow columnar format defines them.
//
// What      A value: the Arrow format string (C Data Interface), what follows from it, an extension's name and metadata,
//           and for dictionaries the index and value types. Parsing and layouts come from nanoarrow.
// Thread    Immutable.
// Failure   error unsupported for a valid Arrow type that Saeta does not carry (nested, view and run-end types),
//           format for text that is no type.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace saeta {

enum class type_id {
  null,
  boolean, ///< one bit a value
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
  dictionary,
};

/// How the buffers of a column are laid out; validity apart.
enum class layout_kind {
  none,      ///< null: no buffers at all
  bits,      ///< boolean: [validity, bits]
  fixed,     ///< [validity, values]; dictionary indices too
  offsets32, ///< [validity, int32 offsets, bytes]
  offsets64, ///< [validity, int64 offsets, bytes]
};

class data_type {
public:
  data_type() = default; ///< null
  /// A type without parameters, by its id. @throws error invalid_argument for the others.
  explicit data_type(type_id simple);
  /// From a C Data Interface format string ("i", "u", "tsu:UTC", "d:10,2"); not for dictionaries.
  static data_type parse(std::string_view format);
  /// @throws error type_mismatch unless `index` is an integer type.
  static data_type dictionary(const data_type& index, const data_type& values, bool ordered = false);
  /// The canonical extension `arrow.bool8`: int8 storage, 0 is false.
  static data_type bool8();
  /// The same storage under an extension name; an empty name takes the extension away.
  [[nodiscard]] data_type with_extension(std::string name, std::string metadata) const;

  [[nodiscard]] type_id id() const noexcept { return id_; }
  /// Format string of the storage; a dictionary's is that of its indices.
  [[nodiscard]] const std::string& format() const noexcept { return format_; }
  [[nodiscard]] layout_kind layout() const noexcept { return layout_; }
  /// Bytes of one value in the values buffer (of an index, for dictionaries); 0 for null, boolean and offset layouts.
  [[nodiscard]] std::int32_t byte_width() const noexcept { return byte_width_; }
  /// Number of buffers in the Arrow layout: 0, 2 or 3.
  [[nodiscard]] std::size_t buffer_count() const noexcept;
  [[nodiscard]] bool is_integer() const noexcept { return id_ >= type_id::int8 && id_ <= type_id::uint64; }
  [[nodiscard]] bool is_signed() const noexcept;
  [[nodiscard]] bool is_floating() const noexcept {
    return id_ >= type_id::half_float && id_ <= type_id::float64;
  }
  [[nodiscard]] bool is_bool8() const noexcept;
  /// Null unless this is a dictionary.
  [[nodiscard]] const data_type* index_type() const noexcept { return index_.get(); }
  [[nodiscard]] const data_type* value_type() const noexcept { return value_.get(); }
  [[nodiscard]] bool ordered() const noexcept { return ordered_; }
  [[nodiscard]] const std::string& extension_name() const noexcept { return extension_name_; }
  [[nodiscard]] const std::string& extension_metadata() const noexcept { return extension_metadata_; }

  /// For people, in Arrow's words: "timestamp[us, tz=UTC]", "dictionary<values=string, indices=int32>".
  [[nodiscard]] std::string name() const;

  friend bool operator==(const data_type& a, const data_type& b) noexcept;

private:
  type_id id_ = type_id::null;
  layout_kind layout_ = layout_kind::none;
  std::int32_t byte_width_ = 0;
  bool ordered_ = false;
  std::string format_ = "n";
  std::string name_ = "null";
  std::string extension_name_;
  std::string extension_metadata_;
  std::shared_ptr<const data_type> index_;
  std::shared_ptr<const data_type> value_;
};

} // namespace saeta
