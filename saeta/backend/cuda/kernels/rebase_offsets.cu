#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/values.cuh"

namespace saeta::cuda {
namespace {

/// Rebases every offset except the first. All threads read the first one, so it is set to 0 only after the
/// kernel; thus the target may be the source. Offsets [begin, begin + Width * groups) are handled in aligned
/// groups, the others from 1 on one by one.
template <class Offset, int Width>
__global__ void __launch_bounds__(block_threads)
    rebase_groups(const Offset* source, std::int64_t count, std::int64_t begin, std::int64_t groups,
                  Offset* target) {
  using aligned_group = value_group<Offset, Width>;
  const Offset base = source[0];
  const std::int64_t thread = grid_thread();
  const std::int64_t threads = grid_threads();
  const auto* const from = reinterpret_cast<const aligned_group*>(source + begin);
  auto* const to = reinterpret_cast<aligned_group*>(target + begin);
  for (std::int64_t start = thread; start < groups; start += unroll * threads) {
    aligned_group loaded[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      if (start + i * threads < groups) {
        loaded[i] = from[start + i * threads];
      }
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      if (start + i * threads < groups) {
#pragma unroll
        for (int j = 0; j < Width; ++j) {
          loaded[i].at[j] -= base;
        }
        to[start + i * threads] = loaded[i];
      }
    }
  }
  const std::int64_t head = begin - 1;
  const std::int64_t edges = count - 1 - groups * Width;
  for (std::int64_t i = thread; i < edges; i += threads) {
    const std::int64_t element = i < head ? 1 + i : 1 + i + groups * Width;
    target[element] = source[element] - base;
  }
}

/// `Offset` is unsigned, so offsets that were not validated wrap without undefined behaviour.
template <class Offset>
void rebase_offsets(const char* name, stream_handle stream, const Offset* source, std::int64_t count,
                    Offset* target) {
  if (count == 0) {
    return;
  }
  const launch_site site(target, stream);
  if (count > 1) {
    constexpr int width = static_cast<int>(group_bytes / sizeof(Offset));
    const bool same_alignment = reinterpret_cast<std::uintptr_t>(source) % group_bytes ==
                                reinterpret_cast<std::uintptr_t>(target) % group_bytes;
    if (same_alignment) {
      const std::int64_t begin = 1 + values_before_group(target + 1, count - 1);
      const std::int64_t groups = (count - begin) / width;
      site.launch(name, rebase_groups<Offset, width>, groups, source, count, begin, groups, target);
    } else {
      site.launch(name, rebase_groups<Offset, 1>, count - 1, source, count, std::int64_t{1}, count - 1,
                  target);
    }
  }
  site.zero(target, sizeof(Offset));
}

const kernel_module kernels_here(rebase_groups<std::uint32_t, 1>);

} // namespace

void rebase_offsets32(stream_handle stream, const std::int32_t* source, std::int64_t count,
                      std::int32_t* target) {
  rebase_offsets("rebase_offsets32", stream, reinterpret_cast<const std::uint32_t*>(source), count,
                 reinterpret_cast<std::uint32_t*>(target));
}

void rebase_offsets64(stream_handle stream, const std::int64_t* source, std::int64_t count,
                      std::int64_t* target) {
  rebase_offsets("rebase_offsets64", stream, reinterpret_cast<const std::uint64_t*>(source), count,
                 reinterpret_cast<std::uint64_t*>(target));
}

} // namespace saeta::cuda
