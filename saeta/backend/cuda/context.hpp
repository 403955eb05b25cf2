// The primary context of a device, and scopes that make it current for one call.
//
// Owner     The process. Each primary context is retained once and never released, as in the CUDA runtime.
// Thread    `primary_context`: any. A scope stays on its thread; scopes nest.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace saeta::cuda {

/// Returns the same context for the whole process. The first call creates it.
/// @throws error device for an ordinal that the machine does not have.
CUcontext primary_context(std::int32_t ordinal);

/// Makes a context current, and restores the thread's previous state, with or without a context.
///
/// Sufficient for calls that do not disturb a graph capture, such as the query whether a stream captures.
class current_context {
public:
  explicit current_context(CUcontext context) noexcept;
  current_context(const current_context&) = delete;
  current_context& operator=(const current_context&) = delete;
  ~current_context();

  /// Whether the context became current. On failure nothing was changed and nothing will be restored.
  [[nodiscard]] CUresult status() const noexcept { return status_; }

private:
  CUresult status_;
  bool pushed_ = false;
};

/// A `current_context` in which calls do not disturb captures of other libraries.
///
/// While it lives, the thread's capture mode is "relaxed". In the default mode a query or an allocation on
/// this thread would invalidate a capture that another library has begun on any thread. Our calls never
/// belong to such a graph.
class context_scope : public current_context {
public:
  explicit context_scope(CUcontext context) noexcept;
  context_scope(const context_scope&) = delete;
  context_scope& operator=(const context_scope&) = delete;
  ~context_scope();

private:
  bool exchanged_ = false;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// A scope that throws error device when the context can't be made current.
class active_context : public context_scope {
public:
  explicit active_context(CUcontext context);
};

} // namespace saeta::cuda
