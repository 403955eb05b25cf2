// Compares the rows of many arrays in one launch. saeta/device/equal_rows.hpp defines rows. Contiguous values
// are read as vectors.
#include "saeta/backend/cuda/kernels/byte_run.cuh"
#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/tiles.cuh"
#include "saeta/device/equal_rows.hpp"

#include <cuda_runtime.h>

namespace saeta::cuda {
namespace {

using namespace equal_rows;

/// Bits of a bitmap; all ones if the bitmap is absent.
__device__ unsigned word_of(const void* bits, std::int64_t first, int count) {
  return bits == nullptr ? keep_below(~0u, 0, count)
                         : read_bits(static_cast<const std::uint8_t*>(bits), first, count);
}

__device__ bool same_bits_tile(const equal_task& task, std::int64_t tile) {
  constexpr std::int64_t word_bits = 32;
  const std::int64_t begin = tile * equal_tile_words;
  const std::int64_t end = min(begin + equal_tile_words, (task.count + word_bits - 1) / word_bits);
  unsigned differing = 0;
  for (std::int64_t word = begin + threadIdx.x; word < end; word += block_threads) {
    const std::int64_t at = word * word_bits;
    const int count = static_cast<int>(min(word_bits, task.count - at));
    differing |= (word_of(task.left.values, task.left.first + at, count) ^
                  word_of(task.right.values, task.right.first + at, count)) &
                 word_of(task.left.validity, task.left.first + at, count);
  }
  return differing == 0;
}

/// Compares row `at`, counted from the task's first. Values of null rows are ignored.
__device__ bool same_value_or_null(const equal_task& task, std::int64_t at) {
  const std::int64_t left = task.left.first + at;
  return (task.left.validity != nullptr && !bit(task.left.validity, left)) ||
         same_values(task, left, task.right.first + at);
}

/// Compares the rows that contain bytes [begin, end) of a task.
__device__ bool same_rows_of(const equal_task& task, std::int64_t row_bytes, std::int64_t begin,
                             std::int64_t end) {
  for (std::int64_t row = begin / row_bytes; row * row_bytes < end; ++row) {
    if (!same_value_or_null(task, row)) {
      return false;
    }
  }
  return true;
}

__device__ bool same_vector(uint4 a, uint4 b) {
  return ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) == 0;
}

/// Compares aligned vectors of the left side with shifted vectors of the right side. Checks single rows only
/// where bytes differ.
__device__ bool same_bytes_tile(const equal_task& task, std::int64_t tile) {
  const std::int64_t row_bytes = std::int64_t{task.units} * task.width;
  const std::int64_t bytes = task.count * row_bytes;
  const auto* const left = static_cast<const std::uint8_t*>(task.left.values) + task.left.first * row_bytes;
  const auto* const right =
      static_cast<const std::uint8_t*>(task.right.values) + task.right.first * row_bytes;
  const auto skew = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(left) % vector_bytes);
  const std::int64_t begin = tile * equal_tile_bytes;
  const std::int64_t end = min(begin + equal_tile_bytes, bytes);
  const std::int64_t inner = min(begin + (vector_bytes - (skew + begin) % vector_bytes) % vector_bytes, end);
  const std::int64_t vectors = (end - inner) / vector_bytes;

  const auto* const from = reinterpret_cast<const uint4*>(left + inner);
  const auto shift = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(right + inner) % vector_bytes);
  const byte_run run{right, right + bytes};
  bool same = true;
  for (std::int64_t start = threadIdx.x; start < vectors; start += unroll * block_threads) {
    uint4 own[unroll];
    uint4 low[unroll];
    uint4 high[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t vector = start + i * block_threads;
      if (vector < vectors) {
        own[i] = __ldg(from + vector);
        low[i] = run.load(right + inner - shift + vector * vector_bytes);
        high[i] = shift == 0 ? low[i] : run.load(right + inner - shift + (vector + 1) * vector_bytes);
      }
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t vector = start + i * block_threads;
      if (vector < vectors && !same_vector(own[i], shift_right(low[i], high[i], shift * 8))) {
        const std::int64_t at = inner + vector * vector_bytes;
        same = same && same_rows_of(task, row_bytes, at, at + vector_bytes);
      }
    }
  }

  const std::int64_t head = inner - begin;
  const std::int64_t rest = inner + vectors * vector_bytes;
  for (std::int64_t i = threadIdx.x; i < head + end - rest; i += block_threads) {
    const std::int64_t at = i < head ? begin + i : rest + i - head;
    same = same && (left[at] == right[at] || same_value_or_null(task, at / row_bytes));
  }
  return same;
}

/// Compares floats as numbers: different bits can mean the same value, and a NaN differs from itself.
template <class Bits>
__device__ bool same_floats_tile(const equal_task& task, std::int64_t tile) {
  constexpr auto values = equal_tile_bytes / static_cast<std::int64_t>(sizeof(Bits));
  const auto* const left = static_cast<const Bits*>(task.left.values) + task.left.first;
  const auto* const right = static_cast<const Bits*>(task.right.values) + task.right.first;
  const std::int64_t begin = tile * values;
  const std::int64_t end = min(begin + values, task.count);
  bool same = true;
  for (std::int64_t start = begin + threadIdx.x; start < end; start += unroll * block_threads) {
    Bits a[unroll];
    Bits b[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t at = start + i * block_threads;
      a[i] = at < end ? __ldg(left + at) : Bits{0};
      b[i] = at < end ? __ldg(right + at) : Bits{0};
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      if (!same_number(a[i], b[i], task.infinity)) {
        same = same && same_value_or_null(task, start + i * block_threads);
      }
    }
  }
  return same;
}

