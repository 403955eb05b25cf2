// Moves chosen rows of many columns in one launch. Counts beforehand how many bytes or child rows the chosen
// rows of strings and lists have.
#include "saeta/backend/cuda/kernels/block_sum.cuh"
#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/take_lists.cuh"
#include "saeta/backend/cuda/kernels/take_values.cuh"
#include "saeta/backend/cuda/kernels/tiles.cuh"

#include <cuda_runtime.h>

#include <algorithm>

namespace saeta::cuda {
namespace {

using take_rows::taken_range;

/// The adjacent rows of a counted step that one thread counts.
struct counted_rows {
  std::int64_t first;
  taken_range ranges[unroll];
  std::int64_t sum = 0;
  std::int64_t bad_row = no_row;

  __device__ counted_rows(const take_step& step, const take_source* sources, std::int64_t tile)
      : first(tile * take_tile_rows + std::int64_t{threadIdx.x} * unroll) {
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      if (first + i < step.count) {
        ranges[i] = take_rows::range_at(step, sources, first + i);
        sum += ranges[i].count;
        bad_row = bad_row == no_row && !ranges[i].is_good ? first + i : bad_row;
      }
    }
  }
};

__device__ void counted_tile(const take_step& step, const take_source* sources, std::int64_t tile) {
  const counted_rows rows(step, sources, tile);
  std::int64_t before = step.sums[tile] + sum_of_block(rows.sum).before;
#pragma unroll
  for (int i = 0; i < unroll; ++i) {
    if (rows.first + i < step.count) {
      take_rows::write_counted(step, sources, rows.first + i, rows.ranges[i], before);
      before += rows.ranges[i].count;
    }
  }
}

__device__ void do_tile(const take_step* step, const take_source* sources, std::int64_t tile) {
  switch (step->kind) {
  case take_kind::indices:
    return indices_tile(*step, sources, tile);
  case take_kind::values:
    return values_tile(step, sources, tile);
  case take_kind::bits:
  case take_kind::validity:
    return bits_tile(*step, sources, tile);
  case take_kind::views:
    return views_tile(*step, sources, tile);
  case take_kind::filled:
    return rows_tile(*step, tile, take_tile_rows,
                     [=](std::int64_t at) { return take_rows::filled_row_at(*step, sources, at); });
  case take_kind::runs:
    return rows_tile(*step, tile, take_tile_rows,
                     [=](std::int64_t at) { return take_rows::run_at(*step, sources, at); });
  case take_kind::child_rows:
    return child_rows_tile(*step, tile);
  case take_kind::bytes:
  case take_kind::view_bytes:
    return bytes_tile(*step, sources, tile);
  case take_kind::list_rows:
    return list_rows_tile(*step, sources, tile);
  case take_kind::fixed_rows:
    return rows_tile(*step, tile, take_tile_child_rows,
                     [=](std::int64_t at) { return take_rows::fixed_row_at(*step, at); });
  default:
    return counted_tile(*step, sources, tile);
  }
}

/// Few steps are passed as parameters of the kernel: their upload would take longer than the kernel.
struct passed_steps {
  take_step at[most_passed_steps];
};
static_assert(sizeof(passed_steps) + 64 <= 4096, "the parameters of a kernel");

/// @param uploaded  null if the steps are passed.
__global__ void __launch_bounds__(block_threads)
    take_steps(const take_step* uploaded, const __grid_constant__ passed_steps passed, std::int64_t count,
               std::int64_t tiles, const take_source* __restrict__ sources) {
  const take_step* const steps = uploaded != nullptr ? uploaded : passed.at;
  for_each_tile(steps, count, tiles,
                [&](std::int64_t at, std::int64_t tile) { do_tile(steps + at, sources, tile); });
}

/// Stores the sum of each tile, and the first bad row of each step.
__global__ void __launch_bounds__(block_threads)
    count_tiles(const take_step* __restrict__ steps, std::int64_t count, std::int64_t tiles,
                const take_source* __restrict__ sources, std::int64_t* sums, taken_count* taken_count) {
  for_each_tile(steps, count, tiles, [&](std::int64_t at, std::int64_t tile) {
    const counted_rows rows(steps[at], sources, tile);
    const block_sums total = sum_of_block(rows.sum);
    if (threadIdx.x == 0) {
      sums[steps[at].first_tile + tile] = total.total;
    }
    if (rows.bad_row != no_row) { // unsigned, so that no_row is above all rows
      atomicMin(reinterpret_cast<unsigned long long*>(&taken_count[at].bad_row),
                static_cast<unsigned long long>(rows.bad_row));
    }
  });
}

/// Turns the sums of the tiles of a step into sums of all tiles before them. A block does one step at a time.
__global__ void __launch_bounds__(block_threads)
    add_tiles(const take_step* __restrict__ steps, std::int64_t count, std::int64_t* sums,
              taken_count* taken_count) {
  for (std::int64_t at = blockIdx.x; at < count; at += gridDim.x) {
    std::int64_t* const own = sums + steps[at].first_tile;
    const std::int64_t tiles = (steps[at].count + take_tile_rows - 1) / take_tile_rows;
    std::int64_t before = 0;
    for (std::int64_t begin = 0; begin < tiles; begin += take_tile_rows) {
      const std::int64_t first = begin + std::int64_t{threadIdx.x} * unroll;
      std::int64_t loaded[unroll];
      std::int64_t sum = 0;
#pragma unroll
      for (int i = 0; i < unroll; ++i) {
        loaded[i] = first + i < tiles ? own[first + i] : 0;
        sum += loaded[i];
      }
      const block_sums totals = sum_of_block(sum);
      std::int64_t here = before + totals.before;
#pragma unroll
      for (int i = 0; i < unroll; ++i) {
        if (first + i < tiles) {
          own[first + i] = here;
          here += loaded[i];
        }
      }
      before += totals.total;
    }
    if (threadIdx.x == 0) {
      taken_count[at].total = before;
    }
  }
}

const kernel_module kernels_here(take_steps);

std::int64_t tiles_of(const take_work& work) {
  return work.steps.back().first_tile + count_tiles(work.steps.back());
}

} // namespace

void count_taken(stream_handle stream, const take_work& work, std::int64_t* sums, taken_count* taken_count) {
  if (work.steps.empty()) {
    return;
  }
  const auto count = static_cast<std::int64_t>(work.steps.size());
  const std::int64_t tiles = tiles_of(work);
  const launch_site site(sums, stream);
  site.fill(taken_count, 0xff, work.steps.size() * sizeof *taken_count); // no_row
  site.launch_tiles("count_taken", count_tiles, tiles, work.uploaded_steps, count, tiles,
                    work.uploaded_sources, sums, taken_count);
  site.launch_tiles("count_taken: add", add_tiles, count, work.uploaded_steps, count, sums, taken_count);
}

void take(stream_handle stream, const take_work& work) {
  if (work.steps.empty()) {
    return;
  }
  const std::int64_t tiles = tiles_of(work);
  passed_steps passed;
  if (work.uploaded_steps == nullptr) {
    std::copy(work.steps.begin(), work.steps.end(), passed.at);
  }
  const launch_site site(work.steps.front().target, stream);
  // One column after the other, so that random reads of a column meet in the cache of the device.
  site.launch_in_order("take", take_steps, tiles, work.uploaded_steps, passed,
                       static_cast<std::int64_t>(work.steps.size()), tiles, work.uploaded_sources);
}

} // namespace saeta::cuda
