#include "saeta/base/checked.hpp"
#include "saeta/base/half.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/column/number_kind.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/compute/cast.hpp"
#include "saeta/compute/nulls.hpp"
#include "saeta/compute/selected_rows.hpp"
#include "saeta/interop/dlpack/tensors.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/symbols/symbols.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

namespace saeta {
namespace {

[[noreturn]] void refuse_number(const data_type& type, const tensor_fill& number, errc code,
                                std::string_view why) {
  const std::string given = std::visit([](auto value) { return concat(value); }, number);
  throw error(code, concat("dlpack: fill ", given, " for a column of type ", type.name(), ": ", why));
}

template <class Integer>
std::uint64_t integer_bits(const data_type& type, const tensor_fill& number) {
  return std::visit(
      [&](auto value) -> std::uint64_t {
        if constexpr (std::is_floating_point_v<decltype(value)>) {
          refuse_number(type, number, errc::type_mismatch, "expected an integer");
        } else {
          if (!std::in_range<Integer>(value)) {
            refuse_number(type, number, errc::out_of_range, "it is outside of the type's range");
          }
          return static_cast<std::make_unsigned_t<Integer>>(static_cast<Integer>(value));
        }
      },
      number);
}

/// True if a float with a significand of `digits` bits has the integer exactly. The exponent is not checked.
template <class Integer>
bool is_exact(Integer value, int digits) {
  const auto unsigned_value = static_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = std::cmp_less(value, 0) ? 0 - unsigned_value : unsigned_value;
  return magnitude == 0 || magnitude >> std::countr_zero(magnitude) >> digits == 0;
}

/// The number as a double. An integer must be exact in a float whose significand has `digits` bits.
double as_double(const data_type& type, const tensor_fill& number, int digits) {
  return std::visit(
      [&](auto value) {
        if constexpr (!std::is_floating_point_v<decltype(value)>) {
          if (!is_exact(value, digits)) {
            refuse_number(type, number, errc::out_of_range, "the type can't represent this integer exactly");
          }
        }
        return static_cast<double>(value);
      },
      number);
}

void require_finite_stays_finite(const data_type& type, const tensor_fill& number, double value,
                                 double greatest) {
  if (std::isfinite(value) && std::fabs(value) > greatest) {
    refuse_number(type, number, errc::out_of_range, "it is outside of the type's range");
  }
}

std::uint64_t float_bits(const data_type& type, const tensor_fill& number) {
  switch (type.id()) {
  case type_id::half_float: {
    const double value = as_double(type, number, 11);
    require_finite_stays_finite(type, number, value, greatest_half);
    return half_bits(value);
  }
  case type_id::float32: {
    using limits = std::numeric_limits<float>;
    const double value = as_double(type, number, limits::digits);
    require_finite_stays_finite(type, number, value, static_cast<double>(limits::max()));
    return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
  default:
    return std::bit_cast<std::uint64_t>(as_double(type, number, std::numeric_limits<double>::digits));
  }
}

} // namespace

bool becomes_numbers(const data_type& type, const dlpack_export& how) noexcept {
  if (type.is_decimal()) {
    return how.type && is_number_cast(type, *how.type);
  }
  if (type.mapping() != row_mapping::run_ends || !type.extension_name().empty()) {
    return false;
  }
  const data_type& values = type.children()[1].type;
  return has_tensor_type(values) || values.id() == type_id::boolean ||
         (how.reinterpret && values.is_temporal()) || becomes_numbers(values, how);
}

column numbers_of(const column& source, const dlpack_export& how) {
  const data_type& type = source.type();
  if (how.codes && code_type(type) != nullptr) {
    return codes_of(source.dictionary() != nullptr ? with_own_nulls(source) : source);
  }
  if (how.reinterpret && type.is_temporal() && type.extension_name().empty()) {
    return relabel(source, data_type(type.byte_width() == 4 ? type_id::int32 : type_id::int64));
  }
  if (becomes_numbers(type, how) && !type.is_decimal()) {
    return numbers_of(plain_numbers(source), how);
  }
  if (becomes_numbers(type, how)) { // like other numbers: floats are rounded, integers are not
    return cast(source, *how.type, how.type->is_floating() ? cast_rule::round : cast_rule::exact);
  }
  return source;
}

data_type number_type_of(const column& numbers) {
  data_type shown = numbers.type().id() == type_id::boolean && numbers.type().extension_name().empty()
                        ? data_type::bool8()
                        : numbers.type();
  to_tensor_type(shown);
  return shown;
}

number_kind number_kind_of(const data_type& type) {
  to_tensor_type(type);
  if (type.is_bool8()) {
    return number_kind::boolean;
  }
  if (narrow_float_of(type) != nullptr) { // moved without conversion
    return type.byte_width() == 1 ? number_kind::uint8 : number_kind::uint16;
  }
  return number_kind_of_number(type);
}

buffer row_values(const column& source) {
  const auto width = static_cast<std::size_t>(source.type().byte_width());
  const std::size_t bytes =
      checked_mul(static_cast<std::size_t>(source.length()), width, "bytes of the values");
  return bytes == 0 ? buffer{}
                    : source.values().slice(static_cast<std::size_t>(source.offset()) * width, bytes);
}

std::uint64_t value_bits(const data_type& type, const tensor_fill& number) {
  if (type.is_bool8()) {
    const std::uint64_t bits = integer_bits<std::uint8_t>(type, number);
    if (bits > 1) {
      refuse_number(type, number, errc::out_of_range, "expected 0 or 1");
    }
    return bits;
  }
  if (const narrow_float* const narrow = narrow_float_of(type)) {
    const bool zero = std::visit([](auto value) { return value == 0; }, number);
    if (!zero || !narrow->has_zero) {
      refuse_number(type, number, errc::out_of_range,
                    "narrow floats can only be filled with 0 or nulls='nan'");
    }
    return 0;
  }
  switch (type.id()) {
  case type_id::int8:
    return integer_bits<std::int8_t>(type, number);
  case type_id::uint8:
    return integer_bits<std::uint8_t>(type, number);
  case type_id::int16:
    return integer_bits<std::int16_t>(type, number);
  case type_id::uint16:
    return integer_bits<std::uint16_t>(type, number);
  case type_id::int32:
    return integer_bits<std::int32_t>(type, number);
  case type_id::uint32:
    return integer_bits<std::uint32_t>(type, number);
  case type_id::int64:
    return integer_bits<std::int64_t>(type, number);
  case type_id::uint64:
    return integer_bits<std::uint64_t>(type, number);
  default:
    return float_bits(type, number);
  }
}

std::uint64_t nan_bits(const data_type& type) {
  if (const narrow_float* const narrow = narrow_float_of(type)) {
    return narrow->nan;
  }
  if (!type.is_floating()) {
    throw error(errc::exchange, concat("dlpack: a column of type ", type.name(),
                                       " has no NaN for its nulls: choose fill=value or nulls='mask'"));
  }
  return float_bits(type, std::numeric_limits<double>::quiet_NaN());
}

column is_valid(const column& given) {
  const column source = visible_nulls(given);
  const auto& ctx = source.ctx();
  if (source.validity().present()) {
    const column bits = column::make(
        ctx, {data_type(type_id::boolean), source.length(), source.offset(), 0, {{}, source.validity()}, {}});
    return relabel_bool8(unpack_bool(bits), data_type::byte_bool());
  }
  const auto rows = static_cast<std::size_t>(source.length());
  const stream_ref work = ctx->work_stream();
  const buffer bytes = buffer::allocate(ctx, rows, work, "validity");
  if (rows != 0) {
    use_token token(work, {writes(bytes)});
    const bool all_null = source.type().id() == type_id::null;
    ctx->copies().fill(token.span<std::byte>(bytes).data(), all_null ? 0 : 1, rows, work);
    token.finish();
  }
  return column::make(ctx, {data_type::byte_bool(), source.length(), 0, 0, {{}, bytes}, {}});
}

} // namespace saeta