__device__ bool same_values_tile(const equal_task& task, std::int64_t tile) {
  if (task.infinity == 0) {
    return same_bytes_tile(task, tile);
  }
  switch (task.width) {
  case 2:
    return same_floats_tile<std::uint16_t>(task, tile);
  case 4:
    return same_floats_tile<std::uint32_t>(task, tile);
  default:
    return same_floats_tile<std::uint64_t>(task, tile);
  }
}

/// The rows of a tile belong to nearby lists, so each row searches only those.
__device__ bool same_rows_tile(const equal_task& task, std::int64_t tile, equal_extent* extents) {
  const std::int64_t begin = tile * equal_tile_rows;
  const std::int64_t end = min(begin + equal_tile_rows, task.count);
  std::int64_t first = 0;
  std::int64_t last = 0;
  if (task.starts != nullptr) {
    first = list_of(task, 0, task.lists - 1, begin);
    last = list_of(task, first, task.lists - 1, end - 1);
  }
  bool same = true;
  for (std::int64_t at = begin + threadIdx.x; at < end; at += block_threads) {
    const std::int64_t list = task.starts == nullptr ? 0 : list_of(task, first, last, at);
    same = same && same_row(task, at, list, extents);
  }
  return same;
}

__device__ bool same_tile(const equal_task& task, std::int64_t tile, equal_extent* extents) {
  switch (task.kind) {
  case equal_kind::flat_bits:
    return same_bits_tile(task, tile);
  case equal_kind::flat_values:
    return same_values_tile(task, tile);
  default:
    return same_rows_tile(task, tile, extents);
  }
}

/// After the first difference, blocks skip their remaining tiles.
__global__ void __launch_bounds__(block_threads)
    compare_rows(const equal_task* __restrict__ tasks, std::int64_t count, std::int64_t tiles,
                 equal_extent* extents) {
  for_each_tile(tasks, count, tiles, [&](std::int64_t at, std::int64_t tile) {
    volatile std::int64_t* const different = &extents[0].scattered;
    if (*different == 0 && !same_tile(tasks[at], tile, extents)) {
      *different = 1;
    }
  });
}

/// Stores each list's length in `starts` and its first value on each side in the shifts. `add_lengths`
/// subtracts the lengths before it.
__global__ void __launch_bounds__(block_threads) measure_lists(const list_expansion* __restrict__ expansion) {
  const equal_task& lists = expansion->lists;
  for (std::int64_t at = grid_thread(); at < lists.count; at += grid_threads()) {
    const std::int64_t list = lists.starts == nullptr ? 0 : list_of(lists, 0, lists.lists - 1, at);
    const expanded_list expanded_list = expand_row(lists, at, list);
    expansion->starts[at] = expanded_list.count;
    expansion->left_shifts[at] = expanded_list.left;
    expansion->right_shifts[at] = expanded_list.right;
  }
}

/// Turns lengths into starts. One block does it; each round takes one list per thread.
__global__ void __launch_bounds__(block_threads) add_lengths(const list_expansion* __restrict__ expansion) {
  __shared__ std::int64_t sums[block_threads];
  const std::int64_t count = expansion->lists.count;
  const int thread = static_cast<int>(threadIdx.x);
  std::int64_t before = 0; // total length of the lists of earlier rounds
  for (std::int64_t first = 0; first < count; first += block_threads) {
    const std::int64_t at = first + thread;
    const std::int64_t own = at < count ? expansion->starts[at] : 0;
    sums[thread] = own;
    __syncthreads();
    for (int distance = 1; distance < block_threads; distance *= 2) {
      const std::int64_t added = thread >= distance ? sums[thread - distance] : 0;
      __syncthreads();
      sums[thread] += added;
      __syncthreads();
    }
    if (at < count) {
      const std::int64_t start = before + sums[thread] - own;
      expansion->starts[at] = start;
      expansion->left_shifts[at] -= start;
      expansion->right_shifts[at] -= start;
    }
    before += sums[block_threads - 1];
    __syncthreads();
  }
  if (thread == 0) {
    expansion->starts[count] = before;
  }
}

const kernel_module kernels_here(compare_rows);

} // namespace

void compare(stream_handle stream, std::span<const equal_task> tasks, const equal_task* uploaded,
             const equal_results& results) {
  if (tasks.empty()) {
    return;
  }
  const std::int64_t tiles = tasks.back().first_tile + count_tiles(tasks.back());
  const launch_site site(results.extents, stream);
  site.zero(results.extents, results.count * sizeof *results.extents);
  site.launch_tiles("compare", compare_rows, tiles, uploaded, static_cast<std::int64_t>(tasks.size()), tiles,
                    results.extents);
}

void expand(stream_handle stream, std::span<const list_expansion> expansions,
            const list_expansion* uploaded) {
  for (std::size_t i = 0; i < expansions.size(); ++i) {
    const launch_site site(expansions[i].starts, stream);
    site.launch("expand: measure", measure_lists, expansions[i].lists.count, uploaded + i);
    site.launch("expand: add", add_lengths, 1, uploaded + i);
  }
}

} // namespace saeta::cuda
