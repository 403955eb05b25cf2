// The position of an array in a table. It becomes text only when a message needs it: "column 'a', child 'b'".
//
// Owner     Borrows the names. A child also borrows the place of its parent.
#pragma once

#include <ostream>
#include <string_view>

namespace saeta {

class array_place {
public:
  /// A place that one word names, such as "batch".
  explicit array_place(std::string_view word) noexcept : name_(word) {}
  static array_place column(std::string_view name) noexcept { return {nullptr, name, true}; }
  [[nodiscard]] array_place child(std::string_view name) const noexcept { return {this, name, true}; }
  [[nodiscard]] array_place dictionary() const noexcept {
    array_place made = *this;
    ++made.dictionaries_;
    return made;
  }

  friend std::ostream& operator<<(std::ostream& out, const array_place& of) {
    for (int i = 0; i < of.dictionaries_; ++i) {
      out << "dictionary of ";
    }
    if (!of.named_) {
      return out << of.name_;
    }
    if (of.outer_ == nullptr) {
      return out << "column '" << of.name_ << "'";
    }
    return out << *of.outer_ << ", child '" << of.name_ << "'";
  }

private:
  array_place(const array_place* outer, std::string_view name, bool named) noexcept
      : outer_(outer), name_(name), named_(named) {}

  const array_place* outer_ = nullptr;
  std::string_view name_;
  bool named_ = false;
  int dictionaries_ = 0;
};

} // namespace saeta
