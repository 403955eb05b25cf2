// Tiles of `take` that write one value or bit for each row.
#pragma once

#include "saeta/backend/cuda/kernels/launch.cuh"
#include "saeta/device/take_rows.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace saeta::cuda {

static_assert(take_tile_rows == std::int64_t{block_threads} * unroll);

/// The rows of a tile that one thread takes, `block_threads` apart, so that a warp stores side by side.
struct tile_rows {
  std::int64_t first; ///< of this thread
  std::int64_t chosen[unroll];

  __device__ tile_rows(const take_step& step, std::int64_t tile)
      : first(tile * take_tile_rows + threadIdx.x) {
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      chosen[i] = at(i) < step.count ? step.rows[at(i)] : row_of_null;
    }
  }
  [[nodiscard]] __device__ std::int64_t at(int i) const { return first + i * block_threads; }
};

template <class Value>
__device__ Value filled_with(int byte) {
  Value result;
  memset(&result, byte, sizeof result);
  return result;
}

/// Finds the first value of a chosen row that is not null. The only piece of a step is looked up once.
template <class Value>
struct value_places {
  const take_source* sources; ///< null if there is only one
  const Value* only;
  int units;

  __device__ value_places(const take_step& step, const take_source* all)
      : sources(step.pieces == 1 ? nullptr : all + step.first_source),
        only(static_cast<const Value*>(step.from.values) + step.from.first * step.units), units(step.units) {}
  [[nodiscard]] __device__ const Value* operator()(std::int64_t chosen) const {
    if (sources == nullptr) {
      return only + chosen * units;
    }
    const take_source& from = sources[take_rows::number_of_piece(chosen)];
    return static_cast<const Value*>(from.values) + (from.first + take_rows::row_in_piece(chosen)) * units;
  }
};

/// All loads of a thread are on their way before the first store.
template <class Value>
__device__ void single_values(const take_step& step, const take_source* sources, const tile_rows& rows) {
  const value_places<Value> place(step, sources);
  auto* const target = static_cast<Value*>(step.target);
  const auto filled = filled_with<Value>(step.code);
  const std::int64_t count = step.count;
  Value loaded[unroll];
#pragma unroll
  for (int i = 0; i < unroll; ++i) {
    loaded[i] = rows.chosen[i] == row_of_null ? filled : __ldg(place(rows.chosen[i]));
  }
#pragma unroll
  for (int i = 0; i < unroll; ++i) {
    if (rows.at(i) < count) {
      target[rows.at(i)] = loaded[i];
    }
  }
}

/// Values that consist of `units` numbers each. Adjacent threads take adjacent numbers.
template <class Value>
__device__ void wide_values(const take_step& step, const take_source* sources, std::int64_t tile) {
  const value_places<Value> place(step, sources);
  const std::int64_t begin = tile * take_tile_rows;
  const int units = step.units;
  const std::int64_t numbers = min(take_tile_rows, step.count - begin) * units;
  const std::int64_t* const rows = step.rows + begin;
  auto* const target = static_cast<Value*>(step.target) + begin * units;
  const auto filled = filled_with<Value>(step.code);
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < numbers; i += block_threads) {
    const std::int64_t chosen = rows[i / units];
    target[i] = chosen == row_of_null ? filled : __ldg(place(chosen) + i % units);
  }
}

template <class Value>
__device__ void values_of(const take_step& step, const take_source* sources, std::int64_t tile,
                          const tile_rows& rows) {
  if (step.units == 1) {
    single_values<Value>(step, sources, rows);
  } else {
    wide_values<Value>(step, sources, tile);
  }
}

/// One tile of rows of a group of columns.
__device__ inline void values_tile(const take_step* group, const take_source* sources, std::int64_t tile) {
  const tile_rows rows(*group, tile);
  for (int i = 0; i < group->columns; ++i) {
    const take_step& step = group[i];
    switch (step.width) {
    case 1:
      values_of<std::uint8_t>(step, sources, tile, rows);
      break;
    case 2:
      values_of<std::uint16_t>(step, sources, tile, rows);
      break;
    case 4:
      values_of<std::uint32_t>(step, sources, tile, rows);
      break;
    case 8:
      values_of<unsigned long long>(step, sources, tile, rows);
      break;
    default:
      values_of<uint4>(step, sources, tile, rows);
    }
  }
}

