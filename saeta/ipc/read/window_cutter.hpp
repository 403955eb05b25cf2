// Cuts the batches of a source into windows: consecutive batches that are read at once.
//
// What      A window has as many whole batches as fit into a number of bytes, or else a part of one batch. A
//           compressed batch is not cut, because its buffers are decoded as a whole.
// Owner     Shares the source.
// Thread    One.
// Failure   error format with the batch, io.
#pragma once

#include "saeta/ipc/read/planned_source.hpp"
#include "saeta/ipc/read/whole_read.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace saeta::ipc::detail {

class window_cutter {
public:
  /// Where the next window begins: a batch of the source, and a row of it.
  struct position {
    std::size_t batch = 0;
    std::int64_t row = 0;
  };

  explicit window_cutter(std::shared_ptr<const planned_source> from) : from_(std::move(from)) {}

  /// Returns the parsed batches of the next window, none at the end. Returns nullopt if a plan can't take the
  /// batch at `at()`.
  /// @param bytes  that the rows may take in memory. One row, or one compressed batch, may take more.
  std::optional<piece_table> next(std::uint64_t bytes);
  [[nodiscard]] position at() const noexcept { return at_; }
  [[nodiscard]] bool at_end() const noexcept { return at_.batch == from_->batches().size(); }
  void go_to(position at) noexcept { at_ = at; }

private:
  [[nodiscard]] std::size_t expected_batches(std::uint64_t bytes) const noexcept;
  [[nodiscard]] std::optional<piece_table> parse(std::size_t count);
  [[nodiscard]] std::optional<piece_table> part_of_batch(piece_table whole, std::uint64_t bytes);

  std::shared_ptr<const planned_source> from_;
  position at_;
  std::uint64_t average_ = 0; ///< bytes of a batch; 0: not known yet
};

} // namespace saeta::ipc::detail
