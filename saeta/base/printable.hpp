// Makes text from other sources safe for terminals and logs.
#pragma once

#include <string>

namespace saeta {

/// Escapes ("\x1b") all characters that a terminal acts on or that a reader can't see: control characters
/// (C0, DEL, C1), line ends, marks that change the writing direction, and bytes that are not UTF-8. Other
/// text is returned unchanged.
std::string printable(std::string text);

} // namespace saeta
