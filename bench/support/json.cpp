#include "support/json.hpp"

namespace saeta::bench {
namespace {

std::string quoted(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      made += '\\';
    }
    made += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return made + '"';
}

} // namespace

json_object& json_object::add(std::string_view name, std::string_view text) {
  return add_text(name, quoted(text));
}

json_object& json_object::add(std::string_view name, const json_object& nested) {
  return add_text(name, nested.text());
}

json_object& json_object::add(std::string_view name, const std::vector<json_object>& list) {
  std::string made = "[";
  for (const json_object& each : list) {
    made += (made.size() == 1 ? "\n    " : ",\n    ") + each.text();
  }
  return add_text(name, made + "\n  ]");
}

json_object& json_object::add(std::string_view name, const std::vector<double>& list) {
  std::string made = "[";
  for (const double each : list) {
    made += (made.size() == 1 ? "" : ", ") + number(each);
  }
  return add_text(name, made + "]");
}

json_object& json_object::add_text(std::string_view name, const std::string& value) {
  members_.push_back(quoted(name) + ": " + value);
  return *this;
}

std::string json_object::joined(std::string_view before, std::string_view between,
                                std::string_view after) const {
  std::string made("{");
  for (const std::string& each : members_) {
    made += made.size() == 1 ? before : between;
    made += each;
  }
  made += after;
  return made + '}';
}

} // namespace saeta::bench
