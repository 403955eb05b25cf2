#include "saeta/compute/value_rows.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/same_values.hpp"
#include "saeta/compute/alignment.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/compute/take_runner.hpp"
#include "saeta/memory/use_token.hpp"

#include <cstddef>

namespace saeta {
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
  selected_rows made = queue_rows(source.ctx(), std::span(&values, 1), std::span(&codes, 1)).rows;
  made.nullable = true; // it is not waited for
  return made;
}

selected_rows rows_of_runs(const column& source) {
  const std::shared_ptr<context>& ctx = source.ctx();
  const column& ends = source.children()[0];
  const std::int64_t rows = source.length();
  const selected_rows every = rows_with_fill(ctx, std::span(&rows, 1), std::span(&source, 1));
  selected_rows made = allocate_rows(ctx, rows);
  const std::int32_t width = ends.type().byte_width();
  const std::byte* const numbers = bytes_at(ends.values()) + ends.offset() * width;
  require_aligned_numbers(source, numbers, width);
  take_step step;
  step.kind = take_kind::runs;
  step.width = width;
  step.count = rows;
  step.rows = every.data();
  step.from = {.values = numbers, .first = source.offset(), .count = rows, .limit = ends.length()};
  step.target = made.data();
  use_token token(ctx->work_stream(), {reads(ends.values()), reads(every.memory), writes(made.memory)});
  take_runner(ctx).run(std::span(&step, 1));
  token.finish();
  return made;
}

selected_rows rows_of_children(const column& source, std::span<const column> children) {
  const std::shared_ptr<context>& ctx = source.ctx();
  const bool dense = source.type().layout() == layout_kind::dense_union;
  const buffer& ids = source.buffers()[0];
  const buffer offsets = dense ? source.buffers()[1] : buffer();
  require_aligned_numbers(source, bytes_at(offsets), sizeof(std::int32_t));
  selected_rows made = allocate_rows(ctx, source.length());
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
    step.target = made.data();
  }
  use_token token(ctx->work_stream(), {reads(ids), reads(offsets), writes(made.memory)});
  ctx->copies().fill(made.data(), 0xff, made.memory.size(), ctx->work_stream()); // row_of_null
  take_runner(ctx).run(steps);
  token.finish();
  return made;
}

} // namespace

std::vector<column> value_columns(const column& source) {
  switch (source.type().layout()) {
  case layout_kind::run_ends:
    return {source.children()[1]};
  case layout_kind::dense_union:
    return {source.children().begin(), source.children().end()};
  case layout_kind::sparse_union: {
    std::vector<column> made;
    for (std::size_t i = 0; i < source.children().size(); ++i) {
      made.push_back(source.child(i));
    }
    return made;
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
