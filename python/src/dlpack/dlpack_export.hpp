// Columns and tables as tensors. Only this code parses the options of `__dlpack__` and of the `to_...` calls.
//
// Failure   error invalid_argument for an unknown word of an option and for options that exclude each other;
//           out_of_range for a fill that fits no integer type; type_mismatch for a fill that is not a number.
// Standard  DLPack's Python specification, dmlc.github.io/dlpack.
#pragma once

#include "python/src/arrow/capsules.hpp"
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/base/text.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>

namespace saeta::py {

using device_pair = std::pair<std::int32_t, std::int32_t>;
using version_pair = std::pair<std::uint32_t, std::uint32_t>;

/// The keywords of `__dlpack__`.
struct dlpack_keywords {
  std::optional<std::int64_t> stream;
  std::optional<version_pair> max_version; ///< absent or below 1: a tensor in the legacy struct
  std::optional<device_pair> device;
  std::optional<bool> copy;
};

/// The options of a `to_...` call that `__dlpack__` does not have.
struct tensor_choices {
  tensor_nulls nulls = tensor_nulls::refuse;
  tensor_fill fill = std::int64_t{0};
  bool reinterpret = false;
  bool codes = false;
  tensor_order order = tensor_order::any;
  std::optional<data_type> type = std::nullopt;
};

/// A column or a table with options, for `from_dlpack` of any library.
struct chosen_tensor {
  nb::object source; ///< a column_object or a table_object
  tensor_choices chosen;
  bool on_host = false;     ///< copy to the host if needed, unless the consumer names a device
  std::optional<bool> copy; ///< used if the consumer does not say
};

/// A capsule of the newest struct that the consumer knows. Joins a column of several chunks, which one tensor
/// can't view.
nb::object tensor_capsule(const column_object& source, const dlpack_keywords& wanted,
                          const tensor_choices& chosen = {});
nb::object tensor_capsule(const table_object& source, const dlpack_keywords& wanted,
                          const tensor_choices& chosen = {});
nb::object tensor_capsule(const chosen_tensor& source, dlpack_keywords wanted);

/// The result of `__dlpack_device__`. exchange_api.hpp has the one for columns.
tensor_device device_of(const table_object& source);
tensor_device device_of(const chosen_tensor& source);

/// Binds `__dlpack__` and `__dlpack_device__`.
template <class Source>
void bind_dlpack_protocol(nb::class_<Source>& c, const char* doc) {
  c.def(
       "__dlpack__",
       [](const Source& self, std::optional<std::int64_t> stream, std::optional<version_pair> max_version,
          std::optional<device_pair> device, std::optional<bool> copy) {
         return tensor_capsule(self, dlpack_keywords{stream, max_version, device, copy});
       },
       nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
       nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
       nb::sig("def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = "
               "None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> "
               "typing_extensions.CapsuleType"),
       doc)
      .def(
          "__dlpack_device__",
          [](const Source& self) {
            const tensor_device found = device_of(self);
            return device_pair{found.type, found.ordinal};
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"),
          "Device type and number, as DLPack numbers them.");
}

/// The keywords of every `to_...` call, after `nulls`.
inline constexpr const char* tensor_choices_signature =
    "fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: typing.Any = None";

/// Binds a `to_...` call that returns an array of a library. With a mask it returns a pair, which is a
/// separate overload. Both have the same docstring, which nanobind then shows once.
/// @param first  keywords of this call only, each followed by a comma.
template <class Class, class Body>
void bind_tensor(Class& c, const char* name, Body body, const char* array, const char* first,
                 const char* doc) {
  const std::string one =
      concat("def ", name, "(self, *, ", first, "nulls: typing.Literal['nan'] | None = None, ",
             tensor_choices_signature, ") -> ", array);
  const std::string pair = concat("def ", name, "(self, *, ", first, "nulls: typing.Literal['mask'], ",
                                  tensor_choices_signature, ") -> tuple[", array, ", ", array, "]");
  c.def(name, body, nb::sig(one.c_str()), doc).def(name, body, nb::sig(pair.c_str()), doc);
}

} // namespace saeta::py
