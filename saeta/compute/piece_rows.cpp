#include "saeta/compute/piece_rows.hpp"

#include "saeta/column/schema.hpp"

namespace saeta {

counted_limit limit_of(const data_type& type) noexcept {
  constexpr std::int64_t most32 = std::numeric_limits<std::int32_t>::max();
  constexpr std::int32_t width32 = sizeof(std::int32_t);
  if (type.mapping() == row_mapping::run_ends) {
    const int bits = 8 * type.children()[0].type.byte_width();
    return {counted_rows::own, static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1)};
  }
  const buffer_spec spec = type.buffer(1);
  const bool counts = spec.role == buffer_role::offsets || spec.role == buffer_role::starts ||
                      spec.role == buffer_role::union_rows;
  if (!counts || spec.width != width32) {
    return {};
  }
  return {type.children().empty() ? counted_rows::pointed : counted_rows::of_children, most32};
}

} // namespace saeta
