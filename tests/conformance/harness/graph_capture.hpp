// A graph capture by another library on a stream.
//
// Thread    It must begin and end on the same thread.
// Failure   error device if the capture can't begin.
#pragma once

#include "saeta/device/backend.hpp"

namespace saeta::conformance {

class graph_capture {
public:
  /// Begins the capture. Does nothing on the host, which has no graphs.
  graph_capture(backend& device, stream_handle stream);
  graph_capture(const graph_capture&) = delete;
  graph_capture& operator=(const graph_capture&) = delete;
  ~graph_capture();

  /// Ends the capture and drops the graph. Returns false if the capture was invalidated before.
  bool end();

private:
  backend& device_;
  stream_handle stream_;
  bool open_ = true;
};

} // namespace saeta::conformance
