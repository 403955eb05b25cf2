// Makes a device current for a scope. RMM works on the current device, and our own threads also free memory.
//
// @code
// const current_device here(ctx->device());
// rmm::device_buffer scratch(4096, rmm_stream); // on the device of `ctx`, whichever was current before
// @endcode
#pragma once

#include "saeta/device/device_id.hpp"

#include <optional>
#include <rmm/cuda_device.hpp>

namespace saeta {

class current_device {
public:
  explicit current_device(device_id device) {
    if (device.kind == device_kind::cuda) {
      scope_.emplace(rmm::cuda_device_id{device.ordinal});
    }
  }

private:
  std::optional<rmm::cuda_set_device_raii> scope_;
};

} // namespace saeta
