// A gate holds a stream back, so that a test can look at work that is certainly pending.
//
// Order     Work queued on the stream after the gate starts once the gate is opened. While a gate is closed,
//           call nothing that waits for the device (freeing, page-locking, synchronising): it would hang.
// Owner     The test; a gate opens when it is destroyed, so a failing test ends. One gate at a time.
#pragma once

#include "saeta/device/handles.hpp"

#include <memory>

namespace saeta::conformance {

class gate {
public:
  gate() = default;
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;
  virtual ~gate() = default;

  virtual void open() = 0;
};

/// A gate on a CUDA stream: a host function that waits, queued through the driver that is loaded already.
std::unique_ptr<gate> close_cuda_gate(stream_handle stream);

} // namespace saeta::conformance
