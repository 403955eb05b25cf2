// The C++ objects inside the Python classes, shared by the extension modules.
//
// A class of its own holds contexts, so that no shared pointer of the core owns a Python object: the core
// drops its pointers on threads that do not hold the GIL.

#pragma once

#include "python/src/core/gil.hpp"
#include "saeta/column/table.hpp"
#include "saeta/interop/options.hpp"
#include "saeta/runtime/runtime.hpp"
#include "saeta/symbols/symbol_table.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace saeta::py {

/// The context of an object that may be inherited from a parent process. In a forked child, the child's own
/// context of the same device replaces the parent's (saeta::own_context).
class context_pointer {
public:
  // Implicit, so that it is used like the pointer that it wraps.
  context_pointer(std::shared_ptr<context> of) : given_(std::move(of)) {}
  operator std::shared_ptr<context>() const { return current(); }
  std::shared_ptr<context> operator->() const { return current(); }
  /// The reference stays valid: the runtime owns the child's context, `this` any other.
  context& operator*() const { return *current(); }
  [[nodiscard]] context* get() const { return current().get(); }

  friend bool operator==(const context_pointer& a, const context_pointer& b) { return a.get() == b.get(); }

private:
  [[nodiscard]] std::shared_ptr<context> current() const {
    return given_->inherited() ? own_context(given_) : given_;
  }

  std::shared_ptr<context> given_;
};

struct context_object {
  context_pointer value;
};

/// A flag for what an object does only once. A copy of the object has an unset flag.
class done_once {
public:
  done_once() = default;
  done_once(const done_once&) noexcept {}
  done_once& operator=(const done_once&) noexcept { return *this; }
  ~done_once() = default;
  /// True the first time.
  bool first() noexcept { return !std::exchange(done_, true); }

private:
  bool done_ = false;
};

/// Pieces that other objects share are dropped without releasing the GIL.
template <>
struct end_of<std::vector<column>> {
  static bool at_once(const std::vector<column>& pieces) noexcept {
    return std::ranges::all_of(pieces, [](const column& piece) { return piece.shared(); });
  }
};

/// A column: its field, which it may share with a table, and its pieces, one per batch.
struct column_object {
  column_object(std::shared_ptr<const field> of, std::shared_ptr<context> in, std::vector<column> made_of)
      : described(std::move(of)), ctx(std::move(in)), pieces(std::move(made_of)) {}
  column_object(field of, std::shared_ptr<context> in, std::vector<column> made_of)
      : column_object(std::make_shared<const field>(std::move(of)), std::move(in), std::move(made_of)) {}

  std::shared_ptr<const field> described;
  std::shared_ptr<context> ctx;
  unlocked<std::vector<column>> pieces;
  done_once lent; ///< whether the Python object already keeps the hold of an exported array interface
  /// The shape and stride that a borrowed DLTensor points to, as long as the object lives.
  std::array<std::int64_t, 2> borrowed{};
};

/// A Python object that a C++ object keeps. The C++ object must be owned by Python, so that it is destroyed
/// with the GIL held. A copy keeps nothing.
class kept_object {
public:
  kept_object() = default;
  kept_object(const kept_object&) noexcept {}
  kept_object& operator=(const kept_object&) = delete;
  ~kept_object() = default;
  void keep(nb::object of) { kept_ = std::move(of); }
  /// Null before `keep`.
  [[nodiscard]] const nb::object& get() const noexcept { return kept_; }

private:
  nb::object kept_;
};

struct table_object {
  explicit table_object(table of) : value(std::move(of)) {}

  unlocked<table> value;
  mutable kept_object packed; ///< from `pack`, if it shares the memory of the table; access only with the GIL
};

struct symbol_table_object {
  std::shared_ptr<symbol_table> value;
};

/// The keyword `copy=` of imports and exports.
/// None: copy if needed. True: always copy. False: never copy.
inline copy_policy policy_of(std::optional<bool> copy) {
  if (!copy) {
    return copy_policy::when_needed;
  }
  return *copy ? copy_policy::always : copy_policy::never;
}

} // namespace saeta::py
