// Splits a column with offsets into two columns.
#include "saeta/base/checked.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/memory/use_token.hpp"

namespace saeta {
namespace {

/// A single offset of 0. An array without rows may have no offsets, but the result has one more than rows.
buffer make_zero_offset(const std::shared_ptr<context>& ctx, std::size_t width) {
  const stream_ref work = ctx->work_stream();
  buffer zero = buffer::allocate(ctx, width, work, "offsets");
  use_token token(work, {writes(zero)});
  ctx->copies().fill(token.mutable_data<std::byte>(zero), 0, width, work);
  token.finish();
  return zero;
}

column numbers(const std::shared_ptr<context>& ctx, type_id id, std::int64_t offset, std::int64_t length,
               const buffer& values) {
  return column::make(ctx, {data_type(id), length, offset, 0, {{}, values}, {}, {}});
}

} // namespace

offset_parts offsets_and_values(const column& source) {
  const auto& ctx = source.ctx();
  const std::size_t width = source.type().offset_width();
  if (width == 0) {
    throw error(errc::exchange,
                concat("a column of type ", source.type().name(),
                       " has no offsets: only strings, binaries, lists and maps have them; use to_arrow"));
  }
  const type_id id = width == 4 ? type_id::int32 : type_id::int64;
  const std::int64_t count = checked_add(source.length(), std::int64_t{1}, "offsets of a column");
  const buffer& offsets = source.offsets();
  const bool none = source.length() == 0 && offsets.size() < width;
  column first = none ? numbers(ctx, id, 0, 1, make_zero_offset(ctx, width))
                      : numbers(ctx, id, source.length() == 0 ? 0 : source.offset(), count, offsets);
  if (!source.children().empty()) {
    return {std::move(first), source.children().front()};
  }
  const buffer& bytes = source.bytes();
  return {std::move(first), numbers(ctx, type_id::uint8, 0, static_cast<std::int64_t>(bytes.size()), bytes)};
}

} // namespace saeta
