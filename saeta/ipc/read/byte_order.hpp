// Values of sources in big-endian byte order.
//
// Standard  Arrow columnar format, "Byte Order (Endianness)".
#pragma once

#include "saeta/column/data_type.hpp"

#include <cstddef>
#include <span>

namespace saeta::ipc::detail {

/// Swaps the numbers in a buffer to the byte order of this machine.
/// @param index  of the buffer among those of the type
/// @throws error unsupported for views, whose words depend on their sizes.
void swap_order(const data_type& type, std::size_t index, std::span<std::byte> bytes);

} // namespace saeta::ipc::detail
