#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/launch.cuh"
#include "saeta/backend/cuda/kernels/tiles.cuh"
#include "saeta/device/utf8.hpp"

#include <cuda_runtime.h>

namespace saeta::cuda {
namespace {

/// Loads a signed integer of `width` bytes, aligned to `width`.
__device__ std::int64_t load_signed(const void* values, std::int32_t width, std::int64_t index) {
  switch (width) {
  case 2:
    return static_cast<const std::int16_t*>(values)[index];
  case 4:
    return static_cast<const std::int32_t*>(values)[index];
  default:
    return static_cast<const std::int64_t*>(values)[index];
  }
}

__device__ bool valid_row(const value_check& check, std::int64_t row) {
  const std::int64_t bit = check.bit_offset + row;
  return check.validity == nullptr || (check.validity[bit / 8] >> (bit % 8) & 1) != 0;
}

__device__ bool is_valid_list_view(const value_check& check, std::int64_t row) {
  const auto rows = static_cast<std::uint64_t>(check.limit);
  const auto offset = static_cast<std::uint64_t>(load_signed(check.values, check.width, row));
  const auto size = static_cast<std::uint64_t>(load_signed(check.second, check.width, row));
  return offset <= rows && size <= rows - offset;
}

__device__ bool is_valid_union(const value_check& check, std::int64_t row) {
  const std::int64_t rows = check.table[static_cast<const std::uint8_t*>(check.values)[row]];
  if (rows < 0 || check.second == nullptr) {
    return rows >= 0;
  }
  const std::int64_t offset = static_cast<const std::int32_t*>(check.second)[row];
  return offset >= 0 && offset < rows;
}

__device__ bool is_valid_view(const value_check& check, std::int64_t row) {
  constexpr std::int32_t inline_bytes = 12;
  const auto* const view = static_cast<const std::int32_t*>(check.values) + 4 * row;
  const std::int32_t size = view[0];
  if ((size >= 0 && size <= inline_bytes) || !valid_row(check, row)) {
    return true;
  }
  const std::int32_t index = view[2];
  const std::int32_t offset = view[3];
  if (size < 0 || index < 0 || index >= check.limit || offset < 0 ||
      std::int64_t{offset} + size > check.table[index]) {
    return false;
  }
  const auto* const bytes =
      reinterpret_cast<const std::uint8_t*>(static_cast<std::uintptr_t>(check.table[check.limit + index])) +
      offset;
  std::uint32_t start = 0;
  for (int i = 0; i < 4; ++i) {
    start |= static_cast<std::uint32_t>(bytes[i]) << (8 * i);
  }
  return static_cast<std::uint32_t>(view[1]) == start;
}

__device__ bool is_valid_run_end(const value_check& check, std::int64_t row) {
  const std::int64_t before = row == 0 ? 0 : load_signed(check.values, check.width, row - 1);
  return load_signed(check.values, check.width, row) > before;
}

/// The first row of this thread in [begin, end) for which `good(row)` is false. A thread visits its rows in
/// ascending order.
template <class Good>
__device__ std::int64_t first_bad_row(std::int64_t begin, std::int64_t end, Good good) {
#pragma unroll 4
  for (std::int64_t row = begin + threadIdx.x; row < end; row += block_threads) {
    if (!good(row)) {
      return row;
    }
  }
  return no_bad_row;
}

/// Same for `good(value, row)` with one value per row, several values to a vector. All vectors of a round are
/// loaded before the first is checked; otherwise each load would wait for the one before.
template <class Value, class Good>
__device__ std::int64_t first_bad_value(const void* of, std::int64_t begin, std::int64_t end, Good good) {
  constexpr std::int64_t of_vector = sizeof(uint4) / sizeof(Value);
  const auto* const values = static_cast<const Value*>(of);
  const auto past_boundary = reinterpret_cast<std::uintptr_t>(values + begin) % sizeof(uint4);
  const std::int64_t head = (sizeof(uint4) - past_boundary) % sizeof(uint4) / sizeof(Value);
  const std::int64_t inner = min(begin + head, end);
  const std::int64_t vectors = (end - inner) / of_vector;
  const auto good_one = [&](std::int64_t row) { return good(__ldg(values + row), row); };
  const std::int64_t before = first_bad_row(begin, inner, good_one);
  if (before != no_bad_row) {
    return before;
  }
  const auto* const from = reinterpret_cast<const uint4*>(values + inner);
  for (std::int64_t start = threadIdx.x; start < vectors; start += unroll * block_threads) {
    uint4 loaded[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      if (start + i * block_threads < vectors) {
        loaded[i] = __ldg(from + start + i * block_threads);
      }
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t vector = start + i * block_threads;
      if (vector < vectors) {
        Value parts[of_vector];
        memcpy(parts, &loaded[i], sizeof parts);
#pragma unroll
        for (int k = 0; k < of_vector; ++k) {
          if (!good(parts[k], inner + vector * of_vector + k)) {
            return inner + vector * of_vector + k;
          }
        }
      }
    }
  }
  return first_bad_row(inner + vectors * of_vector, end, good_one);
}

template <class Index>
__device__ std::int64_t first_bad_index(const value_check& check, std::int64_t begin, std::int64_t end) {
  const auto limit = static_cast<std::uint64_t>(check.limit);
  return first_bad_value<Index>(check.values, begin, end, [&](Index index, std::int64_t row) {
    return std::uint64_t{index} < limit || !valid_row(check, row);
  });
}

template <class Offset>
__device__ std::int64_t first_bad_offset(const value_check& check, std::int64_t begin, std::int64_t end) {
  const auto* const offsets = static_cast<const Offset*>(check.values);
  return first_bad_value<Offset>(check.values, begin, end, [&](Offset offset, std::int64_t row) {
    return __ldg(offsets + row + 1) >= offset;
  });
}

__device__ std::int64_t first_bad(const value_check& check, std::int64_t begin, std::int64_t end) {
  switch (check.kind) {
  case check_kind::offsets:
    return check.width == 4 ? first_bad_offset<std::int32_t>(check, begin, end)
                            : first_bad_offset<std::int64_t>(check, begin, end);
  case check_kind::indices:
    switch (check.width) {
    case 1:
      return first_bad_index<std::uint8_t>(check, begin, end);
    case 2:
      return first_bad_index<std::uint16_t>(check, begin, end);
    case 4:
      return first_bad_index<std::uint32_t>(check, begin, end);
    default:
      return first_bad_index<std::uint64_t>(check, begin, end);
    }
  case check_kind::list_views:
    return first_bad_row(begin, end, [&](std::int64_t row) { return is_valid_list_view(check, row); });
  case check_kind::unions:
    return first_bad_row(begin, end, [&](std::int64_t row) { return is_valid_union(check, row); });
  case check_kind::views:
    return first_bad_row(begin, end, [&](std::int64_t row) { return is_valid_view(check, row); });
  case check_kind::run_ends:
    return first_bad_row(begin, end, [&](std::int64_t row) { return is_valid_run_end(check, row); });
  case check_kind::texts:
    return first_bad_row(
        begin, end, [&](std::int64_t row) { return !valid_row(check, row) || is_valid_text(check, row); });
  default:
    return first_bad_row(begin, end, [&](std::int64_t row) {
      return !valid_row(check, row) || is_valid_text_view(check, row);
    });
  }
}

__global__ void __launch_bounds__(block_threads) fill_bad_rows(std::int64_t* bad_rows, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    bad_rows[i] = no_bad_row;
  }
}

__global__ void __launch_bounds__(block_threads)
    find_bad_rows(const value_check* __restrict__ checks, std::int64_t count, std::int64_t tiles,
                  std::int64_t* bad_rows) {
  for_each_tile(checks, count, tiles, [&](std::int64_t at, std::int64_t tile) {
    const value_check& check = checks[at];
    const std::int64_t bad =
        first_bad(check, tile * check_tile_rows, min((tile + 1) * check_tile_rows, check.count));
    if (bad != no_bad_row) {
      atomicMin(reinterpret_cast<long long*>(bad_rows + at), static_cast<long long>(bad));
    }
  });
}

const kernel_module kernels_here(find_bad_rows);

} // namespace

void check_values(stream_handle stream, std::span<const value_check> checks, const value_check* uploaded,
                  std::int64_t* bad_rows) {
  if (checks.empty()) {
    return;
  }
  const launch_site site(bad_rows, stream);
  const auto count = static_cast<std::int64_t>(checks.size());
  const std::int64_t tiles = checks.back().first_tile + count_tiles(checks.back());
  site.launch("check_values: fill", fill_bad_rows, count, bad_rows, count);
  constexpr std::int64_t items_of_tile = std::int64_t{block_threads} * unroll;
  site.launch("check_values", find_bad_rows, tiles * items_of_tile, uploaded, count, tiles, bad_rows);
}

} // namespace saeta::cuda
