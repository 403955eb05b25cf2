#include "saeta/column/schema_index.hpp"

#include <unordered_set>

namespace saeta {

std::size_t schema_index::index_of(std::string_view name) const {
  std::call_once(built_, [this] { build(); });
  const auto found = places_.find(name);
  return found != places_.end() ? found->second : fields_.index_of(name); // throws the error for the name
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
