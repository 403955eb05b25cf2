// Cuts a list of batches into windows: batches that are read at once.
//
// What      A window has as many whole spans of the list as fit into a number of bytes, or else a part of one
//           span. A compressed batch is not cut, because its buffers are decoded as a whole. If the list has
//           windows itself, they are taken as they are.
// Owner     Shares the source.
// Thread    One.
// Failure   error format with the batch, io.
#pragma once

#include "saeta/ipc/read/planned_source.hpp"
#include "saeta/ipc/read/whole_read.hpp"
#include "saeta/ipc/scan.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace saeta::ipc::detail {

class window_cutter {
public:
  /// Where the next window begins: a span of the list, and a row of it.
  struct position {
    std::size_t span = 0;
    std::int64_t row = 0;
    std::size_t window = 0; ///< windows of the list before it
  };

  window_cutter(std::shared_ptr<const planned_source> from, scan_list list)
      : from_(std::move(from)), list_(std::move(list)) {}

  /// Returns the parsed batches of the next window, none at the end. Returns nullopt if a plan can't take the
  /// span at `at()`.
  /// @param bytes  that the rows may take in memory. One row, or one compressed batch, may take more. Not for
  /// windows of the list.
  std::optional<piece_table> next(std::uint64_t bytes);
  [[nodiscard]] position at() const noexcept { return at_; }
  [[nodiscard]] bool at_end() const noexcept { return at_.span == list_.spans.size(); }
  /// Whether the list has windows itself.
  [[nodiscard]] bool has_windows() const noexcept { return !list_.window_ends.empty(); }
  /// Whether all spans are one window, if no compressed one is larger decoded. @param bytes  as for `next`
  [[nodiscard]] bool is_one(std::uint64_t bytes) const noexcept {
    return has_windows() ? list_.window_ends.size() == 1 : from_->body_bytes() <= bytes;
  }
  /// Returns, for example, "a.arrow: batch 3", for the span at `at()`.
  [[nodiscard]] std::string label() const {
    return from_->label_of(from_->message_of(list_.spans[at_.span]));
  }
  void go_to(position at) noexcept { at_ = at; }

private:
  [[nodiscard]] std::size_t expected_spans(std::uint64_t bytes) const noexcept;
  [[nodiscard]] std::optional<piece_table> parse(std::size_t count);
  [[nodiscard]] std::optional<piece_table> part_of_batch(piece_table whole, std::uint64_t bytes);

  std::shared_ptr<const planned_source> from_;
  scan_list list_;
  position at_;
  std::uint64_t average_ = 0; ///< bytes of a span; 0: not known yet
};

} // namespace saeta::ipc::detail
