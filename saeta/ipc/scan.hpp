// Reads a source window by window, some windows ahead of the consumer.
//
// What      A window is some consecutive batches, or a part of a huge one, that is read by one planned
//           transfer. The next window is planned and its first chunks are filled while the one before is on
//           its way. The consumer gets views into the columns of windows: batches as the source has them, or
//           of a number of rows.
// Owner     A window's memory lives as long as a view of it. The scan has at most `windows_ahead` windows
//           that the consumer has not begun. Dictionaries are in memory of their own, which windows with the
//           same dictionary share.
// Budget    A window that has no room is read again when it is requested, and is made smaller until it fits.
//           If even the smallest one does not, `next` throws budget_exceeded and can be repeated.
// Order     Columns are ready in stream order (memory/buffer.hpp).
// Thread    Any: each table goes to one of the threads that call `next`. Two threads of the scan read.
// Failure   An error is thrown by the `next` that would have returned its window, and the scan is then at its
//           end: format (with batch, column and row), io, device, out_of_memory. closed: after `close`.
#pragma once

#include "saeta/column/table.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace saeta::ipc {

namespace detail {
class planned_source;
}

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
  /// `reader::scan` makes it.
  scan(std::shared_ptr<context> ctx, std::shared_ptr<const detail::planned_source> from,
       const scan_options& options);
  scan(const scan&) = delete;
  scan& operator=(const scan&) = delete;
  /// Like `close`.
  ~scan();

  /// Returns the next rows as a table, or nullopt at the end.
  [[nodiscard]] std::optional<table> next();
  /// Ends reading within 50 ms. Tables that were returned stay valid.
  void close();

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace saeta::ipc
