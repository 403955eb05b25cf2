#include "saeta/ipc/read/window_cutter.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace saeta::ipc::detail {
namespace {

/// Spans that are parsed at once. A window of more of them would gain nothing.
constexpr std::size_t most_spans = 4096;
/// Parts begin at multiples of this row of a batch where they can, so that bitmaps are copied by bytes.
constexpr std::int64_t even_rows = 64;

} // namespace

std::optional<piece_table> window_cutter::next(std::uint64_t bytes) {
  if (at_end()) {
    return piece_table();
  }
  if (has_windows()) {
    const std::size_t end = list_.window_ends[at_.window];
    std::optional<piece_table> window = parse(end - at_.span);
    at_ = window ? position{end, 0, at_.window + 1} : at_;
    return window;
  }
  if (average_ == 0 && !parse(1)) {
    return std::nullopt;
  }
  std::optional<piece_table> table = parse(expected_spans(bytes));
  if (!table) { // perhaps only a later batch
    table = parse(1);
  }
  if (!table) {
    return std::nullopt;
  }
  std::size_t fitting = 0;
  for (std::uint64_t sum = 0; fitting != table->messages.size(); ++fitting) {
    const std::uint64_t added = table->kept_bytes[fitting];
    if (added > bytes - sum) {
      break;
    }
    sum += added;
  }
  if (fitting == 0) {
    table->shorten(1);
    if (table->packed.front().empty() && table->rows.front() > 1) {
      return part_of_batch(std::move(*table), bytes);
    }
    fitting = 1;
  }
  table->shorten(fitting);
  at_ = {at_.span + fitting, 0};
  return table;
}

std::size_t window_cutter::expected_spans(std::uint64_t bytes) const noexcept {
  const std::size_t left = std::min(most_spans, list_.spans.size() - at_.span);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(bytes / average_ + 1, 1, left));
}

/// Parses the next spans without moving on. Returns nullopt if a plan can't take one of them.
std::optional<piece_table> window_cutter::parse(std::size_t count) {
  std::vector<planned_message> messages = from_->messages_of(std::span(list_.spans).subspan(at_.span, count));
  planned_message& front = messages.front();
  front.first_row += at_.row;
  front.rows -= front.rows < 0 ? 0 : at_.row;
  piece_table table = batches_of(*from_, std::move(messages));
  if (!read_pieces(table, from_->bytes(), true, run_here)) {
    return std::nullopt;
  }
  const std::uint64_t sum =
      std::accumulate(table.kept_bytes.begin(), table.kept_bytes.end(), std::uint64_t{0});
  average_ = std::max<std::uint64_t>(sum / count, 1);
  return table;
}

/// Takes as many rows as fit if all rows have as many bytes, and fewer if these have twice as much.
std::optional<piece_table> window_cutter::part_of_batch(piece_table whole, std::uint64_t bytes) {
  planned_message& message = whole.messages.front();
  const std::int64_t all = whole.rows.front();
  const double share = static_cast<double>(bytes) / static_cast<double>(whole.kept_bytes.front());
  message.rows =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(all) * share), 1, all);
  while (true) {
    if (message.rows > even_rows) {
      message.rows -= message.rows % even_rows;
    }
    if (!read_pieces(whole, from_->bytes(), true, run_here)) {
      return std::nullopt;
    }
    if (whole.kept_bytes.front() / 2 <= bytes || message.rows == 1) {
      break;
    }
    message.rows /= 2;
  }
  const bool last = message.rows == all;
  at_ = last ? position{at_.span + 1, 0} : position{at_.span, at_.row + message.rows};
  return whole;
}

} // namespace saeta::ipc::detail
