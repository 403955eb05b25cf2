// Conversions between one-bit and one-byte booleans, on the column's own device.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/column.hpp"

namespace SAETA_EXPORT saeta {

/// bool8 (or any int8/uint8; non-zero is true) -> boolean, one kernel, validity realigned to offset 0.
/// @throws error type_mismatch; budget_exceeded.
[[nodiscard]] column pack_bool(const column& bytes);

/// boolean -> bool8, one kernel, validity realigned to offset 0.
[[nodiscard]] column unpack_bool(const column& bits);

/// The same memory as a column of `type`, which is bool8() or byte_bool().
/// @throws error type_mismatch unless `bytes` is one of them.
[[nodiscard]] column relabel_bool8(const column& bytes, const data_type& type);

} // namespace saeta
