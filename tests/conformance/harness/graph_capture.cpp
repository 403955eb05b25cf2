#include "conformance/harness/graph_capture.hpp"

#include "conformance/harness/cuda_driver.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/text.hpp"

#include <utility>

namespace saeta::conformance {
namespace {

/// As declared in cuda.h.
constexpr int success = 0;
constexpr int capture_mode_global = 0;

void begin_on_cuda(stream_handle stream) {
  const auto begin = cuda_driver_call<int (*)(void*, int)>("cuStreamBeginCapture_v2");
  const cuda_current_context current(stream);
  const int status = begin(reinterpret_cast<void*>(stream), capture_mode_global);
  if (status != success) {
    throw error(errc::device, concat("cuStreamBeginCapture: CUDA error ", status));
  }
}

bool end_on_cuda(stream_handle stream) {
  const auto end = cuda_driver_call<int (*)(void*, void**)>("cuStreamEndCapture");
  const auto destroy = cuda_driver_call<int (*)(void*)>("cuGraphDestroy");
  const cuda_current_context current(stream);
  void* graph = nullptr;
  return end(reinterpret_cast<void*>(stream), &graph) == success && destroy(graph) == success;
}

} // namespace

graph_capture::graph_capture(backend& device, stream_handle stream) : device_(device), stream_(stream) {
  if (auto* const simulated = dynamic_cast<sim::simulated_device*>(&device_)) {
    simulated->begin_capture(stream_);
  } else if (device_.device().kind == device_kind::cuda) {
    begin_on_cuda(stream_);
  }
}

graph_capture::~graph_capture() { end(); }

bool graph_capture::end() {
  if (!std::exchange(open_, false)) {
    return true;
  }
  if (auto* const simulated = dynamic_cast<sim::simulated_device*>(&device_)) {
    return simulated->end_capture(stream_);
  }
  return device_.device().kind != device_kind::cuda || end_on_cuda(stream_);
}

} // namespace saeta::conformance
