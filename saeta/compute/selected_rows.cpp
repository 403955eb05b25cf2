#include "saeta/compute/selected_rows.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/compute/alignment.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/compute/take_level.hpp"
#include "saeta/device/take_rows.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/upload.hpp"

#include <cstddef>
#include <numeric>

namespace saeta {
namespace {

constexpr std::size_t bytes_of_number = sizeof(std::int64_t);
constexpr const char* take_label = "take";

std::int64_t total_of(std::span<const std::int64_t> rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

void require_pieces(std::span<const std::int64_t> piece_rows) {
  if (std::ssize(piece_rows) > most_pieces) {
    throw error(errc::overflow, concat("taking rows: ", piece_rows.size(), " pieces, at most ", most_pieces,
                                       " can be numbered"));
  }
  for (const std::int64_t rows : piece_rows) {
    if (rows > most_piece_rows) {
      throw error(errc::overflow, concat("taking rows: a piece of ", rows, " rows, at most ", most_piece_rows,
                                         " can be numbered"));
    }
  }
}

void require_device(const context& ctx, const column& piece, const char* what) {
  if (!piece.ctx()->shares_with(ctx)) {
    throw error(errc::invalid_argument, concat(what, " on ", to_string(piece.ctx()->device()),
                                               " for rows on ", to_string(ctx.device())));
  }
}

std::vector<use> uses_of(std::span<const column> pieces) {
  std::vector<use> uses;
  for (const column& piece : pieces) {
    uses.push_back(reads(piece.validity()));
    uses.push_back(reads(piece.values()));
  }
  return uses;
}

const std::uint8_t* known_validity(const column& of) {
  return of.known_null_count() == 0 ? nullptr
                                    : reinterpret_cast<const std::uint8_t*>(of.validity().address());
}

/// A step that reads one piece of indices or of a mask. @param rows  names the pieces of the source
take_step step_of(take_kind kind, const column& piece, const take_step& rows) {
  take_step step = rows;
  step.kind = kind;
  step.width = piece.type().byte_width();
  if (!piece.ctx()->on_host()) {
    require_alignment("taking rows", reinterpret_cast<const void*>(piece.values().address()), step.width);
  }
  step.is_signed = piece.type().is_signed();
  step.count = piece.length();
  step.from = {.values = reinterpret_cast<const void*>(piece.values().address()),
               .validity = known_validity(piece),
               .first = piece.offset(),
               .count = piece.length()};
  return step;
}

constexpr std::size_t found_numbers = 2; // of a piece of indices

/// @throws error out_of_range for index `row` of a piece
[[noreturn]] void refuse_index(context& ctx, const column& piece, std::int64_t row, std::int64_t before,
                               std::int64_t limit) {
  const use_token token(ctx.work_stream(), {reads(piece.values())});
  const auto width = static_cast<std::size_t>(piece.type().byte_width());
  const auto entry = static_cast<std::size_t>(piece.offset() + row);
  std::uint64_t bits = 0;
  ctx.copies().read_scalar(&bits, token.span<const std::byte>(piece.values()).data() + entry * width, width,
                           token.stream());
  const auto unused = static_cast<int>(64 - 8 * width);
  const std::string number =
      piece.type().is_signed() ? concat(static_cast<std::int64_t>(bits << unused) >> unused) : concat(bits);
  throw error(errc::out_of_range,
              concat("index ", number, " in row ", before + row, " of the indices: expected 0 to ", limit - 1,
                     ", for ", limit, " rows"));
}

} // namespace

selected_rows selected_rows::slice(std::int64_t first, std::int64_t rows) const {
  return {memory.slice(static_cast<std::size_t>(first) * bytes_of_number,
                       static_cast<std::size_t>(rows) * bytes_of_number),
          rows, nullable};
}

selected_rows allocate_rows(const std::shared_ptr<context>& ctx, std::int64_t rows) {
  require_argument(ctx, "ctx");
  selected_rows result;
  result.count = rows;
  if (rows != 0) {
    result.memory = buffer::allocate(
        ctx, checked_mul(static_cast<std::size_t>(rows), bytes_of_number, "bytes of chosen rows"),
        ctx->work_stream(), take_label);
  }
  return result;
}

queued_rows queue_rows(const std::shared_ptr<context>& ctx, std::span<const std::int64_t> piece_rows,
                       std::span<const column> indices) {
  require_argument(ctx, "ctx");
  require_pieces(piece_rows);
  for (const column& piece : indices) {
    require_device(*ctx, piece, "indices");
    const data_type& type = piece.type();
    if (type.id() == type_id::boolean || type.is_bool8()) { // a mask would be read as rows 0 and 1
      throw error(errc::type_mismatch,
                  concat("indices are of type ", type.name(), ", expected integers: filter takes a mask"));
    }
    if (!type.is_integer()) {
      throw error(errc::type_mismatch, concat("indices are of type ", type.name(), ", expected integers"));
    }
  }
  const std::int64_t count = total_rows(indices);
  if (count == 0) {
    return {};
  }
  const auto found = static_cast<std::int64_t>(indices.size() * found_numbers);
  const selected_rows all = allocate_rows(ctx, count + found);
  queued_rows rows{all.slice(0, count), all.slice(count, found).memory, total_of(piece_rows)};
  const stream_ref work = ctx->work_stream();
  std::vector<use> uses = uses_of(indices);
  uses.push_back(writes(all.memory));
  use_token token(work, uses);
  auto* const first_found = token.span<std::int64_t>(rows.found).data();
  ctx->copies().fill(first_found, 0xff, rows.found.size(), work); // no_row
  take_runner runner(ctx);
  const take_step source = runner.rows_of(piece_rows);
  std::vector<take_step> steps;
  std::int64_t base = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    take_step step = step_of(take_kind::indices, indices[i], source);
    step.limit = rows.limit;
    step.target = rows.rows.data() + base;
    step.found = first_found + found_numbers * i;
    base += step.count;
    if (step.count != 0) {
      steps.push_back(step);
    }
  }
  runner.run(steps);
  token.finish();
  return rows;
}

bool check_rows(const queued_rows& queued, std::span<const column> indices) {
  if (!queued.found.present()) {
    return false;
  }
  context& ctx = *queued.found.owner()->ctx();
  use_token token(ctx.work_stream(), {reads(queued.found)});
  std::vector<std::int64_t> seen(indices.size() * found_numbers);
  ctx.copies().read_scalars(seen, token.span<const std::int64_t>(queued.found).data(), ctx.work_stream());
  token.finish();
  bool nullable = false;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (seen[found_numbers * i] != no_row) {
      refuse_index(ctx, indices[i], seen[found_numbers * i], before, queued.limit);
    }
    nullable = nullable || seen[found_numbers * i + 1] != no_row;
    before += indices[i].length();
  }
  return nullable;
}

