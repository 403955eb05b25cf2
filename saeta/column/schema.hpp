// Fields and schemas: names (which may repeat or be empty), types, nullability, metadata in order.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/data_type.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {

/// Key and value bytes, kept in order; keys may repeat. The keys of extensions are stored in the type
/// instead.
using metadata_list = std::vector<std::pair<std::string, std::string>>;

/// The keys of an extension in the metadata of a field.
inline constexpr std::string_view extension_name_key = "ARROW:extension:name";
inline constexpr std::string_view extension_metadata_key = "ARROW:extension:metadata";

/// Moves the keys of an extension from the metadata of a field into its type. Returns the storage type, and
/// changes nothing, if there is no extension name.
[[nodiscard]] data_type take_extension(const data_type& storage, metadata_list& metadata);

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

/// "no column 'fair': did you mean 'fare'? The columns are 'fare', 'city'". A name is suggested if
/// it differs only in case, or in few letters for its length. At most 32 names are listed.
[[nodiscard]] std::string unknown_column_text(std::string_view wanted,
                                              std::span<const std::string_view> known);

/// A schema with a hash index of its field names, for look-ups in wide tables.
///
/// Owner     A table and its slices share one.
/// Thread    Immutable; the first look-up builds the hash once.
///
/// @code
/// const auto fields = std::make_shared<const schema_index>(orders.fields());
/// const std::size_t price_index = fields->index_of("price");
/// const table no_rows = table::make_sharing(ctx, fields, {}); // shares the names and their hash
/// @endcode
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
