#include "saeta/compute/permute.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/compute/take.hpp"
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

} // namespace

column permute_rows(const std::shared_ptr<context>& ctx, std::int64_t count, std::uint64_t key,
                    const number_groups& numbers) {
  require_argument(ctx, "ctx");
  require_numbers(count, numbers);
  const data_type type(count <= most_short_rows ? type_id::uint32 : type_id::int64);
  if (numbers.count == 0) {
    return column::empty(ctx, type);
  }
  const stream_ref work = ctx->work_stream();
  const std::size_t bytes = checked_mul(static_cast<std::size_t>(numbers.count),
                                        static_cast<std::size_t>(type.byte_width()), "bytes of numbers");
  const buffer values = buffer::allocate(ctx, bytes, work, "permute");
  use_token token(work, {writes(values)});
  ctx->kernels().permute_rows(work.native_handle(),
                              {.order = make_permutation(static_cast<std::uint64_t>(count), key),
                               .numbers = numbers,
                               .width = type.byte_width(),
                               .target = token.mutable_data<std::byte>(values)});
  token.finish();
  return column::make(ctx, {type, numbers.count, 0, 0, {{}, values}, {}});
}

table take_permuted(const table& source, std::uint64_t key, const number_groups& numbers) {
  const std::shared_ptr<context>& ctx = source.ctx();
  const column rows = permute_rows(ctx, source.rows(), key, numbers);
  // No check is waited for: every number of a permutation is a row.
  return take(source, queue_rows(ctx, rows_of_pieces(source), std::span(&rows, 1)).rows);
}

} // namespace saeta
