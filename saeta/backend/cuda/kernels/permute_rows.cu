// Permutes numbers of rows.
#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/launch.cuh"
#include "saeta/device/permutation.hpp"

namespace saeta::cuda {
namespace {

template <class Row>
__global__ void __launch_bounds__(block_threads) permute_numbers(const __grid_constant__ permute_work work) {
  for (std::int64_t entry = grid_thread(); entry < work.numbers.count; entry += grid_threads()) {
    const auto number = static_cast<std::uint64_t>(number_at(work.numbers, entry));
    static_cast<Row*>(work.target)[entry] = static_cast<Row>(permute(work.order, number));
  }
}

const kernel_module kernels_here(permute_numbers<std::uint32_t>);

} // namespace

void permute_rows(stream_handle stream, const permute_work& work) {
  if (work.numbers.count == 0) {
    return;
  }
  const launch_site site(work.target, stream);
  if (work.width == sizeof(std::uint32_t)) {
    site.launch("permute_rows", permute_numbers<std::uint32_t>, work.numbers.count, work);
  } else {
    site.launch("permute_rows", permute_numbers<std::uint64_t>, work.numbers.count, work);
  }
}

} // namespace saeta::cuda
