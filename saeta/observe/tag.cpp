#include "saeta/observe/tag.hpp"

#include "saeta/base/process.hpp"
#include "saeta/observe/name_table.hpp"

#include <functional>
#include <utility>

namespace saeta {

name_table::name_table(std::size_t most_names, std::size_t most_bytes)
    : most_names_(most_names), most_bytes_(most_bytes) {}

/// Counts one more name; false when it does not fit.
bool name_table::count(std::size_t bytes) noexcept {
  if (names_.fetch_add(1) < most_names_) {
    const std::size_t before = bytes_.fetch_add(bytes);
    if (before <= most_bytes_ && bytes <= most_bytes_ - before) {
      return true;
    }
    bytes_.fetch_sub(bytes);
  }
  names_.fetch_sub(1);
  return false;
}

const std::string* name_table::keep(std::string_view name) {
  if (name == other_) {
    return &other_;
  }
  shard& part = shards_[std::hash<std::string_view>{}(name) % shards_.size()];
  const std::lock_guard lock(part.mutex);
  if (const auto known = part.names.find(name); known != part.names.end()) {
    return known->second.get();
  }
  if (!count(name.size())) {
    return &other_;
  }
  try {
    auto kept = std::make_unique<const std::string>(name);
    const std::string_view key = *kept;
    return part.names.emplace(key, std::move(kept)).first->second.get();
  } catch (...) {
    names_.fetch_sub(1);
    bytes_.fetch_sub(name.size());
    throw;
  }
}

namespace {

struct names_of_this_process : name_table {
  names_of_this_process() : name_table(tag::most_names, tag::most_name_bytes) {}
};

/// Never destroyed: blocks carry tags until the last static destructor.
name_table& names() {
  static constinit per_process<names_of_this_process> table;
  return table.get();
}

} // namespace

tag::tag(std::string_view name) : name_(name.empty() ? nullptr : names().keep(name)) {}

const std::string& tag::empty_name() noexcept {
  static const std::string* const none = new std::string; // NOLINT(bugprone-unhandled-exception-at-new)
  return *none;
}

} // namespace saeta
