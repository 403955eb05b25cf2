// Which kind of number a kernel reads and writes for the values of a type.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/data_type.hpp"
#include "saeta/device/gather.hpp"

namespace SAETA_EXPORT saeta {

/// @param type  an integer or a float
inline number_kind number_kind_of_number(const data_type& type) noexcept {
  static_assert(static_cast<int>(type_id::float64) - static_cast<int>(type_id::int8) ==
                static_cast<int>(number_kind::float64));
  return static_cast<number_kind>(static_cast<int>(type.id()) - static_cast<int>(type_id::int8));
}

} // namespace saeta