selected_rows rows_of_indices(const std::shared_ptr<context>& ctx, std::span<const std::int64_t> piece_rows,
                              std::span<const column> indices) {
  queued_rows queued = queue_rows(ctx, piece_rows, indices);
  queued.rows.nullable = check_rows(queued, indices);
  return queued.rows;
}

selected_rows rows_of_slice(const std::shared_ptr<context>& ctx, std::span<const std::int64_t> piece_rows,
                            std::int64_t first, std::int64_t step, std::int64_t count) {
  require_pieces(piece_rows);
  if (count == 0) {
    return {};
  }
  const auto rows = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(count));
  std::size_t piece = 0;
  std::int64_t begin = 0; // row of the source where the piece begins
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = first + i * step;
    for (; row >= begin + piece_rows[piece]; ++piece) {
      begin += piece_rows[piece];
    }
    while (row < begin) {
      begin -= piece_rows[--piece];
    }
    (*rows)[static_cast<std::size_t>(i)] =
        take_rows::chosen_row(static_cast<std::int64_t>(piece), row - begin);
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span(*rows));
  const host_batch host_batch{
      count,
      {{.type = data_type(type_id::int64), .length = count, .null_count = 0, .buffers = {{}, bytes}}},
      rows};
  dictionary_cache none;
  const batch there = upload(ctx, host_batch, none, {.tag = take_label, .readable = {}, .file = {}});
  return {there.columns.front().values(), count, false};
}

