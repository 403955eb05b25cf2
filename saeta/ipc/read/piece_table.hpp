// The record batches of a source (pieces), with the rows that each piece adds to every node of a tree.
//
// What      `read_pieces` parses the messages in several threads and checks every number in them. From the
//           bodies it reads only the offsets and run ends that give the number of bytes, rows or runs.
//           `take_groups` joins pieces into groups; each group becomes one column.
// Failure   error format with the batch, the column and the numbers.
#pragma once

#include "saeta/compute/slab_plan.hpp"
#include "saeta/ipc/codec/decoded_buffers.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/read/planned_source.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

/// The rows of a node in one message. `at` are positions in the source or in its decoded ranges.
struct piece_span : piece_rows {
  std::int64_t nulls = 0; ///< column::unknown_nulls if they have to be counted
  bool deferred =
      false; ///< the byte range is known only after the offsets are decoded; until then all bytes count
  std::size_t variadic = 0; ///< index of its first variadic buffer in the list of its message
  std::size_t variadic_count = 0;
};

/// A variadic buffer of a view column.
struct variadic_buffer {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
};

struct piece_table {
  const column_tree* tree = nullptr;
  std::vector<planned_message> messages;
  /// The decoders of each message whose batch is compressed and read in parts; null for others. Empty: there
  /// are none.
  std::vector<std::shared_ptr<batch_decoders>> decoders;
  std::function<std::string(const planned_message& message)> label; ///< for errors
  std::vector<std::int64_t> rows;                                   ///< that are read of each message
  std::vector<std::int64_t> batch_rows;                             ///< that each one has
  std::vector<std::uint64_t> body_bytes;                            ///< of each message
  std::vector<piece_span> spans;                                    ///< message by message, node by node
  std::vector<std::vector<variadic_buffer>> variadic; ///< of each message; empty if the tree has no views
  /// The compressed buffers that are read of each message. Their positions, and those of the message's spans
  /// and variadic buffers, count from 0 until packed_bodies::place assigns the final ones.
  std::vector<std::vector<packed_buffer>> packed;
  std::vector<std::uint64_t> read_bytes; ///< decoded bytes that are read of each message
  std::vector<std::uint64_t>
      kept_bytes; ///< bytes that the rows of each message take in a slab, without padding

  /// Returns the label of a piece.
  [[nodiscard]] std::string place(std::size_t piece) const { return label(messages[piece]); }
  /// Makes the lists as long as `messages`.
  void resize_lists();
  /// Keeps the first `count` pieces.
  void shorten(std::size_t count);
  [[nodiscard]] piece_span& span(std::size_t piece, std::size_t node) {
    return spans[piece * tree->nodes.size() + node];
  }
  [[nodiscard]] const piece_span& span(std::size_t piece, std::size_t node) const {
    return spans[piece * tree->nodes.size() + node];
  }
};

/// Sets the range that the rows refer to from their first and last offset.
/// @param span  its `pointed` is the number of bytes or values that exist.
/// @throws error format if the offsets exceed it.
void name_pointed(const data_type& type, piece_span& span, std::int64_t first, std::int64_t last);

/// Runs `work` for tasks [0, tasks), possibly in several threads.
using task_runner = std::function<void(std::size_t tasks, const std::function<void(std::size_t task)>& work)>;

/// Fills the table from its messages. Returns false if a plan can't take one of them.
/// @param assume  whether to assume that compressed list offsets begin with 0 and end with the length of the
/// values, as writers write them. They are not decoded here; packed_bodies::matches_assumption checks them
/// later.
/// Compressed offsets of bytes are decoded here only for messages with decoders (`late`).
bool read_pieces(piece_table& pieces, const scatter_source& source, bool assume,
                 const task_runner& run_in_parallel);

/// Sums of the pieces of a group for one node.
struct node_sums {
  std::int64_t rows = 0;
  std::int64_t pointed = 0;
  bool counts_nulls = false; ///< a piece has nulls, or an unknown number of them
};

/// Pieces [first, end).
struct piece_group {
  std::size_t first = 0;
  std::size_t end = 0;
  std::vector<node_sums> sums; ///< of each node
};

/// Joins consecutive pieces into groups, each as large as 32-bit offsets and run ends allow.
/// @param cut  returns whether a piece must begin a new group.
std::vector<piece_group> take_groups(piece_table& pieces, const std::function<bool(std::size_t piece)>& cut);

} // namespace saeta::ipc::detail
