// What columns and tables share as tensors: the keywords of `__dlpack__` and of the `to_...` calls.
#pragma once

#include "capsules.hpp"
#include "copy_argument.hpp"
#include "module.hpp"
#include "saeta/base/text.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <optional>
#include <string>
#include <utility>

namespace saeta::py {

using device_pair = std::pair<std::int32_t, std::int32_t>;
using version_pair = std::pair<std::uint32_t, std::uint32_t>;

/// What `__dlpack__` was asked for.
dlpack_export asked(std::optional<std::int64_t> stream, std::optional<device_pair> device,
                    std::optional<bool> copy);

/// The same with what the keywords of `__dlpack__` have no room for: the fields of `_tensor.Choices`.
dlpack_export chosen(std::optional<std::int64_t> stream, std::optional<device_pair> device,
                     std::optional<bool> copy, const std::string& nulls, tensor_fill fill, bool reinterpret,
                     bool codes, const std::string& order, const std::optional<data_type>& dtype);

/// A capsule of the newest struct that the consumer knows.
/// @param source  gives the column or the table without the GIL.
template <class Source>
nb::object tensor_capsule(std::optional<version_pair> max_version, const dlpack_export& how, Source source) {
  if (max_version && max_version->first >= DLPACK_MAJOR_VERSION) {
    return dlpack_capsule(without_gil([&] { return export_dlpack_versioned(source(), how); }));
  }
  return dlpack_capsule(without_gil([&] { return export_dlpack(source(), how); }));
}

/// The keywords of every `to_...` call.
inline constexpr const char* tensor_choices =
    "nulls: typing.Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, "
    "codes: bool = False, dtype: typing.Any = None";

/// A `to_...` call that gives an array of a library: with a mask a pair of them, which is an overload of its own.
/// @param first  its own keywords, each with a comma behind it.
template <class Class, class Body>
void bind_tensor(Class& c, const char* name, Body body, const char* array, const char* first,
                 const char* doc) {
  const std::string one = concat("def ", name, "(self, *, ", first, tensor_choices,
                                 ", with_mask: typing.Literal[False] = False) -> ", array);
  const std::string pair = concat("def ", name, "(self, *, ", first, tensor_choices,
                                  ", with_mask: typing.Literal[True]) -> tuple[", array, ", ", array, "]");
  c.def(name, body, nb::sig(one.c_str())).def(name, body, nb::sig(pair.c_str()), doc);
}

inline constexpr const char* dlpack_signature =
    "def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, "
    "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> typing_extensions.CapsuleType";
inline constexpr const char* chosen_signature =
    "def _dlpack(self, stream: int | None, max_version: tuple[int, int] | None, dl_device: tuple[int, int] | "
    "None, copy: bool | None, nulls: str, fill: float, reinterpret: bool, codes: bool, order: str, dtype: "
    "DataType | None) -> typing_extensions.CapsuleType";

} // namespace saeta::py
