// The dictionaries that some record batches need, planned from the metadata of their messages.
//
// What      Messages of one dictionary form groups: a message that replaces the values begins a new one,
//           those that add values (deltas) follow. A group becomes one column, and a batch uses the values
//           that were given before it.
// Owner     Borrows the source. Holds the columns once they have been read.
// Thread    Immutable after it was filled.
// Standard  Arrow IPC format, "Dictionary messages".
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/ipc/read/planned_source.hpp"
#include "saeta/ipc/read/whole_plan.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

class planned_dictionaries {
public:
  /// Takes the messages that some batches need.
  planned_dictionaries(const planned_source& from, std::span<const planned_message> batches);

  /// Parses the messages and groups them. Returns false if a plan can't take them.
  /// @param assume  as in `read_pieces`
  bool plan(bool assume, const task_runner& run_in_parallel);

  /// Parses the messages that no batch needs, which must be sound as well. Returns false if a plan can't take
  /// them.
  [[nodiscard]] bool check_others(const task_runner& run_in_parallel) const;

  [[nodiscard]] std::vector<planned_table>& tables() noexcept { return tables_; }
  [[nodiscard]] const std::vector<planned_table>& tables() const noexcept { return tables_; }
  /// Returns the state of dictionary `number` at a piece of a table.
  [[nodiscard]] dictionary_state state(const planned_table& table, std::size_t piece,
                                       std::size_t number) const;
  /// Whether a piece has a different dictionary than the piece before it.
  [[nodiscard]] bool replaced(const planned_table& table, std::size_t piece) const;
  /// Whether both have the same messages.
  [[nodiscard]] bool same_messages(const planned_dictionaries& other) const;

  /// The column of each group of each dictionary. Empty until it was read.
  std::vector<std::vector<std::shared_ptr<const column>>> values;

private:
  /// Marks the messages that `user`, a batch or a dictionary, needs of the dictionaries in its columns.
  void mark(const column_tree& tree, const planned_message& user);
  /// The messages of a dictionary that batches need, or those that none needs.
  [[nodiscard]] piece_table pieces_of(std::size_t number, bool needed) const;
  [[nodiscard]] bool group(std::size_t number);

  const planned_source& from_;
  std::vector<planned_table> tables_;
  std::vector<std::vector<bool>> needed_; ///< messages of each dictionary
  std::vector<std::vector<bool>> deltas_; ///< of the pieces of each table
};

} // namespace saeta::ipc::detail
