// The primary context of a device, and making it current for the length of one call.
//
// Owner     Primary contexts are retained once a process and kept, as the CUDA runtime keeps them.
// Thread    `primary_context` any; a `context_scope` stays on its thread, scopes nest.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace saeta::cuda {

/// The same context for the whole process; created at the first call.
/// @throws error device for an ordinal that the machine does not have.
CUcontext primary_context(std::int32_t ordinal);

/// Makes a context current and leaves the thread exactly as it was: its context, or that it had none.
///
/// Enough for the calls that no capture minds, of which asking for a capture is one.
class current_context {
public:
  explicit current_context(CUcontext context) noexcept;
  current_context(const current_context&) = delete;
  current_context& operator=(const current_context&) = delete;
  ~current_context();

  /// What became of it; without success nothing was changed and nothing will be.
  [[nodiscard]] CUresult status() const noexcept { return status_; }

private:
  CUresult status_;
  bool pushed_ = false;
};

/// The same for all other calls.
///
/// While it lives, the thread's capture mode is "relaxed": none of our calls is part of a graph that somebody else
/// captures, and in the default mode a query or an allocation from here would spoil such a capture on any thread.
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