__device__ inline bool taken_bit(const take_step& step, const take_source* sources, std::int64_t chosen) {
  if (chosen == row_of_null) {
    return false;
  }
  const take_source& from = take_rows::source_of(step, sources, chosen);
  const std::int64_t entry = from.first + take_rows::row_in_piece(chosen);
  return step.kind == take_kind::validity
             ? take_rows::is_valid(from, entry)
             : take_rows::bit(static_cast<const std::uint8_t*>(from.values), entry);
}

/// Each warp makes a whole word of 32 rows at a time.
__device__ inline void bits_tile(const take_step& step, const take_source* sources, std::int64_t tile) {
  constexpr int word = 32;
  const tile_rows rows(step, tile);
  bool set[unroll];
#pragma unroll
  for (int i = 0; i < unroll; ++i) {
    set[i] = taken_bit(step, sources, rows.chosen[i]);
  }
#pragma unroll
  for (int i = 0; i < unroll; ++i) {
    const unsigned bits = __ballot_sync(0xffffffffu, set[i]);
    if (threadIdx.x % word == 0 && rows.at(i) < step.count) {
      static_cast<unsigned*>(step.target)[rows.at(i) / word] = bits;
    }
  }
}

/// Views are read as two words: those of other libraries may be aligned to only 8 bytes.
__device__ inline void views_tile(const take_step& step, const take_source* sources, std::int64_t tile) {
  constexpr std::int32_t inline_bytes = 12;
  const tile_rows rows(step, tile);
#pragma unroll
  for (int i = 0; i < unroll; ++i) {
    if (rows.at(i) >= step.count) {
      continue;
    }
    ulonglong2 view = make_ulonglong2(0, 0);
    if (rows.chosen[i] != row_of_null) {
      const take_source& from = take_rows::source_of(step, sources, rows.chosen[i]);
      const auto* const words = static_cast<const unsigned long long*>(from.values) +
                                2 * (from.first + take_rows::row_in_piece(rows.chosen[i]));
      view = make_ulonglong2(__ldg(words), __ldg(words + 1));
      if (static_cast<std::int32_t>(view.x) > inline_bytes) {
        const auto buffer = static_cast<std::uint32_t>(view.y) + static_cast<std::uint32_t>(from.limit);
        view.y = (view.y & ~0xffffffffull) | buffer;
      }
    }
    static_cast<ulonglong2*>(step.target)[rows.at(i)] = view;
  }
}

__device__ inline void indices_tile(const take_step& step, const take_source* sources, std::int64_t tile) {
  const std::int64_t first = tile * take_tile_rows + threadIdx.x;
  bool has_null = false;
#pragma unroll
  for (int i = 0; i < unroll; ++i) {
    const std::int64_t at = first + i * block_threads;
    if (at < step.count) {
      const take_rows::found_index index = take_rows::index_at(step, sources, at);
      static_cast<std::int64_t*>(step.target)[at] = index.chosen;
      has_null = has_null || index.is_null;
      if (index.is_bad) { // unsigned, so that no_row is above all rows
        atomicMin(reinterpret_cast<unsigned long long*>(step.found), static_cast<unsigned long long>(at));
      }
    }
  }
  if (__syncthreads_or(has_null ? 1 : 0) != 0 && threadIdx.x == 0) {
    step.found[1] = 0;
  }
}

__device__ inline void child_rows_tile(const take_step& step, std::int64_t tile) {
  const std::int64_t first = tile * take_tile_rows + threadIdx.x;
#pragma unroll
  for (int i = 0; i < unroll; ++i) {
    const std::int64_t at = first + i * block_threads;
    if (at < step.count) {
      take_rows::write_child_row(step, at);
    }
  }
}

/// Makes each row of a tile of `units` rows by itself.
template <class RowAt>
__device__ void rows_tile(const take_step& step, std::int64_t tile, std::int64_t units, RowAt row_at) {
  const std::int64_t begin = tile * units;
  const std::int64_t end = min(begin + units, step.count);
#pragma unroll 4
  for (std::int64_t at = begin + threadIdx.x; at < end; at += block_threads) {
    static_cast<std::int64_t*>(step.target)[at] = row_at(at);
  }
}

} // namespace saeta::cuda
