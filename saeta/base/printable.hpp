// Text that other people chose, for terminals and logs.
#pragma once

#include <string>

namespace saeta {

/// The text with "\x1b" for whatever a terminal would act on or a reader would not see: control characters (C0, DEL, C1), line ends,
/// the marks that turn the direction of writing, and bytes that are not UTF-8. Most texts have none and come back as they are.
std::string printable(std::string text);

} // namespace saeta
