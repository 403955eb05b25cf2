// Owners of Arrow C structs: one move-only wrapper for schemas, arrays and streams, also those of devices.
//
// @code
// arrow_stream batches = export_stream(orders);           // owns the struct, and releases it
// const table copied = import_stream(ctx, batches.get()); // the import has taken the stream
// arrow_stream second = export_stream(orders);
// ArrowArrayStream for_c = second.release(); // now the caller releases it
// for_c.release(&for_c);
// @endcode
//
// Owner     The struct is released once: by `reset`, by the destructor, or by the object that it was moved
//           to. An empty owner holds a released struct (`release` is null).
// Thread    One at a time. The release callback runs on the thread that resets or destroys the owner.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/foreign_call.hpp"
#include "saeta/interop/arrow/abi.hpp"

#include <type_traits>
#include <utility>

namespace SAETA_EXPORT saeta {

/// The struct that has the release callback. For an ArrowDeviceArray this is the array inside.
template <class Struct>
auto& releasable(Struct& of) noexcept {
  if constexpr (std::is_same_v<std::remove_const_t<Struct>, ArrowDeviceArray>) {
    return of.array;
  } else {
    return of;
  }
}

template <class Struct>
class [[nodiscard]] arrow_owned {
public:
  arrow_owned() noexcept = default;
  /// Takes the struct; the source is marked released.
  explicit arrow_owned(Struct& source) noexcept { take(source); }
  arrow_owned(arrow_owned&& other) noexcept { take(other.value_); }
  arrow_owned& operator=(arrow_owned&& other) noexcept {
    if (this != &other) {
      take(other.value_);
    }
    return *this;
  }
  ~arrow_owned() { reset(); }

  /// Releases the current struct, then takes the source, which is marked released.
  void take(Struct& source) noexcept {
    reset();
    value_ = std::exchange(source, Struct{});
  }
  /// Gives up ownership: the caller releases the struct.
  [[nodiscard]] Struct release() noexcept { return std::exchange(value_, Struct{}); }
  void reset() noexcept {
    if (!empty()) {
      foreign_call([this] { releasable(value_).release(&releasable(value_)); });
      value_ = Struct{};
    }
  }

  [[nodiscard]] bool empty() const noexcept { return releasable(value_).release == nullptr; }
  [[nodiscard]] Struct& get() noexcept { return value_; }
  [[nodiscard]] const Struct& get() const noexcept { return value_; }
  /// Releases the current struct and returns an empty one for a callee to fill.
  [[nodiscard]] Struct* out() noexcept {
    reset();
    return &value_;
  }

private:
  Struct value_{};
};

using arrow_schema = arrow_owned<ArrowSchema>;
using arrow_array = arrow_owned<ArrowArray>;
using arrow_stream = arrow_owned<ArrowArrayStream>;
using arrow_device_array = arrow_owned<ArrowDeviceArray>;
using arrow_device_stream = arrow_owned<ArrowDeviceArrayStream>;

static_assert(!std::is_copy_constructible_v<arrow_array> &&
              std::is_nothrow_move_constructible_v<arrow_array>);

} // namespace saeta
