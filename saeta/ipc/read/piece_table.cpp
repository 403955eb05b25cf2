#include "saeta/ipc/read/piece_table.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/column/column.hpp"
#include "saeta/device/equal_values.hpp"
#include "saeta/ipc/codec/codecs.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/transfer/host_array.hpp"

#include <algorithm>
#include <cstring>

namespace saeta::ipc::detail {
namespace {

/// Compressed bodies up to this size are read with one call, because the sizes of their buffers are spread
/// over the body.
constexpr std::int64_t small_body = 128 << 10;
/// The same for uncompressed bodies if offsets are read: reading so many bytes costs less than two reads.
constexpr std::int64_t small_plain_body = 8 << 10;
constexpr std::size_t most_messages_of_task = 64;
/// Parses messages one after the other.
class piece_reader {
public:
  piece_reader(piece_table& pieces, const scatter_source& source, bool assume)
      : pieces_(pieces), assume_(assume), tree_(*pieces.tree), metadata_(source), values_(source),
        decoder_(source), reads_offsets_(std::ranges::any_of(tree_.nodes, [](const tree_node& node) {
          return node.type->offset_width() != 0 || node.type->mapping() == row_mapping::run_ends;
        })) {}

  /// Returns false if a plan can't take the message.
  bool read(std::size_t piece) {
    try {
      return parse(piece);
    } catch (const error& failure) {
      rethrow_input(failure, pieces_.place(piece));
    }
  }

private:
  bool parse(std::size_t piece) {
    const planned_message& message = pieces_.messages[piece];
    const auto layout = read_batch_message(metadata_, message, tree_);
    if (!layout) {
      return false;
    }
    codec_ = layout->codec;
    decoders_ =
        pieces_.decoders.empty() || codec_ == body_codec::none ? nullptr : pieces_.decoders[piece].get();
    body_ = message.body;
    body_bytes_ = layout->body_bytes;
    pieces_.body_bytes[piece] = static_cast<std::uint64_t>(body_bytes_);
    nodes_ = layout->nodes;
    buffers_ = layout->buffers;
    // As in libarrow: the number of values of a dictionary is that of its field node.
    rows_ = tree_.root_label.empty() ? layout->rows : nodes_[0].length;
    if (message.first_row > rows_ || (message.rows > rows_ - message.first_row)) {
      throw error(errc::format,
                  concat("a record batch of ", rows_, " rows, which had ",
                         message.first_row + std::max<std::int64_t>(message.rows, 0), " before"));
    }
    pieces_.batch_rows[piece] = rows_;
    pieces_.rows[piece] = message.rows < 0 ? rows_ - message.first_row : message.rows;
    node_buffers_.emplace(*layout);
    pieces_.kept_bytes[piece] = 0;
    packed_ = &pieces_.packed[piece];
    packed_->clear();
    decoding_ = scatter_source::nowhere;
    const bool plain = codec_ == body_codec::none;
    if (plain ? reads_offsets_ && body_bytes_ <= small_plain_body : body_bytes_ <= small_body) {
      static_cast<void>(values_.read(body_, static_cast<std::size_t>(body_bytes_)));
    }
    for (std::size_t node = 0; node < tree_.nodes.size(); ++node) {
      try {
        node_ = node;
        take(piece, node);
      } catch (const error& failure) {
        rethrow(failure, tree_.label(node));
      }
    }
    pieces_.read_bytes[piece] = codec_ == body_codec::none ? pieces_.body_bytes[piece] : packed_bytes();
    return true;
  }

  [[nodiscard]] std::uint64_t packed_bytes() const {
    std::uint64_t sum = 0;
    for (const packed_buffer& buffer : *packed_) {
      sum = checked_add(sum, buffer.bytes, "decoded bytes");
    }
    return sum;
  }

  /// Position and size of a buffer, decoded if it is compressed.
  struct taken_buffer {
    std::uint64_t at = 0;
    std::int64_t bytes = 0;
  };

  /// Returns a buffer. @throws error format if it has fewer than `needed` bytes.
  taken_buffer place(std::size_t number, std::size_t needed, std::string_view name) {
    const buffer_place place = buffers_[number];
    const std::uint64_t at = body_ + (place.length == 0 ? 0 : static_cast<std::uint64_t>(place.offset));
    const taken_buffer taken =
        codec_ == body_codec::none ? taken_buffer{at, place.length} : unpacked(number, at, place.length);
    require_bytes(number, static_cast<std::uint64_t>(taken.bytes), needed, name);
    return taken;
  }

