// The plan of a whole read: the place of each column in one slab, and the steps that fill it.
//
// What      Each group of pieces becomes one column. Places for all groups and dictionaries are laid out
//           first. Then the steps are made and sorted in the order of the source. Values that refer to rows
//           of other buffers (list views, unions, views) are checked per piece, as they are in the source,
//           and adjusted afterwards. Offsets, indices and run ends are checked per group.
// Owner     Borrows the pieces.
// Failure   error overflow for impossible sizes.

#pragma once

#include "saeta/column/column.hpp"
#include "saeta/compute/slab_plan.hpp"
#include "saeta/interop/options.hpp"
#include "saeta/ipc/read/piece_table.hpp"
#include "saeta/ipc/read/planned_source.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

struct planned_node {
  std::array<slab_place, 3> buffers;
  std::vector<slab_place> variadic;
  std::uint32_t counter = scatter_step::not_counted;
  std::int32_t copied_width = 0; ///< bytes of a value if all pieces are copies of values; 0: they are not
  std::size_t ones = slab_plan::no_fill; ///< the last fill of ones in the validity of the column
  std::size_t variadic_done = 0;         ///< variadic buffers that have steps
};

struct planned_group {
  piece_group pieces;
  std::vector<planned_node> nodes;
};

/// Pieces with their groups: the batches of a source, or the values of one dictionary.
struct planned_table {
  piece_table pieces;
  std::vector<planned_group> groups;
};

/// The state of a dictionary at a piece with indices into it.
struct dictionary_state {
  std::size_t group = static_cast<std::size_t>(-1); ///< group in the dictionary's table; -1: not given so far
  std::int64_t length = 0;
  [[nodiscard]] bool has_group() const noexcept { return group != static_cast<std::size_t>(-1); }
};

/// The rows that a check covers: rows of a node in pieces [first, end).
struct checked_rows {
  const planned_table* table = nullptr;
  std::size_t node = 0;
  std::size_t first = 0;
  std::size_t end = 0;
};

class planned_dictionaries;

class whole_plan {
public:
  /// @param texts  also check that strings are UTF-8
  /// @param dictionaries  of the tables; null if nothing is checked
  whole_plan(validation check, bool texts, const planned_dictionaries* dictionaries)
      : check_(check), texts_(texts), dictionaries_(dictionaries), slab_("bytes of a table", true) {}

  /// Lays out the groups of a table. Call it for all tables before `end_layout`.
  void lay_out(planned_table& table);
  /// Fixes the size of the slab.
  void end_layout() { slab_.end_layout(); }
  /// Adds early steps for compressed offsets of bytes, which must be decoded before the ranges of their bytes
  /// are known.
  void add_deferred_offsets(const planned_table& table);
  /// Sets the ranges of such bytes. Call it after the early steps have been read.
  /// @param borders  returns the first and last offset of the buffer that begins at a position.
  void settle(planned_table& table, const std::function<seen_borders(std::uint64_t at)>& borders);
  void add_steps(planned_table& table);
  /// Call it once, after all tables.
  void finish();

  [[nodiscard]] const scatter_plan& steps() const noexcept { return slab_.plan(); }
  [[nodiscard]] const std::vector<checked_rows>& checks() const noexcept { return checks_; }
  /// Offset of a place in the slab.
  [[nodiscard]] std::uint64_t byte_of(const slab_place& place) const noexcept { return slab_.byte_of(place); }

private:
  /// Where the rows of a piece begin in buffer `index`, as an offset in the slab.
  [[nodiscard]] std::uint64_t rows_at(const data_type& type, std::size_t index, const piece_span& span,
                                      const planned_node& node) const;
  void settle_bytes(planned_table& table, planned_group& group, std::size_t number,
                    const std::function<seen_borders(std::uint64_t at)>& borders);
  void lay_out_node(const planned_table& table, planned_group& group, std::size_t number);
  void lay_out_validity(planned_group& group, std::size_t number);
  void add_piece(const planned_table& table, planned_group& group, std::size_t piece, std::size_t number);
  void add_validity(const piece_span& span, planned_node& node);
  void add_offsets(std::int32_t width, const piece_span& span, const planned_node& node, std::int64_t rows);
  void add_views(const planned_table& table, std::size_t piece, std::size_t number, planned_node& node);
  void add_list_starts(const planned_table& table, std::size_t piece, std::size_t number,
                       const planned_node& node);
  void add_union_rows(const planned_table& table, std::size_t piece, std::size_t number,
                      const planned_node& node);
  void add_piece_check(const planned_table& table, std::size_t piece, std::size_t number,
                       const planned_node& node);
  void add_variadic_table(std::span<const slab_place> places, scatter_check& check);
  void add_group_checks(const planned_table& table, const planned_group& group, std::size_t number);
  void add_text_check(const planned_table& table, const planned_group& group, std::size_t number);
  void add_index_checks(const planned_table& table, const planned_group& group, std::size_t number);
  scatter_check& add_check(check_kind kind, const planned_table& table, std::size_t node, std::size_t first,
                           std::size_t end);
  void name_validity(const planned_node& node, std::int64_t row, scatter_check& check) const;

  validation check_;
  bool texts_;
  const planned_dictionaries* dictionaries_;
  slab_plan slab_;
  std::vector<checked_rows> checks_;
};

/// The dictionaries that some record batches need, planned from the metadata of their messages.
///
/// What      Messages of one dictionary form groups: a message that replaces the values begins a new one,
///           those that add values (deltas) follow. A group becomes one column, and a batch uses the values
///           that were given before it.
/// Owner     Borrows the source. Holds the columns once they have been read.
/// Thread    Immutable after it was filled.
/// Standard  Arrow IPC format, "Dictionary messages".
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
  /// Whether both sets of dictionaries have the same messages.
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
