#include "saeta/transfer/display.hpp"

#include "saeta/base/half.hpp"
#include "saeta/base/text.hpp"
#include "saeta/transfer/download.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace saeta {
namespace {

constexpr std::size_t most_text = 40;  ///< bytes of a value that are shown
constexpr std::int64_t most_items = 4; ///< values inside of a value

template <class T>
T value_at(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

template <class T>
std::string number_text(T value) {
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

std::string hexadecimal_text(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "0x";
  for (const std::byte each : bytes.first(std::min(bytes.size(), most_text / 2))) {
    text += digits[std::to_integer<std::size_t>(each >> 4)];
    text += digits[std::to_integer<std::size_t>(each & std::byte{15})];
  }
  return text + (bytes.size() > most_text / 2 ? "..." : "");
}

std::string quoted(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::size_t end = 0;
  while (end < std::min(text.size(), most_text)) {
    end += std::max<std::size_t>(utf8_length(text.substr(end)), 1);
  }
  return concat("'", printable(std::string(text.substr(0, end))), end < text.size() ? "..." : "", "'");
}

std::string integer_text(std::span<const std::byte> bytes, bool is_signed) {
  const auto width = bytes.size();
  if (is_signed || width == sizeof(std::uint64_t)) {
    const std::int64_t value = read_offset(bytes.data(), width, 0);
    return is_signed ? number_text(value) : number_text(static_cast<std::uint64_t>(value));
  }
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), width);
  return number_text(value);
}

/// Of at most 128 bits.
std::string decimal_text(std::span<const std::byte> bytes, std::int32_t scale) {
  __extension__ using wide = __int128;
  const wide value =
      bytes.size() == sizeof(wide) ? value_at<wide>(bytes) : wide{read_offset(bytes.data(), bytes.size(), 0)};
  std::string digits = decimal(value < 0 ? -static_cast<uint128>(value) : static_cast<uint128>(value));
  if (scale > 0) {
    const auto places = static_cast<std::size_t>(scale);
    digits.insert(0, digits.size() <= places ? places + 1 - digits.size() : 0, '0');
    digits.insert(digits.size() - places, 1, '.');
  } else if (value != 0) {
    digits.append(static_cast<std::size_t>(-scale), '0');
  }
  return (value < 0 ? "-" : "") + digits;
}

std::string fixed_text(const data_type& type, std::span<const std::byte> bytes) {
  switch (type.id()) {
  case type_id::half_float:
    return number_text(half_value(value_at<std::uint16_t>(bytes)));
  case type_id::float32:
    return number_text(value_at<float>(bytes));
  case type_id::float64:
    return number_text(value_at<double>(bytes));
  case type_id::uint8:
  case type_id::uint16:
  case type_id::uint32:
  case type_id::uint64:
    return integer_text(bytes, false);
  case type_id::decimal32:
  case type_id::decimal64:
  case type_id::decimal128:
    return decimal_text(bytes, type.decimal_scale());
  default: // intervals, decimals of 256 bits and fixed-size binaries are no integers
    return type.id() == type_id::fixed_size_binary || bytes.size() > sizeof(std::int64_t)
               ? hexadecimal_text(bytes)
               : integer_text(bytes, true);
  }
}

std::string value_text(const host_array& of, std::int64_t index, int depth);

std::string list_text(const host_array& child, std::int64_t first, std::int64_t count, int depth) {
  std::string text = "[";
  for (std::int64_t i = 0; i < std::min(count, most_items); ++i) {
    text += concat(i == 0 ? "" : ", ", value_text(child, first + i, depth + 1));
  }
  return text + (count > most_items ? ", ...]" : "]");
}

/// The value of a row, which counts from the beginning of the buffers.
std::string valid_text(const host_array& of, std::int64_t row, int depth) {
  const auto offset = [&](std::size_t buffer, std::int64_t at) {
    const std::size_t width = static_cast<std::size_t>(of.type.buffer(buffer).width);
    return read_offset(of.buffers[buffer].data(), width, at);
  };
  switch (of.type.layout()) {
  case layout_kind::bits:
    return bit_at(of.buffers[1], row) ? "true" : "false";
  case layout_kind::fixed:
    if (of.dictionary != nullptr) {
      return value_text(*of.dictionary, offset(1, row), depth);
    }
    return fixed_text(of.type, bytes_of_value(of, row));
  case layout_kind::bytes:
  case layout_kind::views: {
    const bool text = of.type.id() == type_id::string || of.type.id() == type_id::large_string ||
                      of.type.id() == type_id::string_view;
    return text ? quoted(bytes_of_value(of, row)) : hexadecimal_text(bytes_of_value(of, row));
  }
  case layout_kind::list:
    return list_text(of.children[0], offset(1, row), offset(1, row + 1) - offset(1, row), depth);
  case layout_kind::list_view:
    return list_text(of.children[0], offset(1, row), offset(2, row), depth);
  case layout_kind::fixed_list:
    return list_text(of.children[0], row * of.type.list_size(), of.type.list_size(), depth);
  case layout_kind::structure: {
    std::string text = "{";
    for (std::size_t i = 0; i < of.children.size(); ++i) {
      text += concat(i == 0 ? "" : ", ", printable(of.type.children()[i].name), ": ",
                     value_text(of.children[i], row, depth + 1));
    }
    return text + "}";
  }
  default:
    return "..."; // unions and runs
  }
}

std::string value_text(const host_array& of, std::int64_t index, int depth) {
  constexpr int most_depth = 3;
  const std::int64_t row = of.offset + index;
  if (of.type.layout() == layout_kind::none ||
      (of.type.has_validity() && of.buffers[0].data() != nullptr && !bit_at(of.buffers[0], row))) {
    return "null";
  }
  return depth > most_depth ? "..." : valid_text(of, row, depth);
}

std::string first_values(const host_array& of, std::int64_t rows, bool more) {
  std::string text;
  for (std::int64_t i = 0; i < rows; ++i) {
    text += concat(i == 0 ? "" : ", ", value_text(of, i, 0));
  }
  return text + (more ? rows == 0 ? "..." : ", ..." : "");
}

std::int64_t shown_rows(std::int64_t wanted, std::int64_t rows) {
  return std::clamp<std::int64_t>(wanted, 0, rows);
}

} // namespace

