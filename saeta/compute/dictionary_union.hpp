// The dictionaries of the pieces of a column, and the one that stands for all of them.
//
// Dictionaries in the same memory are one. Of several the host compares the values, which are downloaded: the result has each
// value once, in the order in which they appear, and is one of the dictionaries itself where that has them in this order.
// Values of nested types and views are not compared: those dictionaries are joined like any column.
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
  /// @param type  of the dictionary column.
  explicit dictionary_union(const data_type& type) : type_(type) {}

  /// The next piece's.
  void add(const column& dictionary);
  [[nodiscard]] bool is_one() const noexcept { return distinct_.size() <= 1; }
  [[nodiscard]] bool compares() const noexcept;
  [[nodiscard]] const std::vector<column>& distinct() const noexcept { return distinct_; }
  /// The values of those on the host, in the same order; needed where several are compared.
  void set_values(std::vector<host_array> values) { values_ = std::move(values); }

  void begin_group();
  /// True where the indices can name the values of the group and those of `piece` as well.
  [[nodiscard]] bool fits(std::size_t piece) const;
  void take(std::size_t piece);
  /// Whether an index type can name `entries` values.
  [[nodiscard]] bool can_index(std::int64_t entries) const noexcept;

  /// The group's dictionary where it is one that exists.
  [[nodiscard]] std::optional<column> existing() const;
  /// The values of the group's dictionary, in host memory that this keeps until the next group.
  [[nodiscard]] host_array values();
  /// For each index of a piece's dictionary the index in the group's. Empty where they are the same.
  [[nodiscard]] std::span<const std::int64_t> remap(std::size_t piece) const noexcept;

private:
  /// Indices in the group's dictionary.
  struct mapping {
    std::vector<std::int64_t> ids;
    bool taken = false;
    bool same = true; ///< each index maps to itself
  };
  /// A value's bytes; nothing for a null.
  using value = std::optional<std::string_view>;
  [[nodiscard]] static value value_of(const host_array& from, std::int64_t row);
  [[nodiscard]] std::int64_t id_of(const value& sought) const;

  const data_type& type_;
  std::vector<column> distinct_;
  std::vector<std::size_t> number_; ///< of each piece's in `distinct_`
  std::vector<host_array> values_;
  // Of the group:
  std::unordered_map<std::string_view, std::int64_t> ids_;
  std::int64_t null_id_ = -1;
  std::vector<value> found_;
  std::vector<mapping> mappings_; ///< of each of `distinct_`
  std::vector<std::byte> validity_;
  std::vector<std::byte> offsets_;
  std::vector<std::byte> bytes_;
};

} // namespace saeta
