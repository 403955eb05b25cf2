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

#include "saeta/base/export.hpp"

#include <exception>
#include <type_traits>
#include <utility>

#include <unistd.h>

namespace SAETA_EXPORT saeta {

/// Stops the calling thread until the process ends.
[[noreturn]] inline void stop_this_thread() noexcept {
  while (true) {
    ::pause();
  }
}

namespace detail {

/// Stops the thread if a forced unwind destroys it: `returned` is not set then, and no exception is on its
/// way. A handler can't do this while an exception is handled, because the runtime ends a process that
/// catches a forced unwind there. The bindings call Python in handlers, to make its exceptions.
class forced_unwind_guard {
public:
  forced_unwind_guard() = default;
  forced_unwind_guard(const forced_unwind_guard&) = delete;
  forced_unwind_guard& operator=(const forced_unwind_guard&) = delete;
  ~forced_unwind_guard() {
    if (!returned && std::uncaught_exceptions() == before_) {
      stop_this_thread();
    }
  }

  bool returned = false;

private:
  int before_ = std::uncaught_exceptions();
};

} // namespace detail

template <class Action>
decltype(auto) foreign_call(Action&& action) {
  detail::forced_unwind_guard guard;
  if constexpr (std::is_void_v<std::invoke_result_t<Action>>) {
    std::forward<Action>(action)();
    guard.returned = true;
  } else {
    decltype(auto) made = std::forward<Action>(action)();
    guard.returned = true;
    return made;
  }
}

} // namespace saeta