std::string to_string(const field& of) {
  return printable(concat(of.name, ": ", of.type.name(), of.nullable ? "" : " not null"));
}

std::string to_string(const schema& of) {
  std::string text;
  for (const field& each : of.fields) {
    text += concat(text.empty() ? "" : "\n", to_string(each));
  }
  return text;
}

std::string to_string(const column& of, std::int64_t rows) {
  const std::int64_t shown = shown_rows(rows, of.length());
  const host_batch seen = download(of.ctx(), batch{shown, {of.slice(0, shown)}});
  return concat(
      "<", printable(of.type().name()), " on ", to_string(of.ctx()->device()), ", ", of.length(),
      of.length() == 1 ? " row: " : " rows: ", first_values(seen.arrays[0], shown, shown < of.length()), ">");
}

std::string to_string(const table& of, std::int64_t rows) {
  const std::int64_t shown = shown_rows(rows, of.rows());
  std::string text = concat("<table on ", to_string(of.ctx()->device()), ", ", of.rows(), " rows, ",
                            of.column_count(), " columns>");
  const table head = of.slice(0, shown);
  const std::vector<host_batch> seen = download(of.ctx(), head.batches());
  for (std::size_t i = 0; i < of.column_count(); ++i) {
    text += concat("\n  ", to_string(of.fields().fields[i]), ": ");
    for (const host_batch& each : seen) {
      text += concat(&each == seen.data() ? "" : ", ", first_values(each.arrays[i], each.rows, false));
    }
    text += shown < of.rows() ? (shown == 0 ? "..." : ", ...") : "";
  }
  return text;
}

} // namespace saeta
