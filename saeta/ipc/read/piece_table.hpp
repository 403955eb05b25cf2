// The record batches of a source by column: what each brings to every node of a tree.
//
// What      `read_pieces` parses the messages by several threads, checks every number in them, and reads from
//           the source only what says how many bytes, rows or runs offsets and run ends name. `take_groups`
//           counts pieces together into groups that become one column each.
// Failure   error format naming the batch, the column and the numbers.
#pragma once

#include "saeta/compute/piece_rows.hpp"
#include "saeta/ipc/codec/buffer_decoder.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/read/planned_messages.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

/// The rows of a node that one message brings; `at` are bytes of the source, decoded.
struct piece_span : piece_rows {
  std::int64_t nulls = 0; ///< column::unknown_nulls where they have to be counted
  bool late =
      false; ///< bytes: which ones is known when the offsets are decoded; until then they are all that there are
  std::size_t variadic = 0; ///< the first of its buffers behind views, in the list of its message
  std::size_t variadic_count = 0;
};

/// A buffer behind views.
struct variadic_buffer {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
};

struct piece_table {
  const column_tree* tree = nullptr;
  std::vector<planned_message> messages;
  std::function<std::string(std::size_t piece)> place; ///< for errors
  std::vector<std::int64_t> rows;                      ///< of each message
  std::vector<std::uint64_t> body_end;                 ///< of each message, byte of the source
  std::vector<std::uint64_t> body_bytes;
  std::vector<piece_span> spans;                      ///< message by message, node by node
  std::vector<std::vector<variadic_buffer>> variadic; ///< of each message, where the tree has views
  /// The compressed buffers that are taken of each message. Their places, those of the message's spans and of
  /// its buffers behind views count from 0 until they are given theirs (packed_bodies.hpp).
  std::vector<std::vector<packed_buffer>> packed;
  std::vector<std::uint64_t> read_bytes; ///< of each message, decoded: what is taken of its body

  [[nodiscard]] piece_span& span(std::size_t piece, std::size_t node) {
    return spans[piece * tree->nodes.size() + node];
  }
  [[nodiscard]] const piece_span& span(std::size_t piece, std::size_t node) const {
    return spans[piece * tree->nodes.size() + node];
  }
};

/// Sets what the rows point to from their first and last offset. @param span  `pointed` is all that there is.
/// @throws error format where it is less.
void name_pointed(const data_type& type, piece_span& span, std::int64_t first, std::int64_t last);

/// Runs `work` for tasks [0, tasks), perhaps by several threads.
using task_runner = std::function<void(std::size_t tasks, const std::function<void(std::size_t task)>& work)>;

/// Fills what the table says of its messages. False where a plan can't take one of them.
/// @param assume  of compressed offsets of lists, that the first is 0 and the last all that there is, as
/// writers write them. They are not decoded here, and whoever decodes them finds out. Those of bytes are
/// late.
bool read_pieces(piece_table& pieces, const scatter_source& source, bool assume,
                 const task_runner& in_parallel);

/// What the pieces of a group bring to a node together.
struct node_sums {
  std::int64_t rows = 0;
  std::int64_t pointed = 0;
  bool counts_nulls = false; ///< of pieces that say of themselves that they have some, or don't know
};

/// Pieces [first, end).
struct piece_group {
  std::size_t first = 0;
  std::size_t end = 0;
  std::vector<node_sums> sums; ///< of each node
};

/// Counts pieces together, as many as 32-bit offsets can count. @param cut true where a piece begins a group
/// in any case.
std::vector<piece_group> take_groups(piece_table& pieces, const std::function<bool(std::size_t piece)>& cut);

} // namespace saeta::ipc::detail
