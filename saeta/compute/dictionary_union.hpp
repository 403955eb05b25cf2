// Unites the dictionaries of a column's pieces.
//
// Dictionaries in the same memory count as one. If there are several, their values are downloaded and the
// host compares them. The result has each value once, in order of first appearance. If one of the
// dictionaries has these values in this order, it is the result. Nested values and views are not compared:
// their dictionaries are joined like any column.
#pragma once

#include "saeta/column/column.hpp"
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

} // namespace saeta
