// A tag: the name under which bytes are accounted ("read_ipc", "orders"), cheap to copy and to compare.
//
// @code
// const tag label("orders"); // looks the name up, once
// const buffer first = buffer::allocate(ctx, 4096, stream, label);
// const buffer second = buffer::allocate(ctx, 4096, stream, label); // copies one pointer
// @endcode
//
// Owner     The process keeps one copy of each name until it ends, so a tag is one pointer. Every allocation
//           copies its tag several times and compares it without a lock or an atomic, and a log may show it
//           long after its buffer is freed. Freeing names would need a reference count that all threads
//           write.
// Bound     The process keeps at most `most_names` names with `most_name_bytes` of text in total, so a
//           program that keeps making new names does not grow. Beyond the bound a new name becomes the tag
//           "(other)"; known names still work. Name tags by role, not by number.
// Thread    Any. Making a tag from text looks the name up under one of several locks; copying a tag takes no
//           lock.
#pragma once

#include "saeta/base/export.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace SAETA_EXPORT saeta {

class tag {
public:
  static constexpr std::size_t most_names = 1 << 16;
  static constexpr std::size_t most_name_bytes = 8 << 20;

  tag() noexcept = default;                                     ///< the empty name
  tag(std::string_view name);                                   // NOLINT: implicit on purpose
  tag(const std::string& name) : tag(std::string_view(name)) {} // NOLINT
  tag(const char* name) : tag(std::string_view(name)) {}        // NOLINT

  [[nodiscard]] const std::string& name() const noexcept { return name_ != nullptr ? *name_ : empty_name(); }
  [[nodiscard]] bool empty() const noexcept { return name_ == nullptr; }

  friend bool operator==(tag a, tag b) noexcept { return a.name_ == b.name_; }

private:
  [[nodiscard]] static const std::string& empty_name() noexcept;

  const std::string* name_ = nullptr; ///< null: the empty name
};

} // namespace saeta
