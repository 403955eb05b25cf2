// How far imported data is trusted.
#pragma once

namespace saeta {

/// How thoroughly imported values are checked before anything follows them.
enum class validation {
  structure, ///< lengths, sizes, counts, first and last offsets
  full,      ///< also every value that refers to other data; read once, where the memory is
};

/// The rows of children whose values are checked.
enum class check_scope {
  named_rows, ///< those that rows of the parent refer to, for arrays of a producer in this process
  every_row,  ///< all of them, for bytes from elsewhere: exports hand out whole children
};

} // namespace saeta
