// Creates capsules of Arrow structs, for every module that exports them.
//
// Owner     A capsule that was not consumed releases its struct when it is destroyed.
// Thread    With the GIL held. The function that fills a struct runs without it.
#pragma once

#include "python/src/core/gil.hpp"
#include "saeta/interop/arrow/owned.hpp"

#include <memory>

namespace saeta::py {

/// The capsule name of a struct in its standard.
template <class Struct>
constexpr const char* name_for = nullptr;
template <>
constexpr const char* name_for<ArrowSchema> = "arrow_schema";
template <>
constexpr const char* name_for<ArrowArray> = "arrow_array";
template <>
constexpr const char* name_for<ArrowArrayStream> = "arrow_array_stream";
template <>
constexpr const char* name_for<ArrowDeviceArray> = "arrow_device_array";
template <>
constexpr const char* name_for<ArrowDeviceArrayStream> = "arrow_device_array_stream";

template <class Struct>
struct release_and_delete {
  void operator()(Struct* owned) const {
    auto& released = releasable(*owned);
    if (released.release != nullptr) {
      foreign_call([&] { released.release(&released); });
    }
    delete owned;
  }
};
template <class Struct>
using owned_struct = std::unique_ptr<Struct, release_and_delete<Struct>>;

template <class Struct>
void destroy_arrow(PyObject* capsule) {
  const nb::error_scope guard; // an exception may be propagating
  if (auto* held = static_cast<Struct*>(PyCapsule_GetPointer(capsule, name_for<Struct>))) {
    const owned_struct<Struct> owned(held);
  }
}

/// A new capsule around a struct that `fill` fills without the GIL.
template <class Struct, class Fill>
nb::object filled_capsule(Fill&& fill) {
  owned_struct<Struct> made(new Struct{});
  without_gil([&] { fill(*made); });
  nb::object capsule = nb::steal(PyCapsule_New(made.get(), name_for<Struct>, &destroy_arrow<Struct>));
  if (!capsule.is_valid()) {
    throw nb::python_error();
  }
  static_cast<void>(made.release());
  return capsule;
}

} // namespace saeta::py
