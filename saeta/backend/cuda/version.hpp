// Versions as CUDA numbers them, as text: 13000 is "13.0".
#pragma once

#include "saeta/base/text.hpp"

#include <cstdint>
#include <string>

namespace saeta::cuda {

inline std::string version_text(std::int32_t version) {
  return concat(version / 1000, ".", version % 1000 / 10);
}

} // namespace saeta::cuda
