#include "saeta/column/schema.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/column_name.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace saeta {
namespace {

/// Removes the first entry of a key from the list and returns its value; nullopt if there is none.
std::optional<std::string> take(metadata_list& from, std::string_view key) {
  const auto found = std::ranges::find(from, key, &metadata_list::value_type::first);
  if (found == from.end()) {
    return std::nullopt;
  }
  std::string value = std::move(found->second);
  from.erase(found);
  return value;
}

} // namespace

data_type take_extension(const data_type& storage, metadata_list& metadata) {
  const auto named = std::ranges::find(metadata, extension_name_key, &metadata_list::value_type::first);
  if (named == metadata.end() || named->second.empty()) {
    return storage;
  }
  std::string name = take(metadata, extension_name_key).value();
  return storage.with_extension(std::move(name),
                                take(metadata, extension_metadata_key).value_or(std::string()));
}

std::size_t schema::index_of(std::string_view name) const {
  const auto has_name = [&](const field& candidate) { return candidate.name == name; };
  const auto found = std::find_if(fields.begin(), fields.end(), has_name);
  if (found == fields.end()) {
    std::vector<std::string_view> names;
    for (const field& each : fields) {
      names.push_back(each.name);
    }
    throw error(errc::column_name, unknown_column_text(name, names));
  }
  const auto count = std::count_if(found, fields.end(), has_name);
  if (count > 1) {
    throw error(errc::column_name, concat(count, " columns are named '", name, "': choose one by its index"));
  }
  return static_cast<std::size_t>(found - fields.begin());
}

} // namespace saeta
