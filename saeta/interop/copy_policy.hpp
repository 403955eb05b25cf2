// Whether an import or a read may, must or must not copy.
#pragma once

namespace saeta {

enum class copy_policy {
  when_needed, ///< no copy if the device can use the memory, else one transfer
  always,      ///< a copy in the context's own memory, under its budget
  never,       ///< error exchange if a copy is needed
};

} // namespace saeta
