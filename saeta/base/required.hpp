// Refuses a null pointer where a function needs an object, and an object that was moved from: a mistake of the
// caller is an error, not a crash.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/source_location.hpp"
#include "saeta/base/text.hpp"

#include <string_view>
#include <utility>

namespace SAETA_EXPORT saeta {

/// @param name  of the argument, for the message. @throws error invalid_argument if it is null.
template <class Pointer>
void require_argument(const Pointer& given, std::string_view name,
                      source_location where = source_location::current()) {
  if (given == nullptr) {
    throw error(errc::invalid_argument, concat("the argument '", name, "' is null"), where);
  }
}

/// The same for initialisers: returns `given`.
template <class Pointer>
Pointer&& required(Pointer&& given, std::string_view name,
                   source_location where = source_location::current()) {
  require_argument(given, name, where);
  return std::forward<Pointer>(given);
}

/// Not inline, so that the accessors that call it stay small. @throws error closed.
[[noreturn]] void refuse_moved_from(std::string_view object);

/// For accessors of objects that can be moved from: returns what `held` points to.
/// @param object  what was moved from, for the message ("column"). @throws error closed if `held` is null.
template <class Pointer>
auto& held_by(const Pointer& held, std::string_view object) {
  if (held == nullptr) [[unlikely]] {
    refuse_moved_from(object);
  }
  return *held;
}

} // namespace saeta
