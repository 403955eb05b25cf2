// Calls into other libraries that may end the calling thread instead of returning.
//
// What      CPython before 3.14 ends a thread that asks for the GIL after the interpreter has begun to shut
//           down. It calls pthread_exit, whose forced unwind would pass through our destructors and other
//           noexcept code and terminate the process. Release callbacks and deleters of Python libraries ask
//           for the GIL. `foreign_call` stops such a thread for good instead, as CPython 3.14 does. The
//           process exits without waiting for the thread.
// Thread    Any.
// Failure   Exceptions of the callee pass through.
#pragma once

#include <utility>

#include <cxxabi.h>

namespace saeta {

/// Stops the calling thread until the process ends.
[[noreturn]] void stop_this_thread() noexcept;

template <class Action>
decltype(auto) foreign_call(Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (const abi::__forced_unwind&) {
    stop_this_thread();
  }
}

} // namespace saeta
