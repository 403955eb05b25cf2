// Captures: which graphs are being captured on a device, as far as Saeta can know.
//
// @code
// captures& known = ctx->clocks()->graph_captures();
// {
//   const std::shared_ptr<void> announced = known.announce(); // before a capture that the driver hides
//   launch(stream, known.active());                           // true: no event over all work is recorded
// }
// const bool captures_a_graph = known.note(stream);
// @endcode
//
// During a graph capture, an event over all work of the context (timelines::mark_device) can't be recorded,
// and trying may end the capture. So no such event is recorded while a known capture is active. A capture is
// known if the driver reports it (on streams that synchronise with the legacy default stream), if it was
// announced (`announce`, context::capturing), or if a hand-over, a token or a loan named a capturing stream
// (`note`). docs/captures.md has the rules for all of Saeta.
//
// Owner     `timelines` has one; announcements share it.
// Thread    Any.
// Failure   error device from the driver, with nothing changed.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/required.hpp"
#include "saeta/device/stream.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace SAETA_EXPORT saeta {

class captures : public std::enable_shared_from_this<captures> {
public:
  explicit captures(std::shared_ptr<backend> device) : device_(required(std::move(device), "device")) {}

  /// Announces a capture that the driver would not report. It is active until the result is dropped. Returns
  /// once no event over all work is being recorded (`hold_off`), so that the capture may begin.
  [[nodiscard]] std::shared_ptr<void> announce();
  /// While the result lives, no call of `announce` returns. Hold it from `active` until the event is
  /// recorded.
  [[nodiscard]] std::unique_lock<std::mutex> hold_off() { return std::unique_lock(recording_); }
  /// Checks whether a stream named for a use captures a graph, and follows the capture to its end if so.
  bool note(stream_ref named);
  /// True while an announced or noted capture is active. backend::record_context checks for reported ones.
  [[nodiscard]] bool active();

private:
  /// A stream of ours joins the capture and so follows it. It leaves the capture when that ends. By then the
  /// named stream may be gone.
  struct followed {
    stream_ref named;
    stream companion;
  };
  void follow(stream_ref capturing);
  void drop_ended();

  const std::shared_ptr<backend> device_;
  std::atomic<int> announced_{0};
  std::atomic<std::size_t> followed_count_{0};
  std::mutex recording_; ///< taken before `mutex_`
  std::mutex mutex_;
  std::vector<followed> followed_; ///< captures that were active when last checked
  std::vector<stream> companions_; ///< streams from captures that have ended, for reuse
};

} // namespace saeta