  /// @param at  position of the buffer in the source
  packed_claim claim_of(std::size_t number, std::uint64_t at, std::int64_t length) {
    const auto read = [&] {
      return read_claim(
          number, codec_, static_cast<std::uint64_t>(length),
          [&](std::uint64_t from, std::size_t bytes) { return values_.read(at + from, bytes); });
    };
    return decoders_ == nullptr ? read() : decoders_->claim(number, read);
  }

  taken_buffer unpacked(std::size_t number, std::uint64_t at, std::int64_t length) {
    constexpr std::uint64_t alignment = 64;
    if (length == 0) {
      return {};
    }
    const packed_claim claimed = claim_of(number, at, length);
    packed_buffer buffer;
    buffer.source = at + static_cast<std::uint64_t>(length) - claimed.packed_bytes;
    buffer.packed_bytes = claimed.packed_bytes;
    buffer.codec = claimed.codec;
    buffer.bytes = claimed.bytes;
    buffer.node = node_;
    if (!packed_->empty()) {
      const std::uint64_t end = checked_add(packed_->back().at, packed_->back().bytes, "decoded bytes");
      const std::uint64_t far = checked_add(end, scatter_source::ordered_gap + alignment, "decoded bytes");
      buffer.at = far / alignment * alignment;
    }
    if (decoders_ != nullptr) {
      buffer.part = &decoders_->at(number, buffer);
    }
    packed_->push_back(buffer);
    return {buffer.at, checked_cast<std::int64_t>(buffer.bytes, "decoded bytes")};
  }

  /// Sets the rows of a node that the rows of its parent refer to, or all of its rows if these are unknown.
  void name_rows(std::size_t piece, const tree_node& node, const field_node& said, piece_span& span) const {
    if (node.parent == no_node) {
      if (said.length != rows_) {
        throw error(errc::format, concat(said.length, " rows in a record batch of ", rows_));
      }
      span.first = pieces_.messages[piece].first_row;
      span.rows = pieces_.rows[piece];
      return;
    }
    const tree_node& above = tree_.nodes[node.parent];
    const piece_span& parent = pieces_.span(piece, node.parent);
    const child_rows used = select_child_rows(*above.type, parent.first, parent.rows,
                                              {parent.pointed_first, parent.pointed}, said.length);
    span.first = used.first;
    span.rows = used.count;
    if (span.first > said.length || span.rows > said.length - span.first) {
      throw error(errc::format, concat(said.length, " rows, its parent refers to ",
                                       checked_add(span.first, span.rows, "rows of a child")));
    }
  }

  void take(std::size_t piece, std::size_t number) {
    const tree_node& node = tree_.nodes[number];
    const data_type& type = *node.type;
    const field_node said = nodes_[node.row];
    piece_span& span = pieces_.span(piece, number);
    span = {};
    name_rows(piece, node, said, span);
    if (span.rows != said.length) {
      require_all_rows(node, said);
    }
    if (span.rows == 0) {
      return;
    }
    const std::int64_t end = span.first + span.rows; // at most the node's length
    span.nulls = type.has_validity() ? nulls_of_part(said.null_count, said.length, span.rows) : 0;
    const auto [first, count] = node_buffers_->next(node);
    taken_buffer last;
    for (std::size_t i = 0; i < type.buffer_count(); ++i) {
      const buffer_spec spec = type.buffer(i);
      if (spec.role == buffer_role::validity && span.nulls == 0) {
        continue;
      }
      const std::size_t needed = required_bytes(type, i, end);
      last = place(first + i, needed, spec.name);
      span.at[i] = last.at;
      pieces_.kept_bytes[piece] += span.first == 0 ? needed : required_bytes(type, i, span.rows);
    }
    if (type.offset_width() != 0) {
      read_offsets(type, span, said,
                   type.children().empty() ? last.bytes : nodes_[tree_.nodes[number + 1].row].length);
      pieces_.kept_bytes[piece] += type.children().empty() ? static_cast<std::uint64_t>(span.pointed) : 0;
    } else if (type.mapping() == row_mapping::run_ends) {
      read_runs(number, span);
    } else if (type.has_variadic_buffers()) {
      take_variadic(piece, first + type.buffer_count(), count - type.buffer_count(), span);
    }
  }

  /// Checks that the buffers are large enough for all rows that the message claims, also for those that are
  /// not read.
  void require_all_rows(const tree_node& node, const field_node& said) {
    const data_type& type = *node.type;
    for (std::size_t i = 0; i < type.buffer_count(); ++i) {
      const buffer_spec spec = type.buffer(i);
      const std::size_t number = node_buffers_->next(node).first + i;
      const std::size_t needed = required_bytes(type, i, said.length);
      if (needed == 0 || (spec.role == buffer_role::validity && said.null_count == 0)) {
        continue;
      }
      const buffer_place place = buffers_[number];
      const bool plain = codec_ == body_codec::none || place.length == 0;
      const std::uint64_t bytes =
          plain ? static_cast<std::uint64_t>(place.length)
                : claim_of(number, body_ + static_cast<std::uint64_t>(place.offset), place.length).bytes;
      require_bytes(number, bytes, needed, spec.name);
    }
  }

