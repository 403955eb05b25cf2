// A graph that another library captures on a stream.
//
// Thread    Begun and ended on one thread.
// Failure   error device when the device refuses to begin.
#pragma once

#include "saeta/device/backend.hpp"

namespace saeta::conformance {

class graph_capture {
public:
  /// Does nothing on the host, which has no graphs.
  graph_capture(backend& device, stream_handle stream);
  graph_capture(const graph_capture&) = delete;
  graph_capture& operator=(const graph_capture&) = delete;
  ~graph_capture();

  /// Drops the graph. Returns false if the capture had ended before.
  bool end();

private:
  backend& device_;
  stream_handle stream_;
  bool open_ = true;
};

} // namespace saeta::conformance
