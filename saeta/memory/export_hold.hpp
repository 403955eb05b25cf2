// An export hold: keeps storages alive while a foreign consumer has a view of them, and records that use.
//
// @code
// export_hold shown(std::span(&bytes, 1), access::read); // keeps the storage for a consumer
// order_handover(std::span(&bytes, 1), stream);          // its stream waits for the last writes
// launch(stream, bytes.address());                       // the consumer's kernel
// shown.end_on(stream.native_handle());                  // later writes wait for this stream alone
// @endcode
//
// What      Every export through a protocol (DLPack, Arrow C) owns one in its private data.
// Order     A consumer may use its view on streams that we don't know. So its work is unknown, both while it
//           has the view and afterwards: the next use of the memory waits for a point after all work of the
//           device (order/ordering.hpp). Ending a hold does not call the device. A consumer that names the
//           stream of its last use ends the hold by `end_on`, and only that stream is waited for.
// Thread    A hold may end on any thread, with no lock held, even after the context object's last user.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/memory/buffer.hpp"

#include <optional>
#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {

class export_hold {
public:
  /// Counts one export in each distinct context.
  export_hold(std::span<const buffer> views, access mode);
  export_hold(export_hold&& other) noexcept = default;
  export_hold& operator=(export_hold&&) = delete;
  ~export_hold();

  /// Ends the hold for a consumer whose last use is queued on this stream by now. If the stream captures a
  /// graph or can't be marked, the work counts as unknown.
  void end_on(stream_handle last) noexcept;

  /// The first storage that is held; null if there is none.
  [[nodiscard]] const std::shared_ptr<storage>& first() const noexcept { return first_; }
  /// The other storages, each once.
  [[nodiscard]] std::span<const std::shared_ptr<storage>> others() const noexcept { return others_; }

private:
  std::shared_ptr<storage> first_;               ///< the only one for a plain tensor
  std::vector<std::shared_ptr<storage>> others_; ///< distinct
  access mode_;
};

/// Adds a point after the work that a consumer has queued on its stream by now. Returns false, and adds
/// nothing, if the stream captures a graph: an event recorded there would belong to the graph.
/// @param ctx  of the memory that was used
[[nodiscard]] bool add_last_use(context& ctx, stream_ref used, point_set& to);

/// Hands over to a consumer that works on `stream`: makes `stream` wait for the last writes of the buffers,
/// those of other consumers included. If the stream captures a graph, the host waits instead. A write token
/// of another thread is waited for.
/// @throws error busy under a write token of this thread, and if unknown writes can't be waited for, because
/// a graph is captured.
void order_handover(std::span<const buffer> views, stream_ref stream);
/// The same for a stream of `device` by its handle. If there is nothing to wait for, it only asks the driver
/// whether the stream captures.
void order_handover(std::span<const buffer> views, backend& device, stream_handle stream);

/// Returns an event after the last writes of the buffers, for a consumer that waits for it on its own
/// streams; nullopt if none are pending. The event is recorded on the context's work stream. Tokens and
/// captures as above.
[[nodiscard]] std::optional<event> handover_event(const std::shared_ptr<context>& ctx,
                                                  std::span<const buffer> views);

/// Hands over to a consumer on the CPU: blocks until the last writes have finished. Tokens as above.
void synchronize_handover(std::span<const buffer> views);

} // namespace saeta
