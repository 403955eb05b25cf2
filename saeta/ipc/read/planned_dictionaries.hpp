// The dictionaries that some record batches need, planned from the metadata of their messages.
//
// What      Messages of one dictionary form groups: a message that replaces the values begins a new one,
//           those that add values (deltas) follow. A group becomes one column, and a batch uses the values
//           that were given before it.
// Owner     Borrows the source. Holds the columns once they have been read.
// Thread    Immutable after it was filled.
// Failure   error format: a file gives a dictionary twice.
// Standard  Arrow IPC format, "Dictionary messages".
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/ipc/read/planned_source.hpp"
#include "saeta/ipc/read/whole_plan.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace saeta::ipc::detail {

class planned_dictionaries {
public:
  /// Takes the messages that batches with orders [first, last) need; in a file these are all messages.
  planned_dictionaries(const planned_source& from, std::size_t first, std::size_t last);

  /// Parses the messages and groups them. Returns false if a plan can't take them.
  /// @param assume  as in `read_pieces`
  bool plan(bool assume, const task_runner& run_in_parallel);

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
  void take_messages(std::size_t first, std::size_t last);
  [[nodiscard]] bool group(std::size_t number);

  const planned_source& from_;
  std::vector<planned_table> tables_;
  std::vector<std::vector<bool>> deltas_; ///< of the pieces of each table
};

} // namespace saeta::ipc::detail
