// Joins all the pieces of many columns in one launch.
#include "saeta/backend/cuda/kernels/join.cuh"
#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/tiles.cuh"

#include <cuda_runtime.h>

namespace saeta::cuda {
namespace {

/// Sets target[i] = change(source[i], i) for the values of a tile.
template <class Value, class Change>
__device__ void values_tile(const join_step& step, std::int64_t tile, Change change) {
  constexpr std::int64_t values = join_tile_bytes / static_cast<std::int64_t>(sizeof(Value));
  const std::int64_t begin = tile * values;
  const auto* const source = static_cast<const Value*>(step.source) + begin;
  auto* const target = static_cast<Value*>(step.target) + begin;
  move_values(
      static_cast<int>(min(values, step.count - begin)),
      [=](int at) { return change(source[at], begin + at); },
      [=](int at, Value changed) { target[at] = changed; });
}

template <class Offset>
__device__ void add_tile(const join_step& step, std::int64_t tile) {
  const auto addend = static_cast<Offset>(step.add.addend);
  values_tile<Offset>(step, tile,
                      [=](Offset offset, std::int64_t) { return static_cast<Offset>(offset + addend); });
}

template <class Index>
__device__ void remap_tile(const join_step& step, std::int64_t tile) {
  const auto entries = static_cast<std::uint64_t>(step.remap.entries);
  const std::int64_t* const table = step.remap.table;
  values_tile<Index>(step, tile, [=](Index index, std::int64_t) {
    return index < entries ? static_cast<Index>(__ldg(table + index)) : Index{0};
  });
}

/// A view as two words: views from other libraries may be aligned to only 8 bytes, not 16.
struct view_words {
  std::uint64_t low;
  std::uint64_t high;
};

__device__ void views_tile(const join_step& step, std::int64_t tile) {
  constexpr std::int32_t inline_bytes = 12;
  const auto addend = static_cast<std::uint32_t>(step.views.added_buffers);
  values_tile<view_words>(step, tile, [=](view_words view, std::int64_t) {
    if (static_cast<std::int32_t>(view.low) > inline_bytes) {
      const auto buffer = static_cast<std::uint32_t>(view.high) + addend;
      view.high = (view.high & ~std::uint64_t{0xffffffff}) | buffer;
    }
    return view;
  });
}

__device__ void unions_tile(const join_step& step, std::int64_t tile) {
  const std::int8_t* const ids = step.unions.ids;
  const std::int64_t* const bases = step.unions.bases;
  values_tile<unsigned>(step, tile, [=](unsigned offset, std::int64_t at) {
    const std::int8_t id = ids[at];
    return offset + static_cast<unsigned>(id < 0 ? 0 : __ldg(bases + id));
  });
}

template <class End>
__device__ void run_ends_tile(const join_step& step, std::int64_t tile) {
  const std::int64_t first = step.run_ends.first_row;
  const std::int64_t rows = step.run_ends.rows;
  const std::int64_t base = step.run_ends.base;
  values_tile<End>(step, tile, [=](End end, std::int64_t) {
    return static_cast<End>(min(static_cast<std::int64_t>(end) - first, rows) + base);
  });
}

__device__ void add_widths(const join_step& step, std::int64_t tile) {
  switch (step.width) {
  case 1:
    return add_tile<std::uint8_t>(step, tile);
  case 2:
    return add_tile<std::uint16_t>(step, tile);
  case 4:
    return add_tile<std::uint32_t>(step, tile);
  default:
    return add_tile<std::uint64_t>(step, tile);
  }
}

__device__ void remap_widths(const join_step& step, std::int64_t tile) {
  switch (step.width) {
  case 1:
    return remap_tile<std::uint8_t>(step, tile);
  case 2:
    return remap_tile<std::uint16_t>(step, tile);
  case 4:
    return remap_tile<std::uint32_t>(step, tile);
  default:
    return remap_tile<std::uint64_t>(step, tile);
  }
}

__device__ void run_ends_widths(const join_step& step, std::int64_t tile) {
  switch (step.width) {
  case 2:
    return run_ends_tile<std::int16_t>(step, tile);
  case 4:
    return run_ends_tile<std::int32_t>(step, tile);
  default:
    return run_ends_tile<std::int64_t>(step, tile);
  }
}

__device__ void do_tile(const join_step& step, std::int64_t tile) {
  switch (step.kind) {
  case join_kind::copy:
  case join_kind::zero:
    return copy_tile(step, tile);
  case join_kind::bits:
  case join_kind::ones:
    return bits_tile(step, tile);
  case join_kind::add:
    return add_widths(step, tile);
  case join_kind::remap:
    return remap_widths(step, tile);
  case join_kind::views:
    return views_tile(step, tile);
  case join_kind::unions:
    return unions_tile(step, tile);
  case join_kind::run_ends:
    return run_ends_widths(step, tile);
  }
}

__global__ void __launch_bounds__(block_threads)
    join_steps(const join_step* __restrict__ steps, std::int64_t count, std::int64_t tiles) {
  for_each_tile(steps, count, tiles, [&](std::int64_t at, std::int64_t tile) { do_tile(steps[at], tile); });
}

const kernel_module kernels_here(join_steps);

} // namespace

void join(stream_handle stream, std::span<const join_step> steps, const join_step* uploaded) {
  if (steps.empty()) {
    return;
  }
  const std::int64_t tiles = steps.back().first_tile + count_tiles(steps.back());
  const launch_site site(uploaded, stream);
  site.launch_tiles("join", join_steps, tiles, uploaded, static_cast<std::int64_t>(steps.size()), tiles);
}

} // namespace saeta::cuda
