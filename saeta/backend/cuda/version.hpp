// Checks of the CUDA driver's version, and the messages for unusable ones.
#pragma once

#include "saeta/base/text.hpp"

#include <cstdint>
#include <string>

namespace saeta::cuda {

inline std::string version_text(std::int32_t version) {
  return concat(version / 1000, ".", version % 1000 / 10);
}

/// The oldest driver that has every call that Saeta needs (cuda_backend.hpp).
inline constexpr std::int32_t least_driver = 12050;

/// Why a driver can't be used; empty if it can.
inline std::string driver_too_old(std::int32_t version) {
  return version >= least_driver ? std::string()
                                 : concat("the NVIDIA driver supports CUDA ", version_text(version),
                                          ", and Saeta needs a driver for CUDA ", version_text(least_driver),
                                          " or newer: update the driver");
}

/// Why a forked child can't use CUDA.
inline constexpr const char* forked =
    "CUDA can't be used in a forked process whose parent has used it; start the "
    "process with spawn instead of fork (multiprocessing.set_start_method(\"spawn\"))";

} // namespace saeta::cuda
