// What the Python classes hold. Shared by the modules `_core` and `_ipc`.
//
// Contexts are held in a class of their own, so that no shared pointer of the core ever owns a Python object: the core
// drops its pointers on threads that know nothing of the GIL.
#pragma once

#include "gil.hpp"
#include "saeta/column/table.hpp"
#include "saeta/runtime/runtime.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace saeta::py {

/// The context of an object that may be older than its process: in a child of fork, the child's own of the same device
/// stands in for the parent's (saeta::own_context).
class context_pointer {
public:
  // Implicit: it is used as the pointer that it stands for.
  context_pointer(std::shared_ptr<context> of) : given_(std::move(of)) {}
  operator std::shared_ptr<context>() const { return current(); }
  std::shared_ptr<context> operator->() const { return current(); }
  /// The runtime keeps the child's own, `this` any other.
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

/// Whether an object has done something once. A copy has not.
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

/// A column that was taken from a table, or is held by another object, is dropped without a release of the GIL.
template <>
struct end_of<std::vector<column>> {
  static bool at_once(const std::vector<column>& pieces) noexcept {
    return std::ranges::all_of(pieces, [](const column& piece) { return piece.shared(); });
  }
};

/// A column of a table: its field, which a table shares, and its pieces, one a batch.
struct column_object {
  column_object(std::shared_ptr<const field> of, std::shared_ptr<context> in, std::vector<column> made_of)
      : described(std::move(of)), ctx(std::move(in)), pieces(std::move(made_of)) {}
  column_object(field of, std::shared_ptr<context> in, std::vector<column> made_of)
      : column_object(std::make_shared<const field>(std::move(of)), std::move(in), std::move(made_of)) {}

  std::shared_ptr<const field> described;
  std::shared_ptr<context> ctx;
  unlocked<std::vector<column>> pieces;
  done_once lent; ///< the Python object keeps a hold of an array interface
  /// Shape and stride that a borrowed DLTensor points to, while the object lives.
  std::array<std::int64_t, 2> borrowed{};
};

struct table_object {
  explicit table_object(table of) : value(std::move(of)) {}

  unlocked<table> value;
};

} // namespace saeta::py
