// Builds a JSON object; its members have the order in which they were added.
#pragma once

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace saeta::bench {

class json_object {
public:
  json_object& add(std::string_view name, std::string_view text);
  json_object& add(std::string_view name, const char* text) { return add(name, std::string_view(text)); }
  json_object& add(std::string_view name, const json_object& nested);
  json_object& add(std::string_view name, const std::vector<json_object>& list); ///< one object on each line
  json_object& add(std::string_view name, const std::vector<double>& list);
  template <class Number>
  requires std::is_arithmetic_v<Number> json_object& add(std::string_view name, Number value) {
    return add_text(name, number(value));
  }

  [[nodiscard]] std::string text() const { return joined("", ", ", ""); }
  /// Returns the object with one member on each line, for the outermost object of a file.
  [[nodiscard]] std::string lines() const { return joined("\n  ", ",\n  ", "\n"); }

private:
  /// Returns the shortest text that parses to the same number.
  template <class Number>
  static std::string number(Number value) {
    char digits[32];
    return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
  }
  json_object& add_text(std::string_view name, const std::string& value);
  [[nodiscard]] std::string joined(std::string_view before, std::string_view between,
                                   std::string_view after) const;

  std::vector<std::string> members_;
};

} // namespace saeta::bench
