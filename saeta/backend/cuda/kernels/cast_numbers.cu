// Converts the numbers of a column to another kind, and finds the first that has no equal one there.
#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/launch.cuh"
#include "saeta/device/cast.hpp"
#include "saeta/device/cast_values.hpp"
#include "saeta/device/decimal_values.hpp"
#include "saeta/device/gather.hpp"

#include <cuda_fp16.h>

#include <type_traits>

namespace saeta::cuda {
namespace {

/// Stands for booleans, which `cast_work` excludes.
struct truth {};

template <class Target, class Source>
__device__ bool converted(Source value, bool rounds, Target& to) {
  if constexpr (std::is_same_v<Source, __half>) {
    return converted(__half2float(value), rounds, to);
  } else if constexpr (std::is_same_v<Target, __half>) {
    // Integers beyond the range of half become infinite, so they differ from `found`.
    const auto number = static_cast<double>(value);
    to = __double2half(number);
    const double found = __half2float(to);
    return rounds || found == number || isnan(number);
  } else {
    return cast_values::convert(value, rounds, to);
  }
}

/// The source type that stands for decimals.
struct decimals {};

template <class Source, class Target>
__device__ bool convert_row(const cast_work& work, std::int64_t row, Target& to) {
  if constexpr (std::is_same_v<Source, decimals>) {
    return decimal_values::convert_row(work, row, to, [](double value, bool rounds, Target& narrow) {
      return converted(value, rounds, narrow);
    });
  } else {
    return converted(static_cast<const Source*>(work.source)[row], work.rounds, to);
  }
}

/// Converts one row. Returns whether `to` has an equal value; null rows become 0.
template <class Target, class Source>
__device__ bool cast_row(const cast_work& work, std::int64_t row) {
  Target to = Target(0);
  const bool valid = work.validity == nullptr || equal_rows::bit(work.validity, work.bit_offset + row);
  const bool good = !valid || convert_row<Source>(work, row, to);
  static_cast<Target*>(work.target)[row] = to;
  return good;
}

__device__ inline void note_bad(const cast_work& work, std::int64_t row) { // unsigned: -1 is above all rows
  atomicMin(reinterpret_cast<unsigned long long*>(work.bad_row), static_cast<unsigned long long>(row));
}

template <class Target>
__device__ bool cast_row(const cast_work& work, std::int64_t row) {
  bool good = false;
  with_number<__half, truth>(work.from, [&]<class Source>(Source) {
    if constexpr (!std::is_same_v<Source, truth>) {
      good = cast_row<Target, Source>(work, row);
    }
  });
  return good;
}

/// Decimals have kernels of their own, because the kernel of the other numbers needs fewer registers.
template <class Target>
__global__ void __launch_bounds__(block_threads) cast_decimals(const __grid_constant__ cast_work work) {
  for (std::int64_t row = grid_thread(); row < work.count; row += grid_threads()) {
    if (!cast_row<Target, decimals>(work, row)) {
      note_bad(work, row);
    }
  }
}

template <class Target>
__global__ void __launch_bounds__(block_threads) cast_rows(const __grid_constant__ cast_work work) {
#pragma unroll 4
  for (std::int64_t row = grid_thread(); row < work.count; row += grid_threads()) {
    if (!cast_row<Target>(work, row)) {
      note_bad(work, row);
    }
  }
}

const kernel_module kernels_here(cast_rows<float>);

} // namespace

void cast_numbers(stream_handle stream, const cast_work& work) {
  const launch_site site(work.bad_row, stream);
  site.fill(work.bad_row, 0xff, sizeof *work.bad_row);
  with_number<__half, truth>(work.to, [&]<class Target>(Target) {
    if constexpr (!std::is_same_v<Target, truth>) {
      site.launch("cast_numbers", work.decimal.bytes != 0 ? cast_decimals<Target> : cast_rows<Target>,
                  work.count, work);
    }
  });
}

} // namespace saeta::cuda
