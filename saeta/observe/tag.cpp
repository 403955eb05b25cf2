#include "saeta/observe/tag.hpp"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace saeta {
namespace {

struct name_table {
  std::mutex mutex;
  std::unordered_map<std::string_view, std::unique_ptr<const std::string>> names;
};

/// Never destroyed: blocks carry tags until the last static destructor.
name_table& names() {
  static name_table* const table = new name_table;
  return *table;
}

const std::string* keep(std::string_view name) {
  name_table& table = names();
  const std::lock_guard lock(table.mutex);
  if (const auto known = table.names.find(name); known != table.names.end()) {
    return known->second.get();
  }
  auto kept = std::make_unique<const std::string>(name);
  const std::string_view key = *kept;
  return table.names.emplace(key, std::move(kept)).first->second.get();
}

const std::string* empty_name() noexcept {
  static const std::string* const none = new std::string; // NOLINT(bugprone-unhandled-exception-at-new)
  return none;
}

} // namespace

tag::tag() noexcept : name_(empty_name()) {}

tag::tag(std::string_view name) : name_(name.empty() ? empty_name() : keep(name)) {}

} // namespace saeta