  [[nodiscard]] std::int64_t value(std::uint64_t at, std::size_t width, std::int64_t index) {
    const std::uint64_t position = at + static_cast<std::uint64_t>(index) * width;
    if (codec_ == body_codec::none) {
      return read_offset(values_.read(position, width).data(), width, 0);
    }
    if (at != decoding_ || position - at < decoder_.position()) {
      decoding_ = at;
      decoder_.begin(*std::ranges::find(*packed_, at, &packed_buffer::at));
    }
    std::array<std::byte, sizeof(std::int64_t)> bytes{};
    decoder_.skip(position - at - decoder_.position());
    decoder_.read(std::span(bytes).first(width));
    return read_offset(bytes.data(), width, 0);
  }

  void read_offsets(const data_type& type, piece_span& span, const field_node& said, std::int64_t limit) {
    const std::size_t width = type.offset_width();
    const bool bytes = type.children().empty();
    span.pointed = limit;
    if (decoders_ != nullptr) {
      packed_buffer offsets = *std::ranges::find(*packed_, span.at[1], &packed_buffer::at);
      offsets.width = static_cast<std::uint8_t>(width);
      offsets.first_at = static_cast<std::uint64_t>(span.first) * width;
      offsets.last_at = static_cast<std::uint64_t>(span.first + span.rows) * width;
      const seen_borders seen = offsets.part->borders(offsets);
      return name_pointed(type, span, seen.first, seen.last);
    }
    if (codec_ != body_codec::none && (bytes || (assume_ && span.first == 0 && span.rows == said.length))) {
      packed_buffer& offsets = *std::ranges::find(*packed_, span.at[1], &packed_buffer::at);
      offsets.width = static_cast<std::uint8_t>(width);
      offsets.first_at = static_cast<std::uint64_t>(span.first) * width;
      offsets.last_at = static_cast<std::uint64_t>(span.first + span.rows) * width;
      offsets.assumed = bytes ? -1 : limit;
      span.deferred = bytes;
      return;
    }
    const std::int64_t begin = value(span.at[1], width, span.first);
    name_pointed(type, span, begin, value(span.at[1], width, span.first + span.rows));
  }

  /// Finds the runs that contain the rows.
  void read_runs(std::size_t number, piece_span& span) {
    const tree_node& ends = tree_.nodes[number + 1];
    const field_node said = nodes_[ends.row];
    const field_node values = nodes_[tree_.nodes[ends.end].row];
    if (said.length != values.length || said.null_count > 0) {
      throw error(errc::format, concat(said.length, " run ends with null_count ", said.null_count, " and ",
                                       values.length, " values"));
    }
    const auto width = static_cast<std::size_t>(ends.type->byte_width());
    const taken_buffer buffer =
        place(node_buffers_->next(ends).first + 1, required_bytes(*ends.type, 1, said.length), "run ends");
    const auto first_above = [&](std::int64_t row) {
      if (codec_ != body_codec::none) { // a linear search decodes the run ends only once
        std::int64_t run = 0;
        while (run < said.length && value(buffer.at, width, run) <= row) {
          ++run;
        }
        return run;
      }
      return first_index(said.length, [&](std::int64_t run) { return value(buffer.at, width, run) > row; });
    };
    const std::int64_t last = span.first + span.rows - 1;
    span.pointed_first = span.first == 0 ? 0 : first_above(span.first);
    const std::int64_t run = first_above(last);
    if (run == said.length || run < span.pointed_first) {
      throw error(errc::format, concat("its ", said.length, " run ends do not reach row ", last));
    }
    span.pointed = run - span.pointed_first + 1;
  }

  void take_variadic(std::size_t piece, std::size_t first, std::size_t count, piece_span& span) {
    auto& list = pieces_.variadic[piece];
    span.variadic = list.size();
    span.variadic_count = count;
    for (std::size_t i = 0; i < count; ++i) {
      const taken_buffer buffer = place(first + i, 0, "bytes");
      list.push_back({buffer.at, static_cast<std::uint64_t>(buffer.bytes)});
      pieces_.kept_bytes[piece] += list.back().bytes;
    }
  }

