// Gathers the numbers of columns into one buffer.
#include "saeta/base/checked.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/compute/nulls.hpp"
#include "saeta/device/kernels.hpp"
#include "saeta/interop/dlpack/tensors.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/staging/staging_ring.hpp"

namespace saeta {
namespace {

constexpr const char* copied_tag = "dlpack copy";

buffer allocate_copy(const column& source, std::size_t bytes) {
  const auto& ctx = source.ctx();
  const stream_ref work = ctx->work_stream();
  buffer own = buffer::allocate(ctx, bytes, work, copied_tag);
  staging_ring::of(ctx)->copy(own, row_values(source), work);
  return own;
}

/// The validity of a block's column, and the position of its first row's bit.
struct row_bits {
  buffer bits;
  std::int64_t first = 0;
};

row_bits validity_of(const tensor_numbers& from, const column& values) {
  const column& rows = from.rows ? *from.rows : values;
  return {rows.validity(), rows.offset()};
}

/// The buffers of a gather. One use token takes them all, and the kernels run between its waits and records.
class gathering {
public:
  gathering(const tensor_numbers& from, const buffer& target, bool values_too, bool nulls_too) {
    uses_.push_back(writes(target));
    for (const number_block& block : from.blocks) {
      for (const column& column : block.columns) {
        if (values_too) {
          uses_.push_back(reads(column.values()));
        }
        if (nulls_too) {
          uses_.push_back(reads(validity_of(from, column).bits));
        }
      }
    }
  }
  [[nodiscard]] std::span<const use> uses() const noexcept { return uses_; }

private:
  std::vector<use> uses_;
};

/// The numbers with booleans as bytes, because the gather kernel can't read bits.
tensor_numbers with_bytes(const tensor_numbers& from) {
  tensor_numbers numbers = from;
  for (number_block& block : numbers.blocks) {
    for (column& column : block.columns) {
      if (column.type().id() == type_id::boolean) {
        column = unpack_bool(column);
      }
    }
  }
  return numbers;
}

void gather_all(const tensor_numbers& from, tensor_order wanted, std::optional<std::uint64_t> fill,
                bool only_mask, const buffer& target) {
  const stream_ref work = from.ctx->work_stream();
  const bool nulls_count = fill || only_mask;
  const gathering all(from, target, !only_mask, nulls_count);
  use_token token(work, all.uses());
  gather_target shape;
  shape.kind = number_kind_of(from.shown);
  const auto columns = static_cast<std::int64_t>(from.blocks.front().columns.size());
  shape.row_step = wanted == tensor_order::column ? 1 : columns;
  shape.column_step = wanted == tensor_order::column ? from.extents.front() : 1;
  shape.rows_a_bit = from.numbers_a_row;
  shape.fill = fill.value_or(0);
  auto* to = token.span<std::byte>(target).data();
  for (const number_block& block : from.blocks) {
    std::vector<gathered_column> sources;
    for (const column& column : block.columns) {
      gathered_column& source = sources.emplace_back();
      if (!only_mask) {
        const auto skipped =
            static_cast<std::size_t>(column.offset()) * static_cast<std::size_t>(column.type().byte_width());
        source.values = token.span<const std::byte>(column.values()).data() + skipped;
        source.kind = number_kind_of(column.type());
      }
      if (nulls_count) {
        const row_bits valid = validity_of(from, column);
        source.validity = token.span<const std::uint8_t>(valid.bits).data();
        source.bit_offset = valid.first;
      }
    }
    shape.rows = block.rows;
    from.ctx->kernels().gather_columns(work.native_handle(), sources, shape, to);
    to += block.rows * shape.row_step * width_of(shape.kind);
  }
  token.finish();
}

} // namespace

buffer gather_tensor(const tensor_numbers& from, tensor_order wanted, std::optional<std::uint64_t> fill,
                     bool only_mask) {
  const std::size_t bytes =
      checked_mul(static_cast<std::size_t>(from.size()), static_cast<std::size_t>(from.shown.byte_width()),
                  "dlpack: bytes of a copy");
  if (from.empty()) {
    return buffer::allocate(from.ctx, 0, from.ctx->work_stream(), copied_tag);
  }
  const bool one = from.blocks.size() == 1 && from.blocks.front().columns.size() == 1;
  if (one && !only_mask) {
    const column& values = from.blocks.front().columns.front();
    const bool packed = values.type().id() == type_id::boolean && from.shown.is_bool8();
    if (!fill && packed) {
      return unpack_bool(values).values();
    }
    if (!fill && values.type() == from.shown) {
      return allocate_copy(values, bytes);
    }
    const bool own_nulls = !from.rows || from.extents.size() == 1;
    if (fill && own_nulls && (packed || values.type() == from.shown)) {
      return fill_nulls(packed ? unpack_bool(values) : values, *fill).values();
    }
  }
  buffer target = buffer::allocate(from.ctx, bytes, from.ctx->work_stream(), copied_tag);
  gather_all(only_mask ? from : with_bytes(from), wanted, fill, only_mask, target);
  return target;
}

std::int64_t nulls_in_valid_rows(const column& values, const column& rows) {
  if (rows.null_count() == 0) {
    return logical_null_count(values);
  }
  // One byte per value: 1 if its row is null or the value is valid.
  tensor_numbers bytes;
  bytes.ctx = values.ctx();
  bytes.shown = data_type::bool8();
  bytes.blocks.push_back({values.length(), {is_valid(values)}});
  bytes.extents = {values.length()};
  bytes.rows = rows;
  bytes.numbers_a_row = values.length() / rows.length();
  const buffer target = buffer::allocate(bytes.ctx, static_cast<std::size_t>(values.length()),
                                         bytes.ctx->work_stream(), "nulls in rows");
  gather_all(bytes, tensor_order::row, 1, false, target);
  const buffer bits =
      pack_bool(column::make(bytes.ctx, {bytes.shown, values.length(), 0, 0, {{}, target}, {}, {}})).values();
  return column::make(
             bytes.ctx,
             {data_type(type_id::boolean), values.length(), 0, column::unknown_nulls, {bits, bits}, {}, {}})
      .null_count();
}

} // namespace saeta
