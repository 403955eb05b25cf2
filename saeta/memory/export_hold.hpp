// An export hold: keeps storages alive while a foreign consumer has a view of them, and remembers that it had one.
//
// What      Every hand-out through a protocol (DLPack, Arrow C) owns one of these in its private data.
// Order     A consumer may use its view on streams that nobody announced. So its work is unknown, while it has the view and
//           afterwards: whoever needs the memory then waits for a point after all work of the device (order/ordering.hpp).
//           The end of a hold asks nothing of the device.
// Thread    The end may come on any thread, without any lock, after the context object's last user is gone.
#pragma once

#include "saeta/device/event.hpp"
#include "saeta/memory/buffer.hpp"

#include <optional>
#include <span>
#include <vector>

namespace saeta {

class export_hold {
public:
  /// Counts one export in each distinct context.
  export_hold(std::span<const buffer> views, access mode);
  export_hold(export_hold&& other) noexcept = default;
  export_hold& operator=(export_hold&&) = delete;
  ~export_hold();

  /// The first storage that is held; null where there is none.
  [[nodiscard]] const std::shared_ptr<storage>& first() const noexcept { return first_; }
  /// The others, each once.
  [[nodiscard]] std::span<const std::shared_ptr<storage>> others() const noexcept { return others_; }

private:
  std::shared_ptr<storage> first_;               ///< of a plain tensor the only one
  std::vector<std::shared_ptr<storage>> others_; ///< distinct
  access mode_;
};

/// Makes `stream` wait for the last writes of the buffers, those of other consumers included; the hand-over to a consumer that
/// works on `stream`. Where it captures a graph, the host waits instead.
/// A write token of another thread is waited for. @throws error busy under a write token of this thread, and where unknown
/// writes can't be waited for, because a graph is captured.
void order_handover(std::span<const buffer> views, stream_ref stream);
/// The same for a stream of `device` by its handle: where nothing is waited for, no more is asked of the driver than whether the
/// stream captures.
void order_handover(std::span<const buffer> views, backend& device, stream_handle stream);

/// An event behind the last writes of the buffers, for a consumer who waits for it on streams of his own; nothing where none is
/// pending. Recorded on the context's work stream. Tokens and captures as above.
[[nodiscard]] std::optional<event> handover_event(const std::shared_ptr<context>& ctx,
                                                  std::span<const buffer> views);

/// Blocks until the last writes of the buffers have finished; the hand-over to a consumer on the CPU. Tokens as above.
void synchronize_handover(std::span<const buffer> views);

} // namespace saeta
