// Which of some names a person meant who wrote another one.
#pragma once

#include "saeta/base/export.hpp"

#include <span>
#include <string_view>

namespace SAETA_EXPORT saeta {

/// Returns the name that differs least; empty if none is close. About a third of the letters may differ; of one
/// or two letters, only the case.
std::string_view closest(std::string_view wanted, std::span<const std::string_view> known);

} // namespace saeta
