#include "saeta/compute/piece_rows.hpp"

#include "saeta/column/schema.hpp"

namespace saeta {

counted_limit limit_of(const data_type& type) noexcept {
  constexpr std::int64_t most32 = std::numeric_limits<std::int32_t>::max();
  constexpr std::int32_t width32 = sizeof(std::int32_t);
  switch (type.layout()) {
  case layout_kind::bytes:
    return type.buffer(1).width == width32 ? counted_limit{counted_rows::pointed, most32} : counted_limit{};
  case layout_kind::list:
  case layout_kind::list_view:
    return type.buffer(1).width == width32 ? counted_limit{counted_rows::of_children, most32}
                                           : counted_limit{};
  case layout_kind::dense_union:
    return {counted_rows::of_children, most32};
  case layout_kind::run_ends: {
    const int bits = 8 * type.children()[0].type.byte_width();
    return {counted_rows::own, static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1)};
  }
  default:
    return {};
  }
}

} // namespace saeta