selected_rows rows_of_mask(const std::shared_ptr<context>& ctx, std::span<const std::int64_t> piece_rows,
                           std::span<const column> mask) {
  require_argument(ctx, "ctx");
  require_pieces(piece_rows);
  for (const column& piece : mask) {
    require_device(*ctx, piece, "a mask");
    if (piece.type().id() != type_id::boolean && !piece.type().is_bool8()) {
      throw error(errc::type_mismatch,
                  concat("the mask is of type ", piece.type().name(), ", expected booleans"));
    }
  }
  if (total_rows(mask) != total_of(piece_rows)) {
    throw error(errc::invalid_argument,
                concat("a mask of ", total_rows(mask), " rows for ", total_of(piece_rows), " rows"));
  }
  use_token sources(ctx->work_stream(), uses_of(mask));
  take_runner runner(ctx);
  const take_step source = runner.rows_of(piece_rows);
  std::vector<take_step> steps;
  std::int64_t before = 0;
  for (const column& piece : mask) {
    take_step step = step_of(take_kind::mask, piece, source);
    step.limit = before;
    before += step.count;
    if (step.count != 0) {
      steps.push_back(step);
    }
  }
  const std::vector<taken_count> counts = runner.count(steps);
  std::int64_t total = 0;
  for (const taken_count& count : counts) {
    total += count.total;
  }
  selected_rows rows = allocate_rows(ctx, total);
  if (total != 0) {
    use_token token(ctx->work_stream(), {writes(rows.memory)});
    std::int64_t* target = rows.data();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      steps[i].target = target;
      target += counts[i].total;
    }
    runner.run(steps);
    token.finish();
  }
  sources.finish();
  return rows;
}

selected_rows all_rows(const std::shared_ptr<context>& ctx, std::int64_t rows) {
  require_pieces(std::span(&rows, 1));
  selected_rows result = allocate_rows(ctx, rows);
  if (rows != 0) {
    use_token token(ctx->work_stream(), {writes(result.memory)});
    take_step step;
    step.kind = take_kind::filled; // no row is null
    step.count = rows;
    step.target = result.data();
    take_runner(ctx).run(std::span(&step, 1));
    token.finish();
  }
  return result;
}

selected_rows rows_with_fill(const std::shared_ptr<context>& ctx, std::span<const std::int64_t> piece_rows,
                             std::span<const column> source) {
  require_argument(ctx, "ctx");
  std::vector<std::int64_t> with_fill(piece_rows.begin(), piece_rows.end());
  with_fill.push_back(1);
  require_pieces(with_fill);
  selected_rows rows = allocate_rows(ctx, total_of(piece_rows));
  std::vector<use> uses{writes(rows.memory)};
  take_runner runner(ctx);
  const take_step all = runner.rows_of(with_fill);
  std::vector<take_step> steps;
  std::int64_t before = 0;
  for (const column& piece : source) {
    take_step step = all;
    step.kind = take_kind::filled;
    step.count = piece.length();
    step.from = {.validity = known_validity(piece), .first = piece.offset(), .count = piece.length()};
    step.limit = before;
    step.target = rows.data() + before;
    before += step.count;
    if (step.count != 0) {
      steps.push_back(step);
      uses.push_back(reads(piece.validity()));
    }
  }
  use_token token(ctx->work_stream(), uses);
  runner.run(steps);
  token.finish();
  return rows;
}

