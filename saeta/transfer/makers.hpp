// Makes columns and tables of host values: of spans, of ranges, and value by value.
//
// @code
// const std::vector<std::optional<std::string>> names{"Ana", std::nullopt, "Luz"};
// const column cities = make_column(ctx, names);  // strings with a null
// const column prices = make_column(ctx, values); // a span of float, without a loop over the values
// column_builder<std::int64_t> counts;
// counts.append(7);
// counts.append_null();
// counts.append(std::optional<std::int64_t>(9));
// const table sold = make_table(ctx, {{"city", cities}, {"count", counts.finish(ctx)}});
// @endcode
//
// What      Numbers of 8 to 64 bits, float, double, bool (Arrow's boolean, one bit per value) and text, each
//           with nulls. `table_of_values` (upload.hpp) takes raw bytes of every fixed width.
// Owner     The values are copied, on a host context as well. The caller may reuse them when the call
//           returns.
// Order     Columns are ready in stream order (memory/buffer.hpp).
// Thread    One thread per builder.
// Failure   format (text that is not UTF-8: names the row), budget_exceeded, out_of_memory, closed. Nothing
//           stays allocated, and the builder keeps its values.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/transfer/upload.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace SAETA_EXPORT saeta {

/// Values of which a column can be made one by one.
template <class T>
concept column_value = fixed_value<T> || std::same_as<T, std::string>;

namespace detail {

/// The rows of a column that is built: its validity and, for bools and text, its values.
class row_list {
public:
  void append_validity(bool valid);
  void append_bit(bool value);
  void append_text(std::string_view value);
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  [[nodiscard]] std::int64_t null_count() const noexcept { return nulls_; }

  /// @param values  of a fixed width; empty for bools and text
  [[nodiscard]] column upload_to(const std::shared_ptr<context>& ctx, const data_type& type,
                                 std::span<const std::byte> values, std::string tag) const;

private:
  std::int64_t length_ = 0;
  std::int64_t nulls_ = 0;
  std::vector<std::uint8_t> validity_; ///< empty while there are no nulls
  std::vector<std::uint8_t> bits_;
  std::vector<std::int64_t> ends_; ///< of the texts
  std::string text_;
};

template <class T>
struct value_in_range {
  using type = std::conditional_t<std::convertible_to<T, std::string_view>, std::string, T>;
};
template <class T>
struct value_in_range<std::optional<T>> : value_in_range<T> {};

} // namespace detail

/// A column that is made value by value.
template <column_value T>
class column_builder {
public:
  using argument = std::conditional_t<std::same_as<T, std::string>, std::string_view, T>;

  void append(argument value) {
    if constexpr (std::same_as<T, std::string>) {
      rows_.append_text(value);
    } else if constexpr (std::same_as<T, bool>) {
      rows_.append_bit(value);
    } else {
      values_.push_back(value);
    }
    rows_.append_validity(true);
  }
  void append_null() {
    if constexpr (std::same_as<T, std::string>) {
      rows_.append_text({});
    } else if constexpr (std::same_as<T, bool>) {
      rows_.append_bit(false);
    } else {
      values_.push_back(T{});
    }
    rows_.append_validity(false);
  }
  template <std::same_as<std::optional<T>> Optional>
  void append(const Optional& value) {
    if (value) {
      append(argument(*value));
    } else {
      append_null();
    }
  }

  [[nodiscard]] std::int64_t length() const noexcept { return rows_.length(); }
  [[nodiscard]] std::int64_t null_count() const noexcept { return rows_.null_count(); }
  /// The type of the column: of numbers as `type_of_values`, boolean, or string (large_string from 2 GiB on).
  /// Returns the rows so far as a column. The builder keeps them, and more can be appended.
  [[nodiscard]] column finish(const std::shared_ptr<context>& ctx, std::string tag = "values") const {
    if constexpr (std::same_as<T, std::string>) {
      return rows_.upload_to(ctx, data_type(type_id::string), {}, std::move(tag));
    } else if constexpr (std::same_as<T, bool>) {
      return rows_.upload_to(ctx, data_type(type_id::boolean), {}, std::move(tag));
    } else {
      return rows_.upload_to(ctx, type_of_values<T>(), std::as_bytes(std::span(values_)), std::move(tag));
    }
  }

private:
  detail::row_list rows_;
  std::conditional_t<std::same_as<T, std::string> || std::same_as<T, bool>, std::monostate, std::vector<T>>
      values_;
};

/// Makes a column of a range of numbers, bools, texts, or optional ones. Contiguous numbers are copied without
/// a loop over them.
template <std::ranges::input_range Range>
[[nodiscard]] column make_column(const std::shared_ptr<context>& ctx, Range&& values,
                                 std::string tag = "values") {
  using given = std::remove_cvref_t<std::ranges::range_value_t<Range>>;
  using value = typename detail::value_in_range<given>::type;
  static_assert(column_value<value>, "a column is made of numbers, bools or text");
  if constexpr (std::ranges::contiguous_range<Range> && fixed_value<given> && !std::same_as<given, bool>) {
    const std::span<const given> all(std::ranges::data(values), std::ranges::size(values));
    const host_values numbers = values_of<given>("values", all);
    return table_of_values(ctx, std::span(&numbers, 1), std::move(tag)).batches()[0].columns[0];
  } else {
    column_builder<value> made;
    for (auto&& each : values) {
      if constexpr (std::same_as<given, value> || std::convertible_to<given, std::string_view>) {
        made.append(each);
      } else if (each) {
        made.append(*each);
      } else {
        made.append_null();
      }
    }
    return made.finish(ctx, std::move(tag));
  }
}

/// Makes a table of one batch. Columns without nulls become fields that are not nullable.
/// @throws error invalid_argument if the columns have different numbers of rows.
[[nodiscard]] table make_table(std::shared_ptr<context> ctx,
                               std::span<const std::pair<std::string, column>> columns);
[[nodiscard]] inline table make_table(std::shared_ptr<context> ctx,
                                      std::initializer_list<std::pair<std::string, column>> columns) {
  return make_table(std::move(ctx), std::span(columns.begin(), columns.size()));
}

} // namespace saeta
