// Where the values of a foreign tensor lie: its fields are checked before any address of it is used.
//
// Owner     Nothing is taken; what is found is valid while the tensor is.
// Failure   format (a field that breaks the standard: names it and its numbers), exchange (a shape or type that no column has).
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

/// A tensor that was found to be sound.
struct foreign_values {
  const data_type* type = nullptr;       ///< never null once it was checked
  std::span<const std::int64_t> shape;   ///< the tensor's own
  std::span<const std::int64_t> strides; ///< in values; empty where it names none
  strided_values found;  ///< in the order in which they are to lie, without what is side by side
  std::size_t bytes = 0; ///< of the values, side by side
  std::byte* first = nullptr;
  std::byte* lowest = nullptr;
  std::size_t reach = 0; ///< bytes from the lowest address to behind the highest value
  tensor_device device;
  mutability access = mutability::writable;

  [[nodiscard]] bool strided() const {
    return found.dimensions > 1 || (found.dimensions == 1 && found.strides[0] != type->byte_width());
  }
};

/// Which dimension of a tensor becomes rows that lie side by side.
enum class tensor_layout {
  rows,    ///< row after row, as one column has them
  columns, ///< column after column, as a table has them
};

foreign_values check_tensor(const DLTensor& tensor, mutability access, tensor_layout wanted);

/// "(2, 3)".
std::string numbers_text(std::span<const std::int64_t> numbers);

} // namespace saeta
