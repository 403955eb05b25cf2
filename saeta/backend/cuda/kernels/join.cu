// One launch for all the pieces of many columns.
#include "saeta/backend/cuda/kernels/byte_run.cuh"
#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/tiles.cuh"

#include <cuda_runtime.h>

namespace saeta::cuda {
namespace {

/// The part of a tile in whole vectors of the target, then the bytes at either end of the step.
__device__ void copy_tile(const join_step& step, std::int64_t tile) {
  auto* const target = static_cast<std::uint8_t*>(step.target);
  const auto* const source = static_cast<const std::uint8_t*>(step.source);
  const auto skew = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(target) % vector_bytes);
  const std::int64_t begin = max(tile * join_tile_bytes - skew, std::int64_t{0});
  const std::int64_t end = min((tile + 1) * join_tile_bytes - skew, step.count);
  const std::int64_t inner = min(begin + (vector_bytes - (skew + begin) % vector_bytes) % vector_bytes, end);
  const std::int64_t vectors = (end - inner) / vector_bytes;
  const bool zero = step.kind == join_kind::zero;

  auto* const to = reinterpret_cast<uint4*>(target + inner);
  const std::uint8_t* const from = source + inner;
  const auto shift = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % vector_bytes);
  const byte_run run{source, source + step.count};
  for (std::int64_t start = threadIdx.x; start < vectors; start += unroll * block_threads) {
    uint4 low[unroll];
    uint4 high[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t vector = start + i * block_threads;
      low[i] = make_uint4(0, 0, 0, 0);
      high[i] = low[i];
      if (vector < vectors && !zero) {
        low[i] = run.load(from - shift + vector * vector_bytes);
        if (shift != 0) {
          high[i] = run.load(from - shift + (vector + 1) * vector_bytes);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t vector = start + i * block_threads;
      if (vector < vectors) {
        to[vector] = shift_right(low[i], high[i], shift * 8);
      }
    }
  }

  const std::int64_t head = inner - begin;
  const std::int64_t rest = inner + vectors * vector_bytes;
  for (std::int64_t i = threadIdx.x; i < head + end - rest; i += block_threads) {
    const std::int64_t at = i < head ? begin + i : rest + i - head;
    target[at] = zero ? std::uint8_t{0} : source[at];
  }
}

/// Words of the target: those that the step fills are written, those at its ends may belong to other steps as well.
__device__ void bits_tile(const join_step& step, std::int64_t tile) {
  constexpr std::int64_t words_of_tile = join_tile_bytes / 4;
  const std::int64_t first_word = step.target_first / join_word_bits;
  const std::int64_t end_bit = step.target_first + step.count;
  const std::int64_t end_word = (end_bit + join_word_bits - 1) / join_word_bits;
  const std::int64_t begin = first_word + tile * words_of_tile;
  const std::int64_t end = min(begin + words_of_tile, end_word);
  auto* const target = static_cast<unsigned*>(step.target);
  unsigned nulls = 0;
  for (std::int64_t word = begin + threadIdx.x; word < end; word += block_threads) {
    const std::int64_t low = max(word * join_word_bits, step.target_first);
    const int count = static_cast<int>(min((word + 1) * join_word_bits, end_bit) - low);
    unsigned found = keep_below(~0u, 0, count);
    if (step.kind == join_kind::bits) {
      found = read_bits(static_cast<const std::uint8_t*>(step.source),
                        step.source_first + low - step.target_first, count);
      nulls += static_cast<unsigned>(count - __popc(found));
    }
    if (count == join_word_bits) {
      target[word] = found;
    } else {
      atomicOr(target + word, found << (low - word * join_word_bits));
    }
  }
  if (step.nulls != nullptr) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      nulls += __shfl_down_sync(0xffffffffu, nulls, distance);
    }
    if (threadIdx.x % 32 == 0 && nulls != 0) {
      atomicAdd(reinterpret_cast<unsigned long long*>(step.nulls), static_cast<unsigned long long>(nulls));
    }
  }
}

/// target[i] = change(source[i], i) for the values of a tile.
template <class Value, class Change>
__device__ void values_tile(const join_step& step, std::int64_t tile, Change change) {
  constexpr std::int64_t values = join_tile_bytes / static_cast<std::int64_t>(sizeof(Value));
  const auto* const source = static_cast<const Value*>(step.source);
  auto* const target = static_cast<Value*>(step.target);
  const std::int64_t begin = tile * values;
  const std::int64_t end = min(begin + values, step.count);
  for (std::int64_t start = begin + threadIdx.x; start < end; start += unroll * block_threads) {
    Value loaded[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      if (start + i * block_threads < end) {
        loaded[i] = source[start + i * block_threads];
      }
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t at = start + i * block_threads;
      if (at < end) {
        target[at] = change(loaded[i], at);
      }
    }
  }
}

template <class Offset>
__device__ void add_tile(const join_step& step, std::int64_t tile) {
  const auto addend = static_cast<Offset>(step.addend);
  values_tile<Offset>(step, tile,
                      [=](Offset offset, std::int64_t) { return static_cast<Offset>(offset + addend); });
}

template <class Index>
__device__ void remap_tile(const join_step& step, std::int64_t tile) {
  const auto entries = static_cast<std::uint64_t>(step.addend);
  const std::int64_t* const table = step.table;
  values_tile<Index>(step, tile, [=](Index index, std::int64_t) {
    return index < entries ? static_cast<Index>(__ldg(table + index)) : Index{0};
  });
}

/// A view as two aligned words: what others made is aligned to 8 bytes, not to 16.
struct view_words {
  std::uint64_t low;
  std::uint64_t high;
};

__device__ void views_tile(const join_step& step, std::int64_t tile) {
  constexpr std::int32_t inline_bytes = 12;
  const auto addend = static_cast<std::uint32_t>(step.addend);
  values_tile<view_words>(step, tile, [=](view_words view, std::int64_t) {
    if (static_cast<std::int32_t>(view.low) > inline_bytes) {
      const auto buffer = static_cast<std::uint32_t>(view.high) + addend;
      view.high = (view.high & ~std::uint64_t{0xffffffff}) | buffer;
    }
    return view;
  });
}

__device__ void unions_tile(const join_step& step, std::int64_t tile) {
  const std::int8_t* const ids = step.ids;
  const std::int64_t* const table = step.table;
  values_tile<unsigned>(step, tile, [=](unsigned offset, std::int64_t at) {
    const std::int8_t id = ids[at];
    return offset + static_cast<unsigned>(id < 0 ? 0 : __ldg(table + id));
  });
}

template <class End>
__device__ void run_ends_tile(const join_step& step, std::int64_t tile) {
  const std::int64_t first = step.source_first;
  const std::int64_t rows = step.target_first;
  const std::int64_t addend = step.addend;
  values_tile<End>(step, tile, [=](End end, std::int64_t) {
    return static_cast<End>(min(static_cast<std::int64_t>(end) - first, rows) + addend);
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
  const std::int64_t tiles = steps.back().first_tile + join_tiles(steps.back());
  const launch_site site(uploaded, stream);
  site.launch_tiles("join", join_steps, tiles, uploaded, static_cast<std::int64_t>(steps.size()), tiles);
}

} // namespace saeta::cuda
