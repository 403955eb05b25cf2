// Permutes numbers of rows.
#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/launch.cuh"
#include "saeta/device/permutation.hpp"

namespace saeta::cuda {
namespace {

template <class Row>
__global__ void __launch_bounds__(block_threads) permute_numbers(const __grid_constant__ permute_work work) {
  const std::int64_t batch_rows = work.batches.batch_rows;
  for (std::int64_t entry = grid_thread(); entry < work.batches.count; entry += grid_threads()) {
    const std::int64_t turn = entry / batch_rows;
    const batch_place at = place_of(work.batches, turn);
    const std::uint64_t number =
        permute(order_of(work, at), static_cast<std::uint64_t>(at.number + entry - turn * batch_rows));
    static_cast<Row*>(work.target)[entry] =
        static_cast<Row>(static_cast<std::uint64_t>(at.first_row) + number);
  }
}

const kernel_module kernels_here(permute_numbers<std::uint32_t>);

} // namespace

void permute_rows(stream_handle stream, const permute_work& work) {
  if (work.batches.count == 0) {
    return;
  }
  const launch_site site(work.target, stream);
  if (work.width == sizeof(std::uint32_t)) {
    site.launch("permute_rows", permute_numbers<std::uint32_t>, work.batches.count, work);
  } else {
    site.launch("permute_rows", permute_numbers<std::uint64_t>, work.batches.count, work);
  }
}

} // namespace saeta::cuda
