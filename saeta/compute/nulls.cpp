#include "saeta/compute/nulls.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/compute/selected_rows.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>
#include <bit>

namespace saeta {
namespace {

bool refers_to_nulls(const column& source) {
  return source.length() != 0 && std::ranges::any_of(value_columns(source), [](const column& values) {
           return values.null_count() != 0 || refers_to_nulls(values);
         });
}

buffer no_valid_rows(const column& of) {
  const stream_ref work = of.ctx()->work_stream();
  buffer bits = buffer::allocate(of.ctx(), bitmap_bytes(of.length()), work, "nulls");
  use_token token(work, {writes(bits)});
  of.ctx()->copies().fill(token.span<std::uint8_t>(bits).data(), 0, bits.size(), work);
  token.finish();
  return bits;
}

/// The validity of a column as a column whose values have 0 bytes. So columns of different types can be
/// joined as pieces of one column.
column validity_alone(const column& of) {
  static const data_type no_bytes = data_type::parse("w:0");
  if (of.type().id() == type_id::null && of.length() != 0) {
    return column::make(of.ctx(), {no_bytes, of.length(), 0, of.length(), {no_valid_rows(of), {}}, {}});
  }
  return column::make(of.ctx(),
                      {no_bytes, of.length(), of.offset(), of.known_null_count(), {of.validity(), {}}, {}});
}

} // namespace

column visible_nulls(const column& source) {
  if (!refers_to_nulls(source)) {
    return source;
  }
  std::vector<column> values = value_columns(source);
  std::ranges::transform(values, values.begin(),
                         [](const column& column) { return validity_alone(visible_nulls(column)); });
  return take(values, value_rows(source)).front();
}

std::int64_t logical_null_count(const column& source) { return visible_nulls(source).null_count(); }

column with_own_nulls(const column& dictionary) {
  if (!refers_to_nulls(dictionary)) {
    return dictionary;
  }
  const auto width = static_cast<std::size_t>(dictionary.type().byte_width());
  const buffer codes = dictionary.values().slice(static_cast<std::size_t>(dictionary.offset()) * width,
                                                 static_cast<std::size_t>(dictionary.length()) * width);
  return column::make(dictionary.ctx(),
                      {.type = dictionary.type(),
                       .length = dictionary.length(),
                       .buffers = {visible_nulls(dictionary).validity(), codes},
                       .dictionary = std::make_shared<const column>(*dictionary.dictionary())});
}

namespace {

bool is_all_null(const column& of) { return of.type().id() == type_id::null; }

bool may_have_nulls(const column& of) {
  return is_all_null(of) || (of.validity().present() && of.known_null_count() != 0);
}

std::vector<column> visible(std::span<const column> columns) {
  std::vector<column> result;
  std::ranges::transform(columns, std::back_inserter(result), visible_nulls);
  return result;
}

/// One byte for each row of a batch: `mark` if one of the columns is null there, else `other`.
/// @param columns  their validity says which rows are null
column marked(const std::shared_ptr<context>& ctx, std::int64_t rows, std::span<const column> columns,
              std::uint8_t mark, std::uint8_t other) {
  const stream_ref work = ctx->work_stream();
  const auto size = static_cast<std::size_t>(rows);
  const buffer bytes = buffer::allocate(ctx, size, work, "nulls");
  if (rows != 0) {
    std::vector<use> uses{updates(bytes)};
    std::ranges::transform(columns, std::back_inserter(uses),
                           [](const column& column) { return reads(column.validity()); });
    use_token token(work, uses);
    auto* const target = token.span<std::uint8_t>(bytes).data();
    const bool all = std::ranges::any_of(columns, is_all_null);
    ctx->copies().fill(target, all ? mark : other, size, work);
    for (const column& column : columns) {
      if (!all && may_have_nulls(column)) {
        ctx->kernels().fill_nulls(work.native_handle(),
                                  token.span<const std::uint8_t>(column.validity()).data(), column.offset(),
                                  target, 1, rows, mark, target);
      }
    }
    token.finish();
  }
  return column::make(ctx, {data_type::byte_bool(), rows, 0, 0, {{}, bytes}, {}});
}

void require_fill(const column& source, const column& fill) {
  if (fill.type() != source.type()) {
    throw error(errc::type_mismatch, concat("the fill is of type ", fill.type().name(),
                                            ", the nulls are of type ", source.type().name()));
  }
  if (!fill.ctx()->shares_with(*source.ctx())) {
    throw error(errc::invalid_argument, concat("the fill is on ", to_string(fill.ctx()->device()),
                                               ", the nulls are on ", to_string(source.ctx()->device())));
  }
  if (fill.length() != 1) {
    throw error(errc::invalid_argument, concat("the fill has ", fill.length(), " rows, expected 1"));
  }
  if (logical_null_count(fill) != 0) {
    throw error(errc::invalid_argument, "the fill is null");
  }
}

/// The kernel that replaces values moves them as one number.
bool is_one_number(const data_type& type) {
  const auto width = static_cast<std::uint32_t>(type.byte_width());
  return type.id() != type_id::dictionary && width <= sizeof(std::uint64_t) && std::has_single_bit(width);
}

std::uint64_t bits_of(const column& fill) {
  const auto width = static_cast<std::size_t>(fill.type().byte_width());
  std::uint64_t bits = 0;
  use_token token(fill.ctx()->work_stream(), {reads(fill.values())});
  fill.ctx()->copies().read_scalar(&bits,
                                   token.span<const std::byte>(fill.values()).data() +
                                       static_cast<std::size_t>(fill.offset()) * width,
                                   width, token.stream());
  token.finish();
  return bits;
}

} // namespace

column is_null(const column& source) {
  const column seen = visible_nulls(source);
  return marked(source.ctx(), source.length(), std::span(&seen, 1), 1, 0);
}

column fill_nulls(const column& source, std::uint64_t bits) {
  const auto& ctx = source.ctx();
  const stream_ref work = ctx->work_stream();
  const auto width = static_cast<std::size_t>(source.type().byte_width());
  const std::size_t bytes =
      checked_mul(static_cast<std::size_t>(source.length()), width, "bytes of filled values");
  const buffer filled = buffer::allocate(ctx, bytes, work, source.values().owner()->tag());
  use_token token(work, {reads(source.values()), reads(source.validity()), writes(filled)});
  const auto* const values = token.span<const std::byte>(source.values()).data();
  ctx->kernels().fill_nulls(work.native_handle(), token.span<const std::uint8_t>(source.validity()).data(),
                            source.offset(), values + static_cast<std::size_t>(source.offset()) * width,
                            source.type().byte_width(), source.length(), bits,
                            token.span<std::byte>(filled).data());
  token.finish();
  return column::make(ctx, {source.type(), source.length(), 0, 0, {{}, filled}, {}});
}

std::vector<column> fill_null(std::span<const column> source, const column& fill) {
  require_fill(source.front(), fill);
  std::vector<column> pieces(source.begin(), source.end());
  const std::vector<column> seen = visible(source);
  if (std::ranges::none_of(seen, may_have_nulls)) {
    return pieces;
  }
  if (is_one_number(fill.type())) {
    const std::uint64_t bits = bits_of(fill);
    for (column& piece : pieces) {
      if (may_have_nulls(piece)) {
        piece = fill_nulls(piece, bits);
      }
    }
    return pieces;
  }
  const selected_rows rows = rows_with_fill(fill.ctx(), rows_of_pieces(source), seen);
  pieces.push_back(fill);
  return take(pieces, rows);
}

table drop_null(const table& source, std::span<const std::size_t> columns) {
  std::vector<std::vector<column>> seen;
  for (const batch& batch : source.batches()) {
    std::vector<column>& of_batch = seen.emplace_back();
    for (const std::size_t index : columns) {
      of_batch.push_back(visible_nulls(batch.columns[index]));
    }
  }
  const auto has_nulls = [](std::span<const column> each) {
    return std::ranges::any_of(each, may_have_nulls);
  };
  if (std::ranges::none_of(seen, has_nulls)) {
    return source;
  }
  std::vector<column> mask;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    mask.push_back(marked(source.ctx(), source.batches()[i].rows, seen[i], 0, 1));
  }
  return filter(source, mask);
}

} // namespace saeta
