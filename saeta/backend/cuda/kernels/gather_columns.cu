#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/launch.cuh"
#include "saeta/base/text.hpp"
#include "saeta/device/gather.hpp"

#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace saeta::cuda {
namespace {

/// Columns per launch. Their addresses are passed as kernel parameters, which are limited to 4 KiB.
constexpr std::size_t columns_of_launch = 120;

struct column_list {
  gathered_column at[columns_of_launch];
};
static_assert(sizeof(column_list) + sizeof(gather_target) + 32 <= 4096);

/// A bool in a byte: 0 is false, anything else is true.
struct truth {
  std::uint8_t byte;
};

template <class Target, class Source>
__device__ Target convert_number(Source value) {
  if constexpr (std::is_same_v<Source, Target> && !std::is_same_v<Source, truth>) {
    return value;
  } else if constexpr (std::is_same_v<Source, truth>) {
    return convert_number<Target>(static_cast<std::uint8_t>(value.byte != 0));
  } else if constexpr (std::is_same_v<Source, __half>) {
    return convert_number<Target>(__half2float(value));
  } else if constexpr (std::is_same_v<Target, truth>) {
    return {static_cast<std::uint8_t>(value != 0)};
  } else if constexpr (std::is_same_v<Target, __half>) {
    return __double2half(static_cast<double>(value));
  } else {
    return static_cast<Target>(value);
  }
}

/// The value of a row. All threads of a warp load from the same column, so the branches do not diverge.
template <class Target>
__device__ Target load(const gathered_column& column, std::int64_t row, std::int64_t rows_a_bit,
                       Target fill) {
  if (column.validity != nullptr) {
    const std::int64_t bit = column.bit_offset + (rows_a_bit == 1 ? row : row / rows_a_bit);
    if ((column.validity[bit / 8] >> (bit % 8) & 1) == 0) {
      return fill;
    }
  }
  if (column.values == nullptr) {
    return convert_number<Target>(truth{1});
  }
  Target value;
  with_number<__half, truth>(column.kind, [&]<class Source>(Source) {
    value = convert_number<Target>(static_cast<const Source*>(column.values)[row]);
  });
  return value;
}

/// The size of a tile. Tiles pass through shared memory, because loads are contiguous along a column and
/// stores along a row.
constexpr int tile_columns = 32;
constexpr int tile_values = 64 * (tile_columns + 1);

/// Distance between the rows of a tile, in values. It is odd, so that the threads of a warp, each in a
/// different row, use different banks of shared memory.
__host__ __device__ constexpr int pitch_of(int columns) { return columns | 1; }

/// Each block loops over tiles of `rows` rows (a multiple of the warp size) and at most `tile_columns`
/// columns.
template <class Target>
__global__ void __launch_bounds__(block_threads)
    gather_tiles(const __grid_constant__ column_list columns, int count,
                 const __grid_constant__ gather_target shape, Target fill, int rows, std::int64_t tiles,
                 Target* __restrict__ target) {
  // Raw bytes, because __half has constructors.
  __shared__ alignas(16) unsigned char raw[tile_values * sizeof(Target)];
  auto* const tile = reinterpret_cast<Target*>(raw);
  const int column_tiles = (count + tile_columns - 1) / tile_columns;
  const bool dense_columns = shape.row_step == 1;
  for (std::int64_t at = blockIdx.x; at < tiles; at += gridDim.x) {
    const std::int64_t first_row = at / column_tiles * rows;
    const int first_column = static_cast<int>(at % column_tiles) * tile_columns;
    const int here = min(tile_columns, count - first_column);
    const int height = static_cast<int>(min(static_cast<std::int64_t>(rows), shape.rows - first_row));
    for (int i = static_cast<int>(threadIdx.x); i < here * rows; i += block_threads) {
      const int column = i / rows;
      const int row = i % rows;
      if (row < height) {
        const Target value =
            load<Target>(columns.at[first_column + column], first_row + row, shape.rows_a_bit, fill);
        if (dense_columns) {
          target[first_row + row + (first_column + column) * shape.column_step] = value;
        } else {
          tile[row * pitch_of(here) + column] = value;
        }
      }
    }
    if (!dense_columns) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < here * height; i += block_threads) {
        const std::int64_t row = first_row + i / here;
        const std::int64_t column = first_column + i % here;
        target[row * shape.row_step + column * shape.column_step] =
            tile[i / here * pitch_of(here) + i % here];
      }
      __syncthreads();
    }
  }
}

template <class Target>
void gather(const launch_site& site, std::span<const gathered_column> columns, const gather_target& shape,
            void* target) {
  Target fill;
  std::memcpy(static_cast<void*>(&fill), &shape.fill, sizeof fill);
  for (std::size_t first = 0; first < columns.size(); first += columns_of_launch) {
    const std::span part = columns.subspan(first, std::min(columns_of_launch, columns.size() - first));
    column_list list{};
    std::copy(part.begin(), part.end(), list.at);
    const auto count = static_cast<std::int64_t>(part.size());
    const std::int64_t widest = std::min(count, std::int64_t{tile_columns});
    const std::int64_t rows = tile_values / pitch_of(static_cast<int>(widest)) / 32 * 32; // at least 64
    const std::int64_t tiles = (shape.rows + rows - 1) / rows * ((count + tile_columns - 1) / tile_columns);
    site.launch("gather_columns", gather_tiles<Target>, shape.rows * count, list, static_cast<int>(count),
                shape, fill, static_cast<int>(rows), tiles,
                static_cast<Target*>(target) + static_cast<std::int64_t>(first) * shape.column_step);
  }
}

const kernel_module kernels_here(gather_tiles<std::uint8_t>);

} // namespace

void gather_columns(stream_handle stream, std::span<const gathered_column> columns,
                    const gather_target& shape, void* target) {
  for (const gathered_column& column : columns) {
    if (!converts(column.kind, shape.kind)) {
      throw error(errc::invalid_argument,
                  concat("gather_columns: numbers of kind ", static_cast<int>(column.kind),
                         " don't convert to kind ", static_cast<int>(shape.kind)));
    }
  }
  if (shape.rows == 0 || columns.empty()) {
    return;
  }
  const launch_site site(target, stream);
  with_number<__half, truth>(shape.kind,
                             [&]<class Target>(Target) { gather<Target>(site, columns, shape, target); });
}

} // namespace saeta::cuda
