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

std::optional<piece_table> window_cutter::next(std::uint64_t bytes, std::uint64_t most_whole) {
  if (at_end()) {
    return piece_table();
  }
  if (has_windows()) {
    const std::size_t end = list_.window_ends[at_.window];
    std::optional<piece_table> window = parse(end - at_.span);
    at_ = window ? position{end, 0, at_.window + 1} : at_;
    return window;
  }
  if (rest_ && rest_->at == at_) { // the offsets of all of these rows would be decoded
    return part_of_batch(rest_of_batch(*rest_), bytes);
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
    const std::size_t compressed = table->packed.front().size();
    const rest_of_batch rest{at_, table->rows.front(), table->kept_bytes.front(), compressed != 0};
    const std::uint64_t most = std::max(most_whole, least_divided(compressed));
    const bool whole = compressed != 0 && (rest.bytes <= most || !from_->tree().undivided().empty());
    if (!whole && rest.rows > 1) {
      return part_of_batch(rest, bytes);
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
  if (has_windows()) {
    keep_decoders(table);
  }
  if (!read_pieces(table, from_->bytes(), true, run_here)) {
    return std::nullopt;
  }
  if (std::ranges::all_of(table.packed, &std::vector<packed_buffer>::empty)) {
    table.decoders.clear(); // nothing is compressed
  }
  const std::uint64_t sum =
      std::accumulate(table.kept_bytes.begin(), table.kept_bytes.end(), std::uint64_t{0});
  average_ = std::max<std::uint64_t>(sum / count, 1);
  return table;
}

/// Gives the parts of batches their decoders, those of the window before where it had parts of the same ones.
void window_cutter::keep_decoders(piece_table& of) {
  std::map<std::size_t, std::shared_ptr<batch_decoders>> kept;
  of.decoders.resize(of.messages.size());
  for (std::size_t piece = 0; piece < of.messages.size(); ++piece) {
    const planned_message& message = of.messages[piece];
    if (message.first_row == 0 && message.rows < 0) {
      continue;
    }
    std::shared_ptr<batch_decoders>& decoders = kept[message.order];
    const auto before = decoders_.find(message.order);
    if (decoders == nullptr) {
      decoders = before != decoders_.end() ? before->second
                                           : std::make_shared<batch_decoders>(from_->bytes(), decoding_);
    }
    of.decoders[piece] = decoders;
  }
  decoders_ = std::move(kept);
}

/// Takes as many rows as fit if all rows have as many bytes, and fewer if these have twice as much.
std::optional<piece_table> window_cutter::part_of_batch(const rest_of_batch& rest, std::uint64_t bytes) {
  piece_table part = batches_of(*from_, {from_->message_of(list_.spans[at_.span])});
  planned_message& message = part.messages.front();
  message.first_row += at_.row;
  if (rest.compressed) {
    bytes /= 2; // the decoders need room, too
  }
  const double share =
      static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(rest.bytes, 1));
  const double fitting = static_cast<double>(rest.rows) * std::min(share, 1.0);
  message.rows = std::clamp<std::int64_t>(static_cast<std::int64_t>(fitting), 1, rest.rows);
  if (rest.compressed) {
    keep_decoders(part);
  }
  while (true) {
    if (message.rows > even_rows && message.rows != rest.rows) {
      message.rows -= message.rows % even_rows;
    }
    if (!read_pieces(part, from_->bytes(), true, run_here)) {
      return std::nullopt;
    }
    if (part.kept_bytes.front() / 2 <= bytes || message.rows == 1) {
      break;
    }
    message.rows /= 2;
  }
  const bool last = message.rows == rest.rows;
  at_ = last ? position{at_.span + 1, 0} : position{at_.span, at_.row + message.rows};
  rest_ = std::nullopt;
  if (rest.compressed && !last) {
    rest_ = {at_, rest.rows - message.rows, rest.bytes - std::min(part.kept_bytes.front(), rest.bytes), true};
  }
  return part;
}

} // namespace saeta::ipc::detail
