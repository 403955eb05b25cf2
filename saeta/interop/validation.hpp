// How far imported data is trusted.
#pragma once

namespace saeta {

/// How thoroughly imported values are checked before anything follows them.
enum class validation {
  structure, ///< lengths, sizes, counts, first and last offsets
  full,      ///< also every value that refers to other data; read once, where the memory is
};

} // namespace saeta
