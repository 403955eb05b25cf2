// Options of imports and reads: whether they copy, and how far the data is trusted.

#pragma once

#include "saeta/base/export.hpp"

namespace SAETA_EXPORT saeta {

/// Whether an import or a read may, must or must not copy.
enum class copy_policy {
  when_needed, ///< no copy if the device can use the memory, else one transfer
  always,      ///< a copy in the context's own memory, under its budget
  never,       ///< error exchange if a copy is needed
};

/// How thoroughly imported values are checked before anything follows them.
enum class validation {
  structure, ///< lengths, sizes, counts, first and last offsets
  full,      ///< also every value that refers to other data; read once, where the memory is
};

/// The rows of children whose values are checked.
enum class check_scope {
  named_rows, ///< those that rows of the parent refer to, for arrays of a producer in this process
  every_row,  ///< all of them, for bytes from elsewhere: exports hand out whole children
  every_text, ///< all of them, and that strings are UTF-8
};

} // namespace saeta
