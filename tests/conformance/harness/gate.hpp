// A gate blocks a stream, so that work behind it is certainly pending.
//
// Order     Work queued on the stream after the gate starts when the gate is opened. While a gate is closed,
//           nothing that waits for the device may be called (freeing, page-locking, synchronising), because
//           it would hang.
// Owner     The test. The destructor opens the gate, so that a failing test ends. One gate at a time.
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

/// Closes a gate on a CUDA stream: queues a host function that waits.
std::unique_ptr<gate> close_cuda_gate(stream_handle stream);

} // namespace saeta::conformance
