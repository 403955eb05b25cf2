#include "saeta/backend/sim/queued_kernel.hpp"
#include "saeta/device/cast.hpp"
#include "saeta/device/compression.hpp"
#include "saeta/device/permutation.hpp"
#include "saeta/device/take.hpp"

#include <vector>

namespace saeta::sim {
namespace {

using count = std::int64_t;

std::size_t size_of(count length) { return static_cast<std::size_t>(length); }

access reading(const void* from, count first, count length, count width) {
  return {static_cast<const std::byte*>(from) + first * width, size_of(length * width), true};
}

access writing(void* to, count length, count width) { return {to, size_of(length * width), false}; }

/// Appends the reads of one piece: any of its rows may be chosen.
void append_reads(const take_step& step, const take_source& from, std::vector<access>& touched) {
  constexpr count view_bytes = 16;
  if (from.count == 0) {
    return;
  }
  if (step.kind == take_kind::validity) {
    if (from.validity != nullptr) {
      touched.push_back(reading_bits(from.validity, from.first, from.count));
    }
    return;
  }
  const auto read = [&](const void* values, count rows, count width) {
    touched.push_back(reading(values, from.first, rows, width));
  };
  switch (step.kind) {
  case take_kind::values:
    return read(from.values, from.count, count{step.width} * step.units);
  case take_kind::bits:
    touched.push_back(reading_bits(static_cast<const std::uint8_t*>(from.values), from.first, from.count));
    return;
  case take_kind::views:
    return read(from.values, from.count, view_bytes);
  case take_kind::own_views:
  case take_kind::view_bytes:
    touched.push_back(reading(from.second, 0, 2 * from.limit, sizeof(count)));
    if (from.validity != nullptr) {
      touched.push_back(reading_bits(from.validity, from.first, from.count));
    }
    return read(from.values, from.count, view_bytes); // only the views know which bytes they read
  case take_kind::list_views:
    read(from.values, from.count, step.width);
    return read(from.second, from.count, step.width);
  case take_kind::union_rows:
    read(from.values, from.count, 1);
    return read(from.second, from.count, sizeof(std::int32_t));
  case take_kind::runs:
    touched.push_back(reading(from.values, 0, from.limit, step.width));
    return;
  case take_kind::bytes:
    touched.push_back(reading(from.second, 0, from.limit, 1));
    return read(from.values, from.count, step.width);
  case take_kind::list_rows:
    return read(from.values, from.count, step.width);
  case take_kind::offsets:
    return read(from.values, from.count + 1, step.width);
  default:
    return;
  }
}

/// Appends the reads of a step. Rows of children and bytes count as read as a whole.
void append_reads(const take_step& step, std::span<const take_source> sources, std::vector<access>& touched) {
  const take_source& own = step.from;
  if (step.kind == take_kind::child_rows) {
    touched.push_back(reading(own.values, own.first, step.count, 1));
    if (own.second != nullptr) {
      touched.push_back(reading(own.second, own.first, step.count, sizeof(std::int32_t)));
    }
    return;
  }
  if (step.kind == take_kind::indices || step.kind == take_kind::mask || step.kind == take_kind::filled) {
    if (step.kind != take_kind::filled) {
      touched.push_back(
          step.width == 0 ? reading_bits(static_cast<const std::uint8_t*>(own.values), own.first, step.count)
                          : reading(own.values, own.first, step.count, step.width));
    }
    if (own.validity != nullptr) {
      touched.push_back(reading_bits(own.validity, own.first, step.count));
    }
    return;
  }
  const bool of_lists = step.kind == take_kind::bytes || step.kind == take_kind::view_bytes ||
                        step.kind == take_kind::list_rows;
  const count rows = of_lists                             ? step.lists
                     : step.kind == take_kind::fixed_rows ? step.count / step.units
                                                          : step.count;
  if (step.rows != nullptr) {
    touched.push_back(reading(step.rows, 0, rows, sizeof *step.rows));
  }
  if (of_lists) {
    touched.push_back(reading(step.starts, 0, step.lists, step.width));
  }
  if (step.pieces == 1) {
    return append_reads(step, step.from, touched);
  }
  for (const take_source& source : sources.subspan(size_of(step.first_source), size_of(step.pieces))) {
    append_reads(step, source, touched);
  }
}

/// Appends the writes of a step. Some kinds may write fewer rows than they have.
void append_writes(const take_step& step, std::vector<access>& touched) {
  constexpr count row_bytes = sizeof(std::int64_t);
  constexpr count view_bytes = 16;
  switch (step.kind) {
  case take_kind::indices:
    touched.push_back(writing(step.found, 2, row_bytes));
    touched.push_back(writing(step.target, step.count, row_bytes));
    return;
  case take_kind::bits:
  case take_kind::validity:
    touched.push_back(writing(step.target, (step.count + 31) / 32, sizeof(std::uint32_t)));
    return;
  case take_kind::values:
    touched.push_back(writing(step.target, step.count, count{step.width} * step.units));
    return;
  case take_kind::views:
    touched.push_back(writing(step.target, step.count, view_bytes));
    return;
  case take_kind::offsets:
    touched.push_back(writing(step.target, step.count + 1, step.width));
    return;
  case take_kind::list_views:
    touched.push_back(writing(step.target, step.count, step.width));
    touched.push_back(writing(step.second, step.count, step.width));
    return;
  case take_kind::own_views:
    touched.push_back(writing(step.target, step.count, view_bytes));
    touched.push_back(writing(step.second, step.count, sizeof(std::int32_t)));
    return;
  case take_kind::bytes:
  case take_kind::view_bytes:
    touched.push_back(writing(step.target, step.count, 1));
    return;
  case take_kind::filled:
  case take_kind::runs:
  case take_kind::child_rows:
  case take_kind::list_rows:
  case take_kind::fixed_rows:
    touched.push_back(writing(step.target, step.count, row_bytes));
    return;
  case take_kind::union_rows:
    touched.push_back(writing(step.target, step.count, sizeof(std::int32_t)));
    return;
  case take_kind::mask:
  case take_kind::run_ends:
    return; // only the values know how many rows they write, and where
  }
}

/// The steps and the pieces, which must be in device memory before the kernel runs.
std::vector<access> reads_of(const take_work& work) {
  std::vector<access> touched{{work.uploaded_sources, work.sources.size_bytes(), true}};
  if (work.uploaded_steps != nullptr) {
    touched.push_back({work.uploaded_steps, work.steps.size_bytes(), true});
  }
  for (const take_step& step : work.steps) {
    append_reads(step, work.sources, touched);
  }
  return touched;
}

/// The same work without the host's lists, which may be gone when it runs.
take_work uploaded(const take_work& work) {
  return {{work.uploaded_steps, work.steps.size()}, work.uploaded_steps, {}, work.uploaded_sources};
}

} // namespace

void count_taken(stream_handle stream, const take_work& work, std::int64_t* sums, taken_count* taken_count) {
  if (work.steps.empty()) {
    return;
  }
  std::vector<access> touched = reads_of(work);
  const count tiles = work.steps.back().first_tile + count_tiles(work.steps.back());
  touched.push_back(writing(sums, tiles, sizeof *sums));
  touched.push_back(writing(taken_count, static_cast<count>(work.steps.size()), sizeof *taken_count));
  queue(stream, "count_taken", sums, touched, [stream, kept = uploaded(work), sums, taken_count] {
    reference_kernels().count_taken(stream, kept, sums, taken_count);
  });
}

void take(stream_handle stream, const take_work& work) {
  if (work.steps.empty()) {
    return;
  }
  std::vector<access> touched = reads_of(work);
  for (const take_step& step : work.steps) {
    append_writes(step, touched);
  }
  const void* const anchor = work.steps.front().target;
  if (work.uploaded_steps != nullptr) {
    return queue(stream, "take", anchor, touched,
                 [stream, kept = uploaded(work)] { reference_kernels().take(stream, kept); });
  }
  queue(stream, "take", anchor, touched,
        [stream, steps = std::vector(work.steps.begin(), work.steps.end()), kept = uploaded(work)] {
          reference_kernels().take(stream, {steps, nullptr, {}, kept.uploaded_sources});
        });
}

void cast_numbers(stream_handle stream, const cast_work& work) {
  std::vector<access> touched{
      reading(work.source, 0, work.count, work.decimal.bytes != 0 ? work.decimal.bytes : width_of(work.from)),
      writing(work.target, work.count, width_of(work.to)), writing(work.bad_row, 1, sizeof *work.bad_row)};
  if (work.validity != nullptr) {
    touched.push_back(reading_bits(work.validity, work.bit_offset, work.count));
  }
  queue(stream, "cast_numbers", work.bad_row, touched,
        [stream, work] { reference_kernels().cast_numbers(stream, work); });
}

void permute_rows(stream_handle stream, const permute_work& work) {
  if (work.batches.count != 0) {
    queue(stream, "permute_rows", work.target, {writing(work.target, work.batches.count, work.width)},
          [stream, work] { reference_kernels().permute_rows(stream, work); });
  }
}

void compress(stream_handle stream, const compress_work& work) {
  const auto bytes = static_cast<count>(work.bytes);
  queue(stream, "compress", work.needed,
        {reading(work.source, 0, bytes, 1), reading(work.runs, 0, work.run_count, sizeof *work.runs),
         writing(work.headers, work.blocks, sizeof *work.headers),
         writing(work.payload, static_cast<count>(work.capacity), sizeof *work.payload),
         writing(work.needed, 1, sizeof *work.needed)},
        [stream, work] { reference_kernels().compress(stream, work); });
}

void decompress(stream_handle stream, const decompress_work& work) {
  const auto bytes = static_cast<count>(work.bytes);
  queue(stream, "decompress", work.damaged,
        {writing(work.target, bytes, 1), reading(work.runs, 0, work.run_count, sizeof *work.runs),
         reading(work.headers, 0, work.blocks, sizeof *work.headers),
         reading(work.payload, 0, static_cast<count>(work.units), sizeof *work.payload),
         writing(work.damaged, 1, sizeof *work.damaged)},
        [stream, work] { reference_kernels().decompress(stream, work); });
}

} // namespace saeta::sim
