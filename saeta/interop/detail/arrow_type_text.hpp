// Names of foreign types, for messages.
#pragma once

#include "saeta/interop/detail/arrow_abi.hpp"

#include <string>

namespace saeta {

/// The type in Arrow's words, children included ("list<item: int32>"), also where Saeta does not carry it or where the
/// struct is broken: then the broken part reads "?". Never throws for what the struct says.
std::string type_text(const ArrowSchema& source);

} // namespace saeta
