// Cuts a list of batches into windows: batches that are read at once.
//
// What      A window has as many whole spans of the list as fit into a number of bytes, or else a part of one
//           span. A compressed batch is cut only if it takes more than half of the budget: its decoders then
//           live as long as it is read. One with rows that may be anywhere (column_tree::undivided) is not
//           cut. If the list has windows itself, they are taken as they are.
// Owner     Shares the source. Keeps the decoders of the batches that the last window has parts of.
// Thread    One.
// Failure   error format with the batch, io; budget_exceeded for the decoders of a part.
#pragma once

#include "saeta/ipc/read/planned_source.hpp"
#include "saeta/ipc/read/whole_read.hpp"
#include "saeta/ipc/scan.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace saeta::ipc::detail {

/// Bytes that a compressed batch must have to be cut: decoders take up to a MiB for each buffer.
constexpr std::uint64_t least_divided(std::size_t compressed_buffers) noexcept {
  return (std::uint64_t{1} << 20) * compressed_buffers;
}

class window_cutter {
public:
  /// Where the next window begins: a span of the list, and a row of it.
  struct position {
    std::size_t span = 0;
    std::int64_t row = 0;
    std::size_t window = 0; ///< windows of the list before it
    friend bool operator==(const position&, const position&) = default;
    friend bool operator<(const position& a, const position& b) noexcept {
      return std::tie(a.span, a.row, a.window) < std::tie(b.span, b.row, b.window);
    }
  };

  /// @param decoding  is charged with the memory of decoders
  window_cutter(std::shared_ptr<const planned_source> from, scan_list list, std::shared_ptr<budget> decoding)
      : from_(std::move(from)), list_(std::move(list)), decoding_(std::move(decoding)) {}

  /// Returns the parsed batches of the next window, none at the end. Returns nullopt if a plan can't take the
  /// span at `at()`.
  /// @param bytes       that the rows may take in memory. One row may take more. Not for windows of the list.
  /// @param most_whole  bytes that a compressed batch may take without being cut
  std::optional<piece_table> next(std::uint64_t bytes, std::uint64_t most_whole);
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
  /// Frees the memory of decoders. The next part decodes its batch from the beginning again.
  void drop_decoders() noexcept { decoders_.clear(); }

private:
  [[nodiscard]] std::size_t expected_spans(std::uint64_t bytes) const noexcept;
  [[nodiscard]] std::optional<piece_table> parse(std::size_t count);
  /// The rows that are left of a batch.
  struct rest_of_batch {
    position at;
    std::int64_t rows = 0;
    std::uint64_t bytes = 0;
    bool compressed = false;
  };
  [[nodiscard]] std::optional<piece_table> part_of_batch(const rest_of_batch& rest, std::uint64_t bytes);
  void keep_decoders(piece_table& of);

  std::shared_ptr<const planned_source> from_;
  scan_list list_;
  std::shared_ptr<budget> decoding_;
  std::map<std::size_t, std::shared_ptr<batch_decoders>> decoders_; ///< by the order of their message
  std::optional<rest_of_batch> rest_; ///< of the compressed batch that the last window has a part of
  position at_;
  std::uint64_t average_ = 0; ///< bytes of a span; 0: not known yet
};

} // namespace saeta::ipc::detail
