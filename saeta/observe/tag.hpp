// A tag: the name under which bytes are accounted ("read_ipc", "orders"), cheap to copy and to compare.
//
// Owner     A name is kept until the process ends, one copy of each. So a tag is one pointer: every allocation copies it
//           several times and compares it without a lock or an atomic, and a log may show it long after its buffer is
//           gone. Freeing names would need a count of these copies, on a line that all threads write.
// Bound     At most `most_names` names with `most_name_bytes` of text in all are kept, so that a program that makes ever
//           new names does not grow: a new one beyond that is the tag "(other)". Names that are known stay themselves.
//           Tag by role, not by number.
// Thread    Any. Making a tag from text looks the name up under one of several locks; copying a tag costs nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace saeta {

class tag {
public:
  static constexpr std::size_t most_names = 1 << 16;
  static constexpr std::size_t most_name_bytes = 8 << 20;

  tag() noexcept = default;                                     ///< the empty name
  tag(std::string_view name);                                   // NOLINT: text is a tag
  tag(const std::string& name) : tag(std::string_view(name)) {} // NOLINT
  tag(const char* name) : tag(std::string_view(name)) {}        // NOLINT

  [[nodiscard]] const std::string& name() const noexcept { return name_ != nullptr ? *name_ : nothing(); }
  [[nodiscard]] bool empty() const noexcept { return name_ == nullptr; }

  friend bool operator==(tag a, tag b) noexcept { return a.name_ == b.name_; }

private:
  static const std::string& nothing() noexcept;

  const std::string* name_ = nullptr; ///< null: the empty name
};

} // namespace saeta
