// RMM's own header, for clang 14, which takes no attribute between `namespace` and its name.
#pragma once

#include_next <rmm/detail/export.hpp>

#undef RMM_EXPORT
#define RMM_EXPORT
