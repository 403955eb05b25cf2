// A tag: the name under which bytes are accounted ("read_ipc", "orders"), cheap to copy and to compare.
//
// Owner     Names are kept until the process ends, one copy each: tag by role, not by number.
// Thread    Any. Making a tag from text looks the name up under a lock; a tag that is kept costs nothing.
#pragma once

#include <string>
#include <string_view>

namespace saeta {

class tag {
public:
  tag() noexcept;                                               ///< the empty name
  tag(std::string_view name);                                   // NOLINT: text is a tag
  tag(const std::string& name) : tag(std::string_view(name)) {} // NOLINT
  tag(const char* name) : tag(std::string_view(name)) {}        // NOLINT

  [[nodiscard]] const std::string& name() const noexcept { return *name_; }
  [[nodiscard]] bool empty() const noexcept { return name_->empty(); }

  friend bool operator==(tag a, tag b) noexcept { return a.name_ == b.name_; }

private:
  const std::string* name_;
};

} // namespace saeta
