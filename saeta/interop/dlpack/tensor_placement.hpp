// Where the values of a foreign tensor are. Its fields are checked before any of its addresses is used.
//
// Owner     Nothing is taken. The result is valid as long as the tensor is.
// Failure   format (a field that breaks the standard: names it and its numbers), exchange (a shape or type
//           that no column has).
#pragma once

#include "saeta/column/data_type.hpp"
#include "saeta/device/gather.hpp"
#include "saeta/interop/dlpack/types.hpp"
#include "saeta/memory/storage.hpp"

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace saeta {

/// A tensor whose fields have been checked.
struct foreign_values {
  const data_type* type = nullptr;       ///< never null after the check
  std::span<const std::int64_t> shape;   ///< the tensor's own
  std::span<const std::int64_t> strides; ///< in values; empty if the tensor names none
  strided_values found;                  ///< dimensions in the wanted order; contiguous ones are merged
  std::size_t bytes = 0;                 ///< of the values without gaps
  std::byte* first = nullptr;
  std::byte* lowest = nullptr;
  std::size_t reach = 0; ///< bytes from the lowest address to the end of the highest value
  tensor_device device;
  mutability access = mutability::writable;

  [[nodiscard]] bool strided() const {
    return found.dimensions > 1 || (found.dimensions == 1 && found.strides[0] != type->byte_width());
  }
};

/// The order in which the values of a tensor become contiguous.
enum class tensor_layout {
  rows,    ///< row after row, for one column
  columns, ///< column after column, for a table
};

foreign_values check_tensor(const DLTensor& tensor, mutability access, tensor_layout wanted);

/// Text such as "(2, 3)".
std::string numbers_text(std::span<const std::int64_t> numbers);

} // namespace saeta
