// A schema with a hash index of its field names, for look-ups in wide tables.
//
// Owner     A table and its slices share one.
// Thread    Immutable; the first look-up builds the hash once.
#pragma once

#include "saeta/column/schema.hpp"

#include <cstddef>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace saeta {

class schema_index {
public:
  explicit schema_index(schema of) : fields_(std::move(of)) {}
  schema_index(const schema_index&) = delete;
  schema_index& operator=(const schema_index&) = delete;

  [[nodiscard]] const schema& fields() const noexcept { return fields_; }
  /// Like schema::index_of, in constant time.
  [[nodiscard]] std::size_t index_of(std::string_view name) const;

private:
  void build() const;

  schema fields_;
  mutable std::once_flag built_;
  mutable std::unordered_map<std::string_view, std::size_t> places_; ///< only names that are unique
};

} // namespace saeta
