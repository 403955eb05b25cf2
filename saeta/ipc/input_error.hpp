// Says of an error where it was met.
#pragma once

#include "saeta/base/error.hpp"

#include <string_view>

namespace saeta::ipc {

/// Throws the error being handled again, with `where` before its message. A budget refusal is not changed.
[[noreturn]] void rethrow(const error& failure, std::string_view where);

/// The same for what was read: numbers that contradict each other or no memory can hold are format, by
/// whichever check of ours they are found.
[[noreturn]] void rethrow_input(const error& failure, std::string_view where);

} // namespace saeta::ipc
