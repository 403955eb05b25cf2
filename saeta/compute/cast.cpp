#include "saeta/compute/cast.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/column/number_kind.hpp"
#include "saeta/column/same_type.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/compute/alignment.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/device/cast.hpp"
#include "saeta/memory/use_token.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>

namespace saeta {
namespace {

/// The same rows in the same memory, as a column of `to`, whose layout fits.
column described(const column& source, const data_type& to) {
  if (source.type() == to) {
    return source;
  }
  if (source.type().id() == type_id::null) {
    return nulls(source.ctx(), to, source.length());
  }
  return retyped(source, to, described);
}

} // namespace

column nulls(const std::shared_ptr<context>& ctx, const data_type& type, std::int64_t rows) {
  const column none = column::empty(ctx, type);
  if (rows == 0 || type.id() == type_id::null) {
    return rows == 0 ? none : column::make(ctx, {type, rows, 0, rows, {}, {}});
  }
  selected_rows chosen = allocate_rows(ctx, rows);
  chosen.nullable = true;
  use_token token(ctx->work_stream(), {writes(chosen.memory)});
  ctx->copies().fill(token.span<std::byte>(chosen.memory).data(), 0xff, chosen.memory.size(),
                     token.stream()); // no_row
  token.finish();
  const std::vector<column> columns = take(std::span(&none, 1), chosen);
  if (columns.size() != 1) {
    throw error(errc::overflow, concat(rows, " nulls of type ", type.name(), " do not fit into one column"));
  }
  return columns.front();
}

column conform(const column& source, const data_type& to) {
  if (source.type() == to) {
    return source;
  }
  if (united_type(to, source.type()) != to) {
    throw error(errc::type_mismatch,
                concat("a column of ", source.type().name(), " is not one of ", to.name()));
  }
  return described(source, to);
}

batch conform(batch source, const schema& fields) {
  for (std::size_t i = 0; i < source.columns.size(); ++i) {
    column& of = source.columns[i];
    if (of.type() != fields.fields[i].type) {
      of = conform(of, fields.fields[i].type);
    }
  }
  return source;
}

table conform(const table& source, std::shared_ptr<const schema_index> fields) {
  if (source.shared_fields() == fields) {
    return source;
  }
  if (fields->fields().fields.size() != source.column_count()) {
    throw error(errc::invalid_argument, concat("a schema of ", fields->fields().fields.size(), " fields for ",
                                               source.column_count(), " columns"));
  }
  std::vector<batch> batches;
  for (const batch& batch : source.batches()) {
    batches.push_back(conform(batch, fields->fields()));
  }
  return table::make_sharing(source.ctx(), std::move(fields), std::move(batches));
}

namespace {

bool is_number(const data_type& type) {
  return (type.is_integer() || type.is_floating()) && !type.is_bool8() && type.extension_name().empty();
}

/// A double has the powers of ten up to this one exactly.
constexpr int most_exact_digits = 22;

decimal_source source_of_decimals(const data_type& type) {
  const std::int32_t scale = type.decimal_scale();
  if (scale < -most_decimal_scale || scale > most_decimal_scale) {
    throw error(errc::unsupported,
                concat("a column of ", type.name(), " can't be cast: decimals with a scale of -",
                       most_decimal_scale, " to ", most_decimal_scale, " become other numbers"));
  }
  decimal_source source{.bytes = type.byte_width(), .scale = scale, .power = {1}};
  double divisor = 1;
  for (std::int32_t digit = 0; digit < std::abs(scale); ++digit) {
    divisor *= 10;
    std::uint64_t carry = 0;
    for (std::uint32_t& word : source.power) {
      carry += std::uint64_t{word} * 10;
      word = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }
  source.exact_divisor = scale >= 0 && scale <= most_exact_digits ? divisor : 0;
  return source;
}

} // namespace

bool is_number_cast(const data_type& from, const data_type& to) noexcept {
  return is_number(to) && (is_number(from) || (from.is_decimal() && from.extension_name().empty()));
}

column cast(const column& source, const data_type& to, cast_rule rule, std::int64_t first_row) {
  const data_type& from = source.type();
  if (is_view_cast(from, to) && !is_number_cast(from, to)) {
    return view_cast(source, to);
  }
  if (united_type(to, from) == to) {
    return conform(source, to);
  }
  if (!is_number_cast(from, to)) {
    throw error(
        errc::type_mismatch,
        concat("a column of ", from.name(), " can't be cast to ", to.name(),
               ": only numbers are converted, and decimals to numbers; other types by the library that "
               "made them"));
  }
  const auto& ctx = source.ctx();
  const std::int64_t rows = source.length();
  if (rows == 0) {
    return column::empty(ctx, to);
  }
  const bool rounds = rule == cast_rule::round || (to.is_floating() && !from.is_integer());
  if (!ctx->on_host()) {
    require_alignment("casting numbers", reinterpret_cast<const void*>(source.values().address()),
                      from.byte_width());
  }
  const stream_ref work = ctx->work_stream();
  const auto size = static_cast<std::size_t>(rows);
  const bool has_nulls = source.validity().present() && source.known_null_count() != 0;
  const buffer values = buffer::allocate(
      ctx,
      round_up(checked_mul(size, static_cast<std::size_t>(to.byte_width()), "bytes of numbers"),
               std::size_t{64}),
      work, "cast");
  const buffer found = buffer::allocate(ctx, sizeof(std::int64_t), work, "cast");
  const buffer validity = has_nulls ? buffer::allocate(ctx, bitmap_bytes(rows), work, "cast") : buffer();
  use_token token(work, {reads(source.values()), reads(source.validity()), writes(values), writes(found),
                         writes(validity)});
  const auto used = size * static_cast<std::size_t>(to.byte_width());
  auto* const target = token.span<std::byte>(values).data();
  ctx->copies().fill(target + used, 0, values.size() - used, work);
  const auto* const bits = token.span<const std::uint8_t>(source.validity()).data();
  auto* const bad_row = token.span<std::int64_t>(found).data();
  ctx->kernels().cast_numbers(
      work.native_handle(),
      {.source = token.span<const std::byte>(source.values()).data() + source.offset() * from.byte_width(),
       .validity = has_nulls ? bits : nullptr,
       .bit_offset = source.offset(),
       .from = from.is_decimal() ? number_kind{} : number_kind_of_number(from),
       .decimal = from.is_decimal() ? source_of_decimals(from) : decimal_source{},
       .to = number_kind_of_number(to),
       .rounds = rounds,
       .count = rows,
       .target = target,
       .bad_row = bad_row});
  if (has_nulls) {
    ctx->kernels().copy_bitmap(work.native_handle(), bits, source.offset(), rows,
                               token.span<std::uint8_t>(validity).data(), nullptr);
  }
  std::int64_t bad = 0;
  ctx->copies().read_scalar(&bad, bad_row, sizeof bad, work);
  token.finish();
  if (bad >= 0) {
    throw error(
        errc::out_of_range,
        concat("the ", from.name(), " in row ", first_row + bad, " has no ",
               rule == cast_rule::round ? "" : "equal ", to.name(),
               rule == cast_rule::round ? "" : ": permit rounding (round=True), or choose a wider type"));
  }
  return column::make(ctx, {to, rows, 0, has_nulls ? source.known_null_count() : 0, {validity, values}, {}});
}

} // namespace saeta
