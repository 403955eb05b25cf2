// Bodies that leave the device compressed. Private to spill/.
//
// What      A body is cut into windows of some MiB. Kernels compress one window (device/compression.hpp) while
//           the ones before it travel. A window that would not get smaller by a sixth travels as it is. A
//           body whose sample does not get smaller travels as one without compression.
// Owner     The handles whose tables may be compressed share the compressor of their device, and so its three
//           windows of device memory, charged to the device's budget. A body outside of the device keeps the
//           plan of its windows.
// Order     Compressing returns when the last window has been queued for its tier, as tiers do it. A restored
//           body is ready on the work stream.
// Thread    Any. One body at a time is compressed; another one that has to leave meanwhile travels as it is,
//           because room is needed now.
// Failure   As of the tiers. A window from a file that was damaged: io.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/device/compression.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/spill/spilled_body.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace saeta {

/// Bytes that are compressed by one kernel.
struct compressed_window {
  std::size_t first = 0; ///< byte of the body
  std::size_t bytes = 0;
  std::vector<word_run> runs; ///< from `first` on
  std::int64_t blocks = 0;
};

/// How a body is cut.
struct compression_plan {
  std::size_t bytes = 0; ///< of the body
  std::vector<compressed_window> windows;
  compressed_window sample; ///< some blocks of every run; none if the body is one window
};

class compressor : public std::enable_shared_from_this<compressor> {
public:
  /// @throws error budget_exceeded, out_of_memory: no room for the windows.
  explicit compressor(const std::shared_ptr<context>& root);
  compressor(const compressor&) = delete;
  compressor& operator=(const compressor&) = delete;
  ~compressor();

  /// @param of  the table of the packed body
  [[nodiscard]] compression_plan plan(const table& of, const buffer& body) const;

  using store = std::function<spilled_pointer(const buffer& bytes)>;
  /// Compresses a body and stores its windows. Null: it does not pay, or another body is being compressed.
  /// @param pays  whether the sample got smaller, if that is known; set by the first call that asks
  [[nodiscard]] spilled_pointer compress(const std::shared_ptr<context>& ctx, const buffer& body,
                                         const std::shared_ptr<const compression_plan>& plan,
                                         std::optional<bool>& pays, const store& keep);

  [[nodiscard]] stream_ref stream() const noexcept { return stream_.ref(); }

private:
  struct slot {
    buffer memory;
    std::size_t data = 0; ///< where the headers begin, behind the count of units and the runs
  };

  [[nodiscard]] slot make_slot() const;
  void begin(context& ctx, const buffer& body, const compressed_window& window, slot& into);
  /// Waits for the kernel. Returns the compressed bytes, or an absent buffer if they are not worth it.
  [[nodiscard]] buffer end(context& ctx, const compressed_window& window, const slot& from) const;

  std::shared_ptr<context> root_;
  saeta::stream stream_;
  std::size_t window_bytes_;
  std::size_t most_runs_; ///< of a window
  std::array<slot, 3> slots_;
  std::atomic<bool> busy_{false};
};

} // namespace saeta
