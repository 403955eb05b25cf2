// Describes Arrow's layouts: the buffers of each, how its rows map to rows of children, and what is checked.
//
// What      Constants. A data type has the description of its layout. Plans of joins and reads, windows,
//           copies and checks use its answers, so most code never asks for the layout itself.
// Thread    Constants and pure functions.
// Standard  Arrow columnar format, arrow.apache.org/docs/format/Columnar.html.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/value_check.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace SAETA_EXPORT saeta {

/// How the rows of a column are stored in its buffers and children.
enum class layout_kind {
  none,         ///< null: no buffers at all
  bits,         ///< boolean
  fixed,        ///< values of a fixed width, dictionary indices included
  bytes,        ///< binary and string
  views,        ///< binary and string views
  list,         ///< list, large list, map
  list_view,    ///< list view, large list view
  fixed_list,   ///< fixed-size list
  structure,    ///< struct
  dense_union,  ///< each row is a row of one child
  sparse_union, ///< each row is the same row of one child
  run_ends,     ///< children: run ends, values
};

/// The contents of a buffer.
enum class buffer_role {
  validity,   ///< a bit per row; absent if there are no nulls
  bits,       ///< a bit per row
  values,     ///< `width` bytes per row
  views,      ///< 16 bytes per row: a short value, or where a long one is
  offsets,    ///< `width` bytes per row, and one more offset
  starts,     ///< `width` bytes per row: the first child row of each list
  sizes,      ///< `width` bytes per row: the number of child rows of each list
  type_ids,   ///< a byte per row: which child of a union has the row
  union_rows, ///< 4 bytes per row: the row of that child
  bytes,      ///< the data that offsets or views point to
};

/// How rows of a column map to rows of its children.
enum class row_mapping {
  none,       ///< there are no children
  same,       ///< row i is row i of every child
  fixed_size, ///< row i is the `list_size` rows from i * `list_size` on
  offsets,    ///< row i is the rows between two offsets
  run_ends,   ///< row i is the run that contains it
  scattered,  ///< each row names its rows, in any order
};

struct buffer_spec {
  buffer_role role = buffer_role::bytes;
  std::int32_t width = 0;
  std::string_view name; ///< for messages

  [[nodiscard]] constexpr bool is_bitmap() const noexcept {
    return role == buffer_role::validity || role == buffer_role::bits;
  }
};

struct byte_window {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// The bytes of a buffer with rows [first, first + rows): whole bytes of a bitmap. Not for `bytes`, because
/// only offsets and views know which are used.
[[nodiscard]] constexpr byte_window bytes_of_rows(const buffer_spec& spec, std::size_t first,
                                                  std::size_t rows) noexcept {
  if (spec.is_bitmap()) {
    return {first / 8, rows == 0 ? 0 : (first % 8 + rows + 7) / 8};
  }
  const auto width = static_cast<std::size_t>(spec.width);
  return {first * width, (rows + (spec.role == buffer_role::offsets ? 1 : 0)) * width};
}

/// The name of a buffer in messages.
[[nodiscard]] constexpr std::string_view name_of(buffer_role role) noexcept {
  switch (role) {
  case buffer_role::validity:
    return "validity";
  case buffer_role::bits:
  case buffer_role::values:
  case buffer_role::views:
    return "values";
  case buffer_role::offsets:
  case buffer_role::starts:
  case buffer_role::union_rows:
    return "offsets";
  case buffer_role::sizes:
    return "sizes";
  case buffer_role::type_ids:
    return "type ids";
  case buffer_role::bytes:
    break;
  }
  return "bytes";
}

/// The buffers of a layout, in Arrow's order.
struct buffer_roles {
  constexpr buffer_roles(std::initializer_list<buffer_role> from) noexcept
      : count(static_cast<std::uint8_t>(from.size())) {
    std::ranges::copy(from, all.begin());
  }

  std::array<buffer_role, 3> all{};
  std::uint8_t count;
};

struct layout_description {
  layout_kind kind = layout_kind::none;
  buffer_roles buffers{};
  row_mapping mapping = row_mapping::none;
  /// The check that the values need before they are used as offsets or indices. The indices of dictionaries
  /// and symbols need another check, which `data_type::check` returns.
  std::optional<check_kind> check{};
  bool variadic_buffers = false; ///< any number of data buffers follow
  /// The names of children have a meaning; those of other types are conventions, which differ between
  /// producers.
  bool named_children = false;
};

constexpr layout_description describe(layout_kind kind) noexcept {
  using enum buffer_role;
  switch (kind) {
  case layout_kind::none:
    break;
  case layout_kind::bits:
    return {kind, {validity, bits}};
  case layout_kind::fixed:
    return {kind, {validity, values}};
  case layout_kind::bytes:
    return {kind, {validity, offsets, bytes}, row_mapping::none, check_kind::offsets};
  case layout_kind::views:
    return {.kind = kind, .buffers = {validity, views}, .check = check_kind::views, .variadic_buffers = true};
  case layout_kind::list:
    return {kind, {validity, offsets}, row_mapping::offsets, check_kind::offsets};
  case layout_kind::list_view:
    return {kind, {validity, starts, sizes}, row_mapping::scattered, check_kind::list_views};
  case layout_kind::fixed_list:
    return {kind, {validity}, row_mapping::fixed_size};
  case layout_kind::structure:
    return {.kind = kind, .buffers = {validity}, .mapping = row_mapping::same, .named_children = true};
  case layout_kind::dense_union:
    return {.kind = kind,
            .buffers = {type_ids, union_rows},
            .mapping = row_mapping::scattered,
            .check = check_kind::unions,
            .named_children = true};
  case layout_kind::sparse_union:
    return {.kind = kind,
            .buffers = {type_ids},
            .mapping = row_mapping::same,
            .check = check_kind::unions,
            .named_children = true};
  case layout_kind::run_ends:
    return {kind, {}, row_mapping::run_ends, check_kind::run_ends};
  }
  return {};
}

} // namespace saeta