  piece_table& pieces_;
  bool assume_;
  const column_tree& tree_;
  source_window metadata_;
  source_window values_;
  buffer_decoder decoder_;
  bool reads_offsets_;
  // State of the current message:
  std::size_t node_ = 0;
  body_codec codec_ = body_codec::none;
  batch_decoders* decoders_ = nullptr; ///< null if all rows are read, or nothing is compressed
  std::vector<packed_buffer>* packed_ = nullptr;
  std::uint64_t decoding_ = scatter_source::nowhere; ///< position of the buffer being decoded
  std::uint64_t body_ = 0;
  std::int64_t body_bytes_ = 0;
  std::int64_t rows_ = 0;
  flat_structs<field_node> nodes_;
  flat_structs<buffer_place> buffers_;
  std::optional<node_buffers> node_buffers_;
};

} // namespace

void name_pointed(const data_type& type, piece_span& span, std::int64_t first, std::int64_t last) {
  const child_rows pointed = pointed_by(first, last, span.pointed, type);
  span.pointed_first = pointed.first;
  span.pointed = pointed.count;
}

void piece_table::shorten(std::size_t count) {
  messages.resize(count);
  resize_lists();
}

void piece_table::resize_lists() {
  const std::size_t count = messages.size();
  decoders.resize(decoders.empty() ? 0 : count);
  rows.resize(count);
  batch_rows.resize(count);
  body_bytes.resize(count);
  spans.resize(checked_mul(count, tree->nodes.size(), "pieces of columns"));
  variadic.resize(tree->views == 0 ? 0 : count);
  packed.resize(count);
  read_bytes.resize(count);
  kept_bytes.resize(count);
}

bool read_pieces(piece_table& pieces, const scatter_source& source, bool assume,
                 const task_runner& run_in_parallel) {
  const std::size_t count = pieces.messages.size();
  pieces.resize_lists();
  std::atomic<bool> planned{true};
  // Compressed offsets are decoded here, so a task is worthwhile even for a few messages.
  const std::size_t messages =
      std::clamp<std::size_t>(count / most_messages_of_task, 1, most_messages_of_task);
  run_in_parallel((count + messages - 1) / messages, [&](std::size_t task) {
    piece_reader reader(pieces, source, assume);
    const std::size_t end = std::min(count, (task + 1) * messages);
    for (std::size_t piece = task * messages; piece < end && planned; ++piece) {
      if (!reader.read(piece)) {
        planned = false;
      }
    }
  });
  return planned;
}

namespace {

/// The most rows or values that the 32-bit offsets or the short run ends of a node can count.
struct node_limit {
  std::size_t node = 0;
  bool pointed = false; ///< limits what the rows point to, not the rows
  std::int64_t most = 0;
};

std::vector<node_limit> limits_of(const column_tree& tree) {
  std::vector<node_limit> limits;
  for (std::size_t number = 0; number < tree.nodes.size(); ++number) {
    const tree_node& node = tree.nodes[number];
    const counted_limit limit = limit_of(*node.type);
    switch (limit.what) {
    case counted_rows::nothing:
      break;
    case counted_rows::own:
    case counted_rows::pointed:
      limits.push_back({number, limit.what == counted_rows::pointed, limit.most});
      break;
    case counted_rows::of_children:
      for (std::size_t child = number + 1; child != node.end; child = tree.nodes[child].end) {
        limits.push_back({child, false, limit.most});
      }
      break;
    }
  }
  return limits;
}

} // namespace

std::vector<piece_group> take_groups(piece_table& pieces, const std::function<bool(std::size_t piece)>& cut) {
  const std::size_t nodes = pieces.tree->nodes.size();
  const std::vector<node_limit> limits = limits_of(*pieces.tree);
  std::vector<piece_group> groups;
  for (std::size_t piece = 0; piece < pieces.messages.size(); ++piece) {
    bool fresh = groups.empty() || cut(piece);
    for (const node_limit& limit : limits) {
      if (fresh) {
        break;
      }
      const piece_span& added = pieces.span(piece, limit.node);
      const node_sums& sums = groups.back().sums[limit.node];
      const std::int64_t known = limit.pointed ? sums.pointed : sums.rows;
      fresh = (limit.pointed ? added.pointed : added.rows) > limit.most - known;
    }
    if (fresh) {
      groups.push_back({piece, piece, std::vector<node_sums>(nodes)});
    }
    piece_group& group = groups.back();
    group.end = piece + 1;
    for (std::size_t node = 0; node < nodes; ++node) {
      piece_span& span = pieces.span(piece, node);
      node_sums& sums = group.sums[node];
      span.row_base = sums.rows;
      span.pointed_base = sums.pointed;
      sums.rows = checked_add(span.row_base, span.rows, "rows of a column");
      sums.pointed = checked_add(span.pointed_base, span.pointed, "bytes of a column");
      sums.counts_nulls = sums.counts_nulls || span.nulls != 0;
    }
  }
  return groups;
}

} // namespace saeta::ipc::detail
