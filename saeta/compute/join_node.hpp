// Plans how the pieces of columns are joined, level by level.
//
// A node stands for a column of the result, or for a child of one, and has one span for each piece. A span
// names the rows of a source that the piece contributes. Offsets and run ends lie on the device: `join_nodes`
// fetches those that tell what the rows point to. Pieces are then taken one after the other into a group as
// long as they fit. A group becomes one column.

#pragma once

#include "saeta/column/column.hpp"
#include "saeta/compute/slab_plan.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace saeta {

/// Unites the dictionaries of a column's pieces.
///
/// Dictionaries in the same memory count as one. If there are several, their values are downloaded and the
/// host compares them. The result has each value once, in order of first appearance. If one of the
/// dictionaries has these values in this order, it is the result. Nested values and views are not compared:
/// their dictionaries are joined like any column.
class dictionary_union {
public:
  /// @param type  of the dictionary column; must outlive this object
  explicit dictionary_union(const data_type& type) : type_(type) {}

  /// Adds the dictionary of the next piece.
  void add(const column& dictionary);
  [[nodiscard]] bool is_one() const noexcept { return distinct_.size() <= 1; }
  [[nodiscard]] bool compares() const noexcept;
  [[nodiscard]] const std::vector<column>& distinct() const noexcept { return distinct_; }
  /// Sets the values of `distinct()` on the host, in the same order. Needed if several are compared.
  void set_values(std::vector<host_array> values) { values_ = std::move(values); }

  void begin_group();
  /// True if the indices can address the values of the group together with those of `piece`.
  [[nodiscard]] bool fits(std::size_t piece) const;
  void take(std::size_t piece);
  /// Whether the index type can address `entries` values.
  [[nodiscard]] bool can_index(std::int64_t entries) const noexcept;

  /// The group's dictionary, if it is an existing one.
  [[nodiscard]] std::optional<column> find_existing() const;
  /// The values of the group's dictionary, in host memory that stays valid until the next group.
  [[nodiscard]] host_array values();
  /// For each index of a piece's dictionary, the index in the group's. Empty if all indices are the same.
  [[nodiscard]] std::span<const std::int64_t> remap(std::size_t piece) const noexcept;

private:
  /// Indices in the group's dictionary.
  struct mapping {
    std::vector<std::int64_t> ids;
    bool taken = false;
    bool same = true; ///< each index maps to itself
  };
  /// Bytes of a value; nullopt for a null.
  using value = std::optional<std::string_view>;
  [[nodiscard]] static value value_of(const host_array& from, std::int64_t row);
  [[nodiscard]] std::int64_t id_of(const value& sought) const;

  const data_type& type_;
  std::vector<column> distinct_;
  std::vector<std::size_t> number_; ///< for each piece, the index of its dictionary in `distinct_`
  std::vector<host_array> values_;
  // State of the current group:
  std::unordered_map<std::string_view, std::int64_t> ids_;
  std::int64_t null_id_ = -1;
  std::vector<value> found_;
  std::vector<mapping> mappings_; ///< one for each of `distinct_`
  std::vector<std::byte> validity_;
  std::vector<std::byte> offsets_;
  std::vector<std::byte> bytes_;
};

/// `first` includes the offset of the column.
struct join_span : piece_rows {
  const column* of = nullptr;
  // State in the group that the span was last taken into:
  bool taken = false;
  /// Index of the span whose children this one shares: its own, or for list views, dense unions and
  /// dictionaries that of an earlier span of the same column.
  std::size_t children_of = 0;
};

join_span span_of(const column& of, std::int64_t first, std::int64_t rows);

struct join_node {
  const data_type* type = nullptr;
  std::vector<join_span> spans;
  /// The children of the type. For run-end encoded columns, only the values. For dictionaries whose values
  /// cannot be compared, those values.
  std::vector<join_node> children;
  std::unique_ptr<dictionary_union> dictionary; ///< only for a dictionary type
  counted_limit limit;                          ///< of what the rows point to
  // State of the current group:
  std::int64_t rows = 0;
  std::int64_t pointed = 0; ///< bytes, child rows or runs that the rows point to
  const join_span* last = nullptr;

  void begin_group() noexcept;
  /// True if the rows of piece `piece` can be counted together with those taken before.
  [[nodiscard]] bool fits(std::size_t piece) const;
  void take(std::size_t piece);

private:
  [[nodiscard]] bool shares_children(const join_span& span) const noexcept;
  void finish_piece(std::size_t piece) noexcept;
};

/// Bytes of one run end.
std::size_t run_end_width(const data_type& type) noexcept;

/// The pieces of one column.
using column_pieces = std::vector<const column*>;

/// Makes one node for each column. Every column has the same number of pieces. They must outlive the nodes.
std::vector<join_node> join_nodes(const std::shared_ptr<context>& ctx,
                                  std::span<const column_pieces> columns);

} // namespace saeta
