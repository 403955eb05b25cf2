#include "saeta/column/schema.hpp"

#include "saeta/base/closest.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <unordered_set>

namespace saeta {
namespace {

/// Removes the first entry of a key from the list and returns its value; nullopt if there is none.
std::optional<std::string> take(metadata_list& from, std::string_view key) {
  const auto match = std::ranges::find(from, key, &metadata_list::value_type::first);
  if (match == from.end()) {
    return std::nullopt;
  }
  std::string value = std::move(match->second);
  from.erase(match);
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
  const auto match = std::find_if(fields.begin(), fields.end(), has_name);
  if (match == fields.end()) {
    std::vector<std::string_view> names;
    for (const field& field : fields) {
      names.push_back(field.name);
    }
    throw error(errc::column_name, unknown_column_text(name, names));
  }
  const auto count = std::count_if(match, fields.end(), has_name);
  if (count > 1) {
    throw error(errc::column_name, concat(count, " columns are named '", name, "': choose one by its index"));
  }
  return static_cast<std::size_t>(match - fields.begin());
}

namespace {

constexpr std::size_t shown_names = 32;

} // namespace

std::string unknown_column_text(std::string_view wanted, std::span<const std::string_view> known) {
  if (known.empty()) {
    return concat("no column '", wanted, "': there are no columns");
  }
  const std::string_view meant = closest(wanted, known);
  std::string text = meant.empty()
                         ? concat("no column '", wanted, "': the columns are ")
                         : concat("no column '", wanted, "': did you mean '", meant, "'? The columns are ");
  for (std::size_t i = 0; i < std::min(known.size(), shown_names); ++i) {
    text += concat(i == 0 ? "'" : ", '", known[i], "'");
  }
  return known.size() > shown_names ? concat(text, " and ", known.size() - shown_names, " more") : text;
}

std::size_t schema_index::index_of(std::string_view name) const {
  std::call_once(built_, [this] { build(); });
  const auto entry = places_.find(name);
  return entry != places_.end() ? entry->second : fields_.index_of(name); // throws the error for the name
}

void schema_index::build() const {
  std::unordered_set<std::string_view> repeated;
  places_.reserve(fields_.fields.size());
  for (std::size_t i = 0; i < fields_.fields.size(); ++i) {
    if (!places_.emplace(fields_.fields[i].name, i).second) {
      repeated.insert(fields_.fields[i].name);
    }
  }
  for (const std::string_view name : repeated) {
    places_.erase(name);
  }
}

} // namespace saeta
