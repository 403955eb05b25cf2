// A small number for each thread, for data that is split by thread.
#pragma once

#include "saeta/base/export.hpp"

#include <cstddef>

namespace SAETA_EXPORT saeta {

/// Numbers are consecutive in the order in which threads first call this. They are not reused.
std::size_t thread_number() noexcept;

} // namespace saeta
