// Reads a source window by window, some windows ahead of the consumer.
//
// @code
// data_set year(std::move(readers)); // owns the readers
// if (const std::unique_ptr<scan> windows = year.scan_windows(ctx, {.batch_rows = 65'536})) {
//   while (const std::optional<table> part = windows->next()) { // at most 65,536 rows
//     launch(ctx->work_stream(), *part); // ordered behind the transfer; the next windows are read meanwhile
//   }
// } // null: these sources are read by `data_set::next`
// @endcode
//
// What      A window is some batches, or a part of a huge one, that is read by one planned transfer. The next
//           window is planned and its first chunks are filled while the one before is on its way. The
//           consumer gets views into the columns of windows: batches as the source has them, or of a number
//           of rows. Where the caller gives the windows, it gets each one as a table.
// Owner     A window's memory lives as long as a view of it. The scan has at most `windows_ahead` windows
//           that the consumer has not begun. Dictionaries are in memory of their own, which windows with the
//           same dictionary share.
//           A window of the caller can have its rows in a permuted order. The host permutes them ahead, a
//           device when the window is requested, so that its work stream never waits for a later window.
// Budget    A window that has no room is read again when it is requested, and is made smaller until it fits,
//           unless the caller gave it. If it does not fit, `next` throws budget_exceeded and can be repeated.
//           If there is no room to put a window in order, those read ahead are dropped and read again.
// Order     Columns are ready in stream order (memory/buffer.hpp).
// Thread    Any: each table goes to one of the threads that call `next`. Two threads of the scan read
//           ahead, if there is more than one window.
// Failure   An error is thrown by the `next` that would have returned its window, and the scan is then at its
//           end: format (with batch, column and row), io, device, out_of_memory. closed: after `close`, and
//           in a child of fork.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"
#include "saeta/device/permutation.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace SAETA_EXPORT saeta {
namespace ipc {

namespace detail {
class planned_source;
}

/// Rows of one batch of the sources. Batches are numbered through all of them.
struct batch_span {
  std::size_t batch = 0;
  std::int64_t first_row = 0;
  std::int64_t rows = -1; ///< -1: all that follow
};

/// Rows of a window, as `take_permuted` takes them.
struct window_order {
  std::uint64_t key = 0;
  lane_batches batches;
};

/// The rows to read, in this order. A batch may occur several times.
struct scan_list {
  std::vector<batch_span> spans;
  /// Where each window ends, as an index into `spans`. None: windows are cut by their bytes.
  std::vector<std::size_t> window_ends;
  /// The order of the rows of each of these windows. None: as they are read.
  std::vector<window_order> orders;
};

struct scan_options {
  /// Bytes of a window. At most a part of the context's budget, so that all windows have room.
  std::uint64_t window_bytes = 128u << 20;
  /// Windows that are read ahead.
  std::size_t windows_ahead = 2;
  /// Rows of each table; the last one may have fewer. 0: batches as the source has them.
  std::int64_t batch_rows = 0;
};

class scan {
public:
  /// `data_set` and `reader` make it.
  scan(std::shared_ptr<context> ctx, std::shared_ptr<const detail::planned_source> from, scan_list list,
       const scan_options& options);
  scan(const scan&) = delete;
  scan& operator=(const scan&) = delete;
  /// Like `close`.
  ~scan();

  /// Returns the next rows as a table, or nullopt at the end.
  [[nodiscard]] std::optional<table> next();
  /// @throws error closed: also where `next` has returned nullopt, or an error that ends the scan.
  void require_more() const;
  /// Ends reading within 50 ms. Tables that were returned stay valid.
  void close();

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace ipc
} // namespace saeta
