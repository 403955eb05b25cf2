// The keyword `copy=` of imports and exports.
#pragma once

#include "saeta/interop/copy_policy.hpp"

#include <optional>

namespace saeta::py {

/// None: copy if needed. True: always copy. False: never copy.
inline copy_policy policy_of(std::optional<bool> copy) {
  if (!copy) {
    return copy_policy::when_needed;
  }
  return *copy ? copy_policy::always : copy_policy::never;
}

} // namespace saeta::py
