// Whether an import or a read may, must or must not copy.
#pragma once

namespace saeta {

enum class copy_policy {
  when_needed, ///< no copy where the device can use the memory, else one transfer
  always,      ///< memory of the context's own, under its budget
  never,       ///< error exchange when a copy would be needed
};

} // namespace saeta
