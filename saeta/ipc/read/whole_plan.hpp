// The plan of a whole read: where each column of the result lies in one slab, and the steps that bring it
// there.
//
// What      Groups of pieces become one column each. Places are laid out first, for all groups and
//           dictionaries; then the steps are made in the order in which the source is read. What names rows
//           of other buffers (list views, unions, views) is checked piece by piece as the source has it, and
//           changed afterwards; offsets, indices and run ends are checked group by group.
// Owner     Borrows the pieces.
// Failure   error overflow for sizes that no memory has.
#pragma once

#include "saeta/compute/slab_plan.hpp"
#include "saeta/interop/validation.hpp"
#include "saeta/ipc/read/piece_table.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace saeta::ipc::detail {

struct planned_node {
  std::array<slab_place, 3> buffers;
  std::vector<slab_place> variadic;
  std::uint32_t counter = scatter_step::not_counted;
  std::size_t ones = slab_plan::no_fill; ///< the last one of its validity
  std::size_t variadic_done = 0;         ///< buffers behind views that have their steps
};

struct planned_group {
  piece_group pieces;
  std::vector<planned_node> nodes;
};

/// Pieces with their groups: the batches, or the values of a dictionary.
struct planned_table {
  piece_table pieces;
  std::vector<planned_group> groups;
};

/// What a dictionary is for a piece that has its indices.
struct dictionary_state {
  std::size_t group = static_cast<std::size_t>(-1); ///< of its table; none was given so far
  std::int64_t length = 0;
  [[nodiscard]] bool given() const noexcept { return group != static_cast<std::size_t>(-1); }
};

/// What a check looks at: rows of pieces [first, end) of a node, from the first of them on.
struct checked_rows {
  const planned_table* table = nullptr;
  std::size_t node = 0;
  std::size_t first = 0;
  std::size_t end = 0;
};

void sort_by_source(std::vector<scatter_step>& steps);
bool has_late_bytes(const piece_table& pieces, const piece_group& group, std::size_t number);

class whole_plan {
public:
  /// @param states  of dictionary `number` for a piece of a table.
  using state_finder =
      std::function<dictionary_state(const planned_table&, std::size_t piece, std::size_t number)>;

  /// @param texts  strings are checked to be UTF-8, too
  whole_plan(validation check, bool texts, state_finder states)
      : check_(check), texts_(texts), states_(std::move(states)), slab_("bytes of a table") {}

  /// Lays out the groups of a table; all tables before `end_layout`.
  void lay_out(planned_table& table);
  /// The slab has its size now.
  void end_layout() { slab_.end_layout(); }
  /// Early steps, for offsets that tell only when they are decoded which bytes they name.
  void add_late_offsets(const planned_table& table);
  /// After the early steps have been read, if there are any: bytes take the place that the offsets name.
  /// @param borders of the offsets that begin at a byte of the source.
  void settle(planned_table& table, const std::function<seen_borders(std::uint64_t at)>& borders);
  void add_steps(planned_table& table);
  /// To be called once, after all tables.
  void finish();

  [[nodiscard]] const scatter_plan& steps() const noexcept { return slab_.made(); }
  [[nodiscard]] const std::vector<checked_rows>& checks() const noexcept { return checks_; }
  /// Byte of the slab.
  [[nodiscard]] std::uint64_t byte_of(const slab_place& place) const noexcept { return slab_.byte_of(place); }

private:
  void settle_bytes(planned_table& table, planned_group& group, std::size_t number,
                    const std::function<seen_borders(std::uint64_t at)>& borders);
  void lay_out_node(const planned_table& table, planned_group& group, std::size_t number);
  void lay_out_validity(planned_group& group, std::size_t number);
  void add_piece(const planned_table& table, planned_group& group, std::size_t piece, std::size_t number);
  void add_validity(const piece_span& span, planned_node& node);
  void add_offsets(const data_type& type, const piece_span& span, const planned_node& node,
                   std::int64_t rows);
  void add_views(const planned_table& table, std::size_t piece, std::size_t number, planned_node& node);
  void add_list_view(const planned_table& table, std::size_t piece, std::size_t number,
                     const planned_node& node);
  void add_union(const planned_table& table, std::size_t piece, std::size_t number, const planned_node& node);
  void add_group_checks(const planned_table& table, const planned_group& group, std::size_t number);
  void add_text_check(const planned_table& table, const planned_group& group, std::size_t number);
  void add_index_checks(const planned_table& table, const planned_group& group, std::size_t number);
  scatter_check& add_check(check_kind kind, const planned_table& table, std::size_t node, std::size_t first,
                           std::size_t end);
  void name_validity(const planned_node& node, std::int64_t row, scatter_check& check) const;

  validation check_;
  bool texts_;
  state_finder states_;
  slab_plan slab_;
  std::vector<checked_rows> checks_;
};

} // namespace saeta::ipc::detail
