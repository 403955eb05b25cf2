#include "saeta/backend/cuda/kernels/kernels.hpp"

namespace saeta::cuda {

const kernel_table& cuda_kernels() noexcept {
  static constexpr kernel_table table{
      pack_bool,        unpack_bool,  copy_bitmap,    count_nulls,    rebase_offsets32,
      rebase_offsets64, fill_nulls,   gather_strided, gather_columns, join,
      read_values,      check_values, compare,        expand};
  return table;
}

} // namespace saeta::cuda
