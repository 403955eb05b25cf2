// Device arrays that another library received and exports again.
#pragma once

#include "saeta/interop/arrow/owned.hpp"

#include <cstdint>
#include <utility>

namespace saeta::support {

/// Returns rows of an array in a new struct with another release callback, as another library would export
/// them.
inline ArrowDeviceArray passed_on(arrow_device_array from, std::int64_t first, std::int64_t rows) {
  auto* const kept = new arrow_device_array(std::move(from));
  ArrowDeviceArray made = kept->get();
  made.array.offset += first;
  made.array.length = rows;
  made.array.null_count = -1;
  made.array.private_data = kept;
  made.array.release = [](ArrowArray* array) {
    delete static_cast<arrow_device_array*>(array->private_data);
    array->release = nullptr;
  };
  return made;
}

} // namespace saeta::support