namespace {

const std::byte* bytes_at(const buffer& of) { return reinterpret_cast<const std::byte*>(of.address()); }

void require_aligned_numbers(const column& source, const void* numbers, std::int32_t width) {
  if (!source.ctx()->on_host()) {
    require_alignment("taking values", numbers, width);
  }
}

selected_rows rows_of_codes(const column& source) {
  const column codes = relabel(source, *source.type().index_type());
  const std::int64_t values = source.dictionary()->length();
  selected_rows rows = queue_rows(source.ctx(), std::span(&values, 1), std::span(&codes, 1)).rows;
  rows.nullable = true; // the host does not wait to learn whether a code is null
  return rows;
}

selected_rows rows_of_runs(const column& source) {
  const std::shared_ptr<context>& ctx = source.ctx();
  const column& ends = source.children()[0];
  const std::int64_t rows = source.length();
  const selected_rows every = rows_with_fill(ctx, std::span(&rows, 1), std::span(&source, 1));
  selected_rows result = allocate_rows(ctx, rows);
  const std::int32_t width = ends.type().byte_width();
  const std::byte* const numbers = bytes_at(ends.values()) + ends.offset() * width;
  require_aligned_numbers(source, numbers, width);
  take_step step;
  step.kind = take_kind::runs;
  step.width = width;
  step.count = rows;
  step.rows = every.data();
  step.from = {.values = numbers, .first = source.offset(), .count = rows, .limit = ends.length()};
  step.target = result.data();
  use_token token(ctx->work_stream(), {reads(ends.values()), reads(every.memory), writes(result.memory)});
  take_runner(ctx).run(std::span(&step, 1));
  token.finish();
  return result;
}

selected_rows rows_of_children(const column& source, std::span<const column> children) {
  const std::shared_ptr<context>& ctx = source.ctx();
  const bool dense = source.type().layout() == layout_kind::dense_union;
  const buffer& ids = source.buffers()[0];
  const buffer offsets = dense ? source.buffers()[1] : buffer();
  require_aligned_numbers(source, bytes_at(offsets), sizeof(std::int32_t));
  selected_rows rows = allocate_rows(ctx, source.length());
  std::vector<take_step> steps;
  for (std::size_t i = 0; i < children.size(); ++i) {
    take_step& step = steps.emplace_back();
    step.kind = take_kind::child_rows;
    step.code = source.type().type_codes()[i];
    step.count = source.length();
    step.from = {.values = bytes_at(ids),
                 .second = dense ? bytes_at(offsets) : nullptr,
                 .first = source.offset(),
                 .count = source.length(),
                 .limit = children[i].length()};
    step.limit = static_cast<std::int64_t>(i);
    step.target = rows.data();
  }
  use_token token(ctx->work_stream(), {reads(ids), reads(offsets), writes(rows.memory)});
  ctx->copies().fill(rows.data(), 0xff, rows.memory.size(), ctx->work_stream()); // row_of_null
  take_runner(ctx).run(steps);
  token.finish();
  return rows;
}

} // namespace

std::vector<column> value_columns(const column& source) {
  switch (source.type().layout()) {
  case layout_kind::run_ends:
    return {source.children()[1]};
  case layout_kind::dense_union:
    return {source.children().begin(), source.children().end()};
  case layout_kind::sparse_union: {
    std::vector<column> columns;
    for (std::size_t i = 0; i < source.children().size(); ++i) {
      columns.push_back(source.child(i));
    }
    return columns;
  }
  default:
    return source.dictionary() != nullptr ? std::vector{*source.dictionary()} : std::vector<column>{};
  }
}

selected_rows value_rows(const column& source) {
  if (source.length() == 0) {
    return {};
  }
  switch (source.type().layout()) {
  case layout_kind::run_ends:
    return rows_of_runs(source);
  case layout_kind::dense_union:
  case layout_kind::sparse_union:
    return rows_of_children(source, value_columns(source));
  default:
    return rows_of_codes(source);
  }
}

column plain_numbers(const column& source) {
  const bool of_runs = source.type().layout() == layout_kind::run_ends;
  if (of_runs || source.dictionary() != nullptr) {
    const column values = plain_numbers(value_columns(source).front());
    return take(std::span(&values, 1), value_rows(source)).front();
  }
  if (source.type().byte_width() == 0 && source.type().layout() != layout_kind::bits) {
    throw error(errc::type_mismatch,
                concat("values of type ", source.type().name(), " are not numbers of a fixed width"));
  }
  return source;
}

} // namespace saeta
