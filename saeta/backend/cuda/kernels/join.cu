// One launch for all the pieces of many columns.
#include "saeta/backend/cuda/kernels/bit_stream.cuh"
#include "saeta/backend/cuda/kernels/byte_run.cuh"
#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/tiles.cuh"

#include <cuda_runtime.h>

namespace saeta::cuda {
namespace {

/// Vectors [begin, end) of the target, each of what `load` gives for it, several of them in flight.
template <class Load>
__device__ void store_vectors(uint4* target, std::int64_t begin, std::int64_t end, Load load) {
  for (std::int64_t start = begin + threadIdx.x; start < end; start += unroll * block_threads) {
    uint4 loaded[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t vector = start + i * block_threads;
      if (vector < end) {
        loaded[i] = load(vector);
      }
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t vector = start + i * block_threads;
      if (vector < end) {
        target[vector] = loaded[i];
      }
    }
  }
}

/// The part of a tile in whole vectors of the target, then the bytes at either end. Of a source with another alignment each vector is
/// put together from the two aligned ones that it lies in; one that would be read past an end of the step goes byte by byte.
__device__ void copy_tile(const join_step& step, std::int64_t tile) {
  auto* const target = static_cast<std::uint8_t*>(step.target);
  const auto* const source = static_cast<const std::uint8_t*>(step.source);
  const auto skew = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(target) % vector_bytes);
  const std::int64_t begin = max(tile * join_tile_bytes - skew, std::int64_t{0});
  const std::int64_t end = min((tile + 1) * join_tile_bytes - skew, step.count);
  std::int64_t inner = min(begin + (vector_bytes - (skew + begin) % vector_bytes) % vector_bytes, end);
  std::int64_t vectors = (end - inner) / vector_bytes;

  const bool zero = step.kind == join_kind::zero;
  const auto shift =
      zero ? 0u : static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(source + inner) % vector_bytes);
  if (shift != 0) {
    if (vectors > 0 && inner < shift) {
      inner += vector_bytes;
      --vectors;
    }
    if (vectors > 0 && inner - shift + (vectors + 1) * vector_bytes > step.count) {
      --vectors;
    }
  }
  auto* const to = reinterpret_cast<uint4*>(target + inner);
  const auto* const from = reinterpret_cast<const uint4*>(source + inner - shift);
  if (zero) {
    store_vectors(to, 0, vectors, [](std::int64_t) { return make_uint4(0, 0, 0, 0); });
  } else if (shift == 0) {
    store_vectors(to, 0, vectors, [=](std::int64_t vector) { return __ldg(from + vector); });
  } else {
    store_vectors(to, 0, vectors, [=](std::int64_t vector) {
      return shift_right(__ldg(from + vector), __ldg(from + vector + 1), shift * 8);
    });
  }

  const std::int64_t head = inner - begin;
  const std::int64_t rest = inner + vectors * vector_bytes;
  for (std::int64_t i = threadIdx.x; i < head + end - rest; i += block_threads) {
    const std::int64_t at = i < head ? begin + i : rest + i - head;
    target[at] = zero ? std::uint8_t{0} : source[at];
  }
}

/// Bits as aligned words of 32, put together by shifts. No word is read that has none of the bits.
struct bit_words {
  const unsigned* words; ///< at or below the first bit
  std::int64_t shift;    ///< bits from there to the first of the run, less than 32
  std::int64_t first_whole;
  std::int64_t end_whole; ///< words [first_whole, end_whole) have bytes of the run alone

  __device__ bit_words(const std::uint8_t* source, std::int64_t first, std::int64_t count) {
    const std::uint8_t* const byte = source + first / 8;
    const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(byte) % 4);
    words = reinterpret_cast<const unsigned*>(byte - misaligned);
    shift = misaligned * 8 + first % 8;
    first_whole = misaligned == 0 ? 0 : 1;
    end_whole = (misaligned + (first % 8 + count + 7) / 8) / 4;
  }
  /// Whether bits [at, at + 32) of the run can be read by `load`.
  [[nodiscard]] __device__ bool whole(std::int64_t at) const {
    const std::int64_t word = (shift + at) / join_word_bits;
    return word >= first_whole && word + 1 < end_whole;
  }
  [[nodiscard]] __device__ unsigned load(std::int64_t at) const {
    const std::int64_t word = (shift + at) / join_word_bits;
    return __funnelshift_r(__ldg(words + word), __ldg(words + word + 1), static_cast<unsigned>(shift + at));
  }
};

/// The bits that a step has for word `word` of its target, at their place there, and how many they are.
struct target_bits {
  std::int64_t low;
  int count;

  __device__ target_bits(const join_step& step, std::int64_t word)
      : low(max(word * join_word_bits, step.target_first)),
        count(static_cast<int>(min((word + 1) * join_word_bits, step.target_first + step.count) - low)) {}
};

/// Words of the target: those that the step fills are written, those at its ends may belong to other steps as well.
__device__ void bits_tile(const join_step& step, std::int64_t tile) {
  constexpr std::int64_t words_of_tile = join_tile_bytes / 4;
  const std::int64_t first_word = step.target_first / join_word_bits;
  const std::int64_t end_word = (step.target_first + step.count + join_word_bits - 1) / join_word_bits;
  const std::int64_t begin = first_word + tile * words_of_tile;
  const std::int64_t end = min(begin + words_of_tile, end_word);
  const bool copied = step.kind == join_kind::bits;
  const auto* const source = static_cast<const std::uint8_t*>(step.source);
  auto* const target = static_cast<unsigned*>(step.target);
  const bit_words run(source, step.source_first, step.count);
  unsigned nulls = 0;
  for (std::int64_t start = begin + threadIdx.x; start < end; start += unroll * block_threads) {
    unsigned found[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t word = start + i * block_threads;
      if (word < end) {
        const target_bits bits(step, word);
        const std::int64_t at = bits.low - step.target_first;
        found[i] = !copied ? keep_below(~0u, 0, bits.count)
                   : bits.count == join_word_bits && run.whole(at)
                       ? run.load(at)
                       : read_bits(source, step.source_first + at, bits.count);
      }
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t word = start + i * block_threads;
      if (word < end) {
        const target_bits bits(step, word);
        nulls += copied ? static_cast<unsigned>(bits.count - __popc(found[i])) : 0;
        if (bits.count == join_word_bits) {
          target[word] = found[i];
        } else {
          atomicOr(target + word, found[i] << (bits.low - word * join_word_bits));
        }
      }
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

/// Three blocks of a multiprocessor: as many as have their registers without spilling.
__global__ void __launch_bounds__(block_threads, 3)
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
  constexpr std::int64_t items_of_tile = std::int64_t{block_threads} * unroll;
  const launch_site site(uploaded, stream);
  site.launch("join", join_steps, tiles * items_of_tile, uploaded, static_cast<std::int64_t>(steps.size()),
              tiles);
}

} // namespace saeta::cuda
