#include "saeta/observe/tag.hpp"

#include "saeta/base/process.hpp"
#include "saeta/observe/name_table.hpp"

namespace saeta {
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
