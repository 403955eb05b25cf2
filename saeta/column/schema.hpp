// Fields and schemas: names (which may repeat or be empty), types, nullability, metadata in order.
#pragma once

#include "saeta/column/data_type.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace saeta {

/// Key and value bytes, kept in order; keys may repeat. The keys of extensions are stored in the type
/// instead.
using metadata_list = std::vector<std::pair<std::string, std::string>>;

/// The keys of an extension in the metadata of a field.
inline constexpr std::string_view extension_name_key = "ARROW:extension:name";
inline constexpr std::string_view extension_metadata_key = "ARROW:extension:metadata";

/// Moves the keys of an extension from the metadata of a field into its type. Returns the storage type, and
/// changes nothing, if there is no extension name.
data_type take_extension(const data_type& storage, metadata_list& metadata);

struct field {
  std::string name;
  data_type type;
  bool nullable = true;
  metadata_list metadata;

  friend bool operator==(const field&, const field&) = default;
};

struct schema {
  std::vector<field> fields;
  metadata_list metadata;

  friend bool operator==(const schema&, const schema&) = default;

  /// Index of the only field with that name.
  /// @throws error column_name if no field or several fields have it; the message lists the names.
  [[nodiscard]] std::size_t index_of(std::string_view name) const;
};

} // namespace saeta
