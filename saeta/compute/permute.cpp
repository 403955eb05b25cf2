#include "saeta/compute/permute.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/device/take.hpp"
#include "saeta/memory/use_token.hpp"

namespace saeta {
namespace {

constexpr std::int64_t most_rows = std::int64_t{1} << 62;
constexpr std::int64_t most_short_rows = std::int64_t{1} << 32;

void require_numbers(std::int64_t count, const number_groups& numbers) {
  if (count < 0 || count > most_rows) {
    throw error(errc::out_of_range, concat("a permutation of ", count, " rows: expected 0 to 2^62"));
  }
  if (numbers.group < 1 || numbers.stride < numbers.group || numbers.count < 0 || numbers.skipped < 0 ||
      numbers.skipped >= numbers.group) {
    throw error(errc::invalid_argument, concat(numbers.count, " numbers in groups of ", numbers.group,
                                               " at distances of ", numbers.stride, " without ",
                                               numbers.skipped, ": groups have numbers and don't overlap"));
  }
  if (numbers.count == 0) {
    return;
  }
  const std::int64_t entries = checked_add(numbers.count - 1, numbers.skipped, "numbers of rows");
  const std::int64_t last =
      checked_add(checked_mul(entries / numbers.group, numbers.stride, "numbers of rows"),
                  checked_add(numbers.first, entries % numbers.group, "numbers of rows"), "numbers of rows");
  if (numbers.first + numbers.skipped < 0 || last >= count) {
    throw error(errc::out_of_range, concat("numbers from ", numbers.first + numbers.skipped, " to ", last,
                                           ": expected numbers of ", count, " rows"));
  }
}

/// @param width  bytes of a number
buffer permuted_numbers(const std::shared_ptr<context>& ctx, std::int64_t count, std::uint64_t key,
                        const number_groups& numbers, std::int32_t width) {
  const stream_ref work = ctx->work_stream();
  const std::size_t bytes = checked_mul(static_cast<std::size_t>(numbers.count),
                                        static_cast<std::size_t>(width), "bytes of numbers");
  buffer made = buffer::allocate(ctx, bytes, work, "permute");
  use_token token(work, {writes(made)});
  ctx->kernels().permute_rows(work.native_handle(),
                              {.order = make_permutation(static_cast<std::uint64_t>(count), key),
                               .numbers = numbers,
                               .width = width,
                               .target = token.mutable_data<std::byte>(made)});
  token.finish();
  return made;
}

} // namespace

column permute_rows(const std::shared_ptr<context>& ctx, std::int64_t count, std::uint64_t key,
                    const number_groups& numbers) {
  require_numbers(count, numbers);
  const data_type type(count <= most_short_rows ? type_id::uint32 : type_id::int64);
  if (numbers.count == 0) {
    return column::empty(ctx, type);
  }
  const buffer values = permuted_numbers(ctx, count, key, numbers, type.byte_width());
  return column::make(ctx, {type, numbers.count, 0, 0, {{}, values}, {}});
}

table take_permuted(const table& source, std::uint64_t key, const number_groups& numbers) {
  const std::shared_ptr<context>& ctx = source.ctx();
  const std::int64_t count = source.rows();
  // The chosen rows of one batch are the numbers of rows.
  if (source.batches().size() == 1 && numbers.count != 0 && count <= most_piece_rows) {
    require_numbers(count, numbers);
    return take(source, {permuted_numbers(ctx, count, key, numbers, sizeof(std::int64_t)), numbers.count});
  }
  const column rows = permute_rows(ctx, count, key, numbers);
  return take(source, rows_of_indices(ctx, rows_of_pieces(source), std::span(&rows, 1)));
}

} // namespace saeta
