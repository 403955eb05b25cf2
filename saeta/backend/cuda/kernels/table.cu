#include "saeta/backend/cuda/kernels/kernels.hpp"

namespace saeta::cuda {

const kernel_table& cuda_kernels() noexcept {
  static constexpr kernel_table table{
      .pack_bool = pack_bool,
      .unpack_bool = unpack_bool,
      .copy_bitmap = copy_bitmap,
      .count_nulls = count_nulls,
      .rebase_offsets32 = rebase_offsets32,
      .rebase_offsets64 = rebase_offsets64,
      .fill_nulls = fill_nulls,
      .gather_strided = gather_strided,
      .gather_columns = gather_columns,
      .join = join,
      .read_values = read_values,
      .check_values = check_values,
      .compare = compare,
      .expand = expand,
      .count_taken = count_taken,
      .take = take,
      .cast_numbers = cast_numbers,
      .permute_rows = permute_rows,
      .compress = compress,
      .decompress = decompress,
  };
  return table;
}

} // namespace saeta::cuda
