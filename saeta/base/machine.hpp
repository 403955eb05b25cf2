// The machine that the process runs on.
#pragma once

#include <cstdint>

#include <unistd.h>

namespace saeta {

/// Bytes of its main memory.
inline std::uint64_t machine_bytes() noexcept {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

} // namespace saeta
