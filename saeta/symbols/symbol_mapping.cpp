#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/symbols/symbol_rows.hpp"
#include "saeta/symbols/symbols.hpp"

#include <algorithm>
#include <utility>

namespace saeta {

symbol_mapping::symbol_mapping(std::shared_ptr<context> ctx, const host_array& values,
                               const std::shared_ptr<symbol_table>& table)
    : ctx_(required(std::move(ctx), "ctx")), type_(symbol_type(required(table, "table"))),
      symbols_(as_size(values.length)) {
  std::vector<std::int64_t> valid(symbols_.size());
  std::int64_t found = 0;
  intern_rows(
      values, *table, [&](std::int64_t row) { return text_at(values, row); },
      [&](std::int64_t row, symbol of) {
        symbols_[as_size(row)] = of;
        valid[as_size(row)] = 1;
        ++found;
      });
  if (found != values.length) {
    valid_ = std::move(valid);
  }
  symbols_there_ = std::make_unique<const device_copy<std::int64_t>>(ctx_, symbols_);
  valid_there_ = std::make_unique<const device_copy<std::int64_t>>(ctx_, valid_);
}

symbol_mapping::~symbol_mapping() = default;

/// The kernels of one column, queued in order on the context's work stream.
struct SAETA_LOCAL symbol_mapping::steps {
  steps(const symbol_mapping& of, const column& indices)
      : ctx(of.ctx_), source(indices), rows(indices.length()), given(as_size(indices.type().byte_width())),
        width(std::max(given, symbol_width)) {
    widened = scratch(given < width ? width : 0);
    found = scratch(width);
    symbols = scratch(width == symbol_width ? 0 : symbol_width);
    if (!of.valid_.empty()) {
      flags = scratch(width);
      bytes = scratch(1);
    }
    if (!of.valid_.empty() || has_nulls()) {
      validity = buffer::allocate(ctx, bitmap_bytes(rows), ctx->work_stream(), symbols_tag);
    }
  }

  [[nodiscard]] bool has_nulls() const {
    return source.validity().present() && source.known_null_count() != 0;
  }
  /// Allocates memory for values of `each` bytes.
  [[nodiscard]] buffer scratch(std::size_t each) const {
    const std::size_t size = round_up(checked_mul(as_size(rows), each, "bytes of symbols"), std::size_t{64});
    return size == 0 ? buffer() : buffer::allocate(ctx, size, ctx->work_stream(), symbols_tag);
  }

  /// Widens indices of 1 and 2 bytes to 4. Returns other indices where they are.
  const std::byte* wide_indices(const use_token& token) const {
    const auto* const first =
        token.span<const std::byte>(source.values()).data() + as_size(source.offset()) * given;
    if (!widened.present()) {
      return first;
    }
    const bool sign = source.type().is_signed();
    gathered_column from;
    from.values = first;
    from.kind = given == 1 ? (sign ? number_kind::int8 : number_kind::uint8)
                           : (sign ? number_kind::int16 : number_kind::uint16);
    const gather_target to{.rows = rows,
                           .kind = sign ? number_kind::int32 : number_kind::uint32,
                           .row_step = 1,
                           .column_step = 1};
    ctx->kernels().gather_columns(token.stream().native_handle(), std::span(&from, 1), to,
                                  token.span<std::byte>(widened).data());
    return token.span<const std::byte>(widened).data();
  }

  [[nodiscard]] join_step remap(const std::byte* from, std::byte* to, const std::int64_t* table,
                                std::size_t entries) const {
    join_step step;
    step.kind = join_kind::remap;
    step.width = static_cast<std::int32_t>(width);
    step.source = from;
    step.target = to;
    step.count = rows;
    step.remap = {.table = table, .entries = static_cast<std::int64_t>(entries)};
    return step;
  }

  /// Copies the low `bytes_each` bytes of each value of `width` bytes.
  void narrow(const use_token& token, const buffer& from, std::size_t bytes_each, const buffer& to) const {
    strided_values low;
    low.first = token.span<const std::byte>(from).data();
    low.dimensions = 1;
    low.extents[0] = rows;
    low.strides[0] = static_cast<std::int64_t>(width);
    ctx->kernels().gather_strided(token.stream().native_handle(), low, static_cast<std::int32_t>(bytes_each),
                                  token.span<std::byte>(to).data());
  }

  void write_validity(const use_token& token) const {
    auto* const bits = token.span<std::uint8_t>(validity).data();
    if (!bytes.present()) {
      ctx->kernels().copy_bitmap(token.stream().native_handle(),
                                 token.span<const std::uint8_t>(source.validity()).data(), source.offset(),
                                 rows, bits, nullptr);
      return;
    }
    narrow(token, flags, 1, bytes);
    auto* const valid = token.span<std::uint8_t>(bytes).data();
    if (has_nulls()) {
      ctx->kernels().fill_nulls(token.stream().native_handle(),
                                token.span<const std::uint8_t>(source.validity()).data(), source.offset(),
                                valid, 1, rows, 0, valid);
    }
    ctx->kernels().pack_bool(token.stream().native_handle(), valid, rows, bits);
  }

  const std::shared_ptr<context>& ctx;
  const column& source;
  std::int64_t rows;
  std::size_t given; ///< bytes of an index
  std::size_t width; ///< bytes of an index or a symbol, the larger of both
  buffer widened;
  buffer found;   ///< symbols, `width` bytes each
  buffer symbols; ///< narrowed from `found` if that is wider
  buffer flags;   ///< 1 if a row refers to a value, `width` bytes each
  buffer bytes;   ///< `flags` in one byte each
  buffer validity;
};

column symbol_mapping::apply(const column& indices) const {
  if (indices.length() == 0) {
    return column::empty(ctx_, type_);
  }
  const steps to(*this, indices);
  use_token token(ctx_->work_stream(),
                  {reads(indices.values()), reads(indices.validity()), reads(symbols_there_->memory()),
                   reads(valid_there_->memory()), updates(to.widened), updates(to.found), updates(to.flags),
                   updates(to.bytes), writes(to.symbols), writes(to.validity)});
  const std::byte* const from = to.wide_indices(token);
  std::vector<join_step> remaps{
      to.remap(from, token.span<std::byte>(to.found).data(), symbols_there_->data(token), symbols_.size())};
  if (!valid_.empty()) {
    remaps.push_back(
        to.remap(from, token.span<std::byte>(to.flags).data(), valid_there_->data(token), valid_.size()));
  }
  number_tiles(remaps);
  const device_copy<join_step> uploaded(ctx_, remaps);
  use_token described(ctx_->work_stream(), {reads(uploaded.memory())});
  ctx_->kernels().join(token.stream().native_handle(), remaps, uploaded.data(described));
  described.finish();
  if (to.symbols.present()) {
    to.narrow(token, to.found, symbol_width, to.symbols);
  }
  if (to.validity.present()) {
    to.write_validity(token);
  }
  token.finish();
  const std::int64_t nulls = !valid_.empty() ? column::unknown_nulls : indices.known_null_count();
  return column::make(ctx_, {.type = type_,
                             .length = indices.length(),
                             .offset = 0,
                             .null_count = to.validity.present() ? nulls : 0,
                             .buffers = {to.validity, to.symbols.present() ? to.symbols : to.found}});
}

} // namespace saeta
