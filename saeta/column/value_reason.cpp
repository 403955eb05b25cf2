#include "saeta/column/value_reason.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/device/utf8.hpp"

#include <algorithm>
#include <string_view>

namespace saeta {
namespace {

class explanation {
public:
  explanation(const data_type& type, const failed_check& failed, checked_values& values)
      : type_(type), kind_(failed.kind), width_(failed.width), limit_(failed.limit), row_(failed.row),
        values_(values) {}

  [[nodiscard]] std::string reason() const {
    switch (kind_) {
    case check_kind::offsets:
      return concat("offsets decrease from ", number(1), " to ", number(1, row_ + 1), " at row ", row_);
    case check_kind::indices:
      return index_reason();
    case check_kind::list_views:
      return concat("the list at row ", row_, " has ", number(2), " values from ", number(1),
                    ", its child has ", limit_, " rows");
    case check_kind::unions:
      return union_reason();
    case check_kind::views:
      return view_reason();
    case check_kind::run_ends:
      return concat("run ends don't increase: ", number(1), " after ", row_ == 0 ? 0 : number(1, row_ - 1),
                    " at run ", row_);
    case check_kind::texts:
    case check_kind::text_views:
      return text_reason();
    }
    return {};
  }

private:
  [[nodiscard]] std::int64_t number(std::size_t buffer, std::int64_t row) const {
    return values_.number(buffer, row, width_);
  }
  [[nodiscard]] std::int64_t number(std::size_t buffer) const { return number(buffer, row_); }

  [[nodiscard]] std::string index_reason() const {
    if (type_.is_symbol()) {
      return concat("symbol ", static_cast<std::uint32_t>(number(1)), " at row ", row_,
                    " is not in the symbol table, which has ", limit_, " names");
    }
    return concat("index ", index(), " at row ", row_, " is not in the dictionary, which has ", limit_,
                  " entries");
  }

  /// The index as text, unsigned if the index type is.
  [[nodiscard]] std::string index() const {
    const std::int64_t value = number(1);
    if (type_.index_type()->is_signed() || value >= 0) {
      return concat(value);
    }
    const int unused = 64 - 8 * width_;
    return concat(static_cast<std::uint64_t>(value) << unused >> unused);
  }

  [[nodiscard]] std::string union_reason() const {
    const auto id = static_cast<std::int8_t>(values_.number(0, row_, 1));
    const auto codes = type_.type_codes();
    const auto match = std::ranges::find(codes, id);
    if (match == codes.end()) {
      return concat("type id ", +id, " at row ", row_, " is not one of the union's");
    }
    const auto child = static_cast<std::size_t>(match - codes.begin());
    return concat("offset ", values_.number(1, row_, sizeof(std::int32_t)), " at row ", row_,
                  " is outside of child '", type_.children()[child].name, "', which has ",
                  values_.child_rows(child), " rows");
  }

  /// A view of a long value holds its size, its first 4 bytes, its buffer number and its offset in that
  /// buffer.
  [[nodiscard]] std::string view_reason() const {
    constexpr std::int64_t words = 4;
    const auto word = [&](std::int64_t i) {
      return values_.number(1, row_ * words + i, sizeof(std::int32_t));
    };
    const std::int64_t size = word(0);
    const std::int64_t buffer = word(2);
    const std::int64_t offset = word(3);
    const bool there = size > 0 && buffer >= 0 && buffer < limit_;
    const std::int64_t bytes = there ? values_.variadic_bytes(static_cast<std::size_t>(buffer)) : 0;
    if (there && offset >= 0 && offset + size <= bytes) {
      return concat("the prefix of the view at row ", row_, " differs from its bytes");
    }
    return concat("the view at row ", row_, " has ", size, " bytes from ", offset, " of buffer ", buffer,
                  ", there are ", limit_, " buffers", there ? concat(", this one of ", bytes, " bytes") : "");
  }

  [[nodiscard]] std::string text_reason() const {
    constexpr std::string_view digits = "0123456789abcdef";
    const std::span<const std::byte> text = values_.text(row_);
    const auto bytes = static_cast<std::int64_t>(text.size());
    const std::int64_t bad = first_not_utf8(reinterpret_cast<const std::uint8_t*>(text.data()), bytes);
    const auto value = bad < bytes ? static_cast<std::size_t>(text[static_cast<std::size_t>(bad)]) : 0;
    return concat("the string at row ", row_, " is not UTF-8: byte 0x", digits.substr(value / 16, 1),
                  digits.substr(value % 16, 1), " at position ", bad, " of ", bytes);
  }

  const data_type& type_;
  check_kind kind_;
  std::int32_t width_;
  std::int64_t limit_;
  std::int64_t row_;
  checked_values& values_;
};

} // namespace

std::string reason_of(const data_type& type, const failed_check& failed, checked_values& values) {
  return explanation(type, failed, values).reason();
}

} // namespace saeta
