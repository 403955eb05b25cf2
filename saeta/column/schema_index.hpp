// A schema with a hash index of its field names, for look-ups in wide tables.
//
// Owner     A table and its slices share one.
// Thread    Immutable; the first look-up builds the hash once.
#pragma once

#include "saeta/column/schema.hpp"

#include <cstddef>
#include <memory>
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

  /// Returns what `make(fields())` made in the first call. It lives as long as the schema. All calls for a
  /// schema must ask for the same type: only the packed form (ipc/format/packed_schema.hpp) does.
  template <class Made, class Make>
  [[nodiscard]] std::shared_ptr<const Made> derived(Make make) const {
    std::call_once(derived_once_, [&] { derived_ = std::shared_ptr<const Made>(make(fields_)); });
    return std::static_pointer_cast<const Made>(derived_);
  }

private:
  void build() const;

  schema fields_;
  mutable std::once_flag built_;
  mutable std::unordered_map<std::string_view, std::size_t> places_; ///< only names that are unique
  mutable std::once_flag derived_once_;
  mutable std::shared_ptr<const void> derived_;
};

} // namespace saeta
