// Shares device memory between processes. The handles of saeta.cuda are built on it.
#include "python/src/core/python_bytes.hpp"
#include "python/src/memory/memory_objects.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/loans/imported_pool.hpp"
#include "saeta/runtime/runtime.hpp"

#include <nanobind/stl/string.h>

#include <cstring>

namespace saeta::py {
namespace {

/// The bytes that pass between processes of one machine.
static_assert(sizeof(shared_bytes) == sizeof(allocation_name) + 4 * sizeof(std::uint64_t));

nb::bytes share(const buffer_object& of) {
  const shared_bytes found = without_gil([&] { return share_bytes(*of.value); });
  return nb::bytes(&found, sizeof found);
}

shared_bytes read_shared(const nb::bytes& packed) {
  if (packed.size() != sizeof(shared_bytes)) {
    throw error(errc::format, concat("a description of shared bytes has ", sizeof(shared_bytes),
                                     " bytes, not ", packed.size()));
  }
  shared_bytes found;
  std::memcpy(static_cast<void*>(&found), packed.data(), sizeof found);
  return found;
}

struct imported_object {
  unlocked<std::shared_ptr<imported_pool>> value;
};

buffer_object open_bytes(const imported_object& self, const context_object& ctx, const nb::bytes& packed,
                         nb::object lease, std::string label) {
  const shared_bytes which = read_shared(packed);
  std::shared_ptr<void> kept(lease.release().ptr(),
                             [](void* object) { // may be dropped on threads that do not hold the GIL
                               with_gil_or_leak([object] { Py_DECREF(static_cast<PyObject*>(object)); });
                             });
  return without_gil([&] {
    return buffer_object((*self.value)->open_bytes(ctx.value, which, std::move(kept), std::move(label)));
  });
}

/// Returns the context unchanged if it is open. Otherwise opens it, with an exportable pool if the device has
/// such pools.
context_object shareable_context(const std::string& name) {
  return without_gil([&] {
    const device_id device = parse_device(name);
    if (auto open = find_context(device)) {
      return context_object{std::move(open)};
    }
    open_options options;
    options.exportable_pool = true;
    try {
      return context_object{open_context(device, options)};
    } catch (const error& refused) {
      if (refused.code() != errc::invalid_argument && refused.code() != errc::unsupported) {
        throw;
      }
    }
    return context_object{
        open_context(device)}; // the stack has no driver pool, or another thread opened the context meanwhile
  });
}

nb::bytes uuid_of(const context_object& ctx) {
  const auto found = without_gil([&] { return ctx.value->device_backend()->properties().uuid; });
  return nb::bytes(found.data(), found.size());
}

} // namespace

void bind_sharing(nb::module_& m) {
  nb::class_<imported_object>(m, "_ImportedPool", "The memory pool of another process.")
      .def(
          "__init__",
          [](imported_object* self, const context_object& ctx, int descriptor) {
            new (self) imported_object{
                unlocked(without_gil([&] { return imported_pool::open(*ctx.value, descriptor); }))};
          },
          nb::arg("where"), nb::arg("descriptor"),
          nb::sig("def __init__(self, where: Context, descriptor: int) -> None"))
      .def("open", &open_bytes, nb::arg("where"), nb::arg("shared"), nb::arg("lease"), nb::arg("tag"),
           nb::sig("def open(self, where: Context, shared: bytes, lease: object, tag: str) -> Buffer"),
           "A view of bytes that the other process shares. `lease` is dropped once our work on them has "
           "finished and they are unmapped.");
  m.def("_shareable_context", &shareable_context, nb::arg("device"),
        nb::sig("def _shareable_context(device: str) -> Context"),
        "The context of a device, opened with an exportable pool if it was not open.");
  m.def("_device_uuid", &uuid_of, nb::arg("where"), nb::sig("def _device_uuid(where: Context) -> bytes"),
        "16 bytes that name the device in every process of the machine.");
  m.def(
      "_share_pool",
      [](const context_object& ctx) { return without_gil([&] { return ctx.value->export_pool(); }); },
      nb::arg("where"), nb::sig("def _share_pool(where: Context) -> int"),
      "A descriptor of the pool of the context's memory that other processes open. The caller closes it.");
  m.def(
      "_shareable",
      [](const column_object& of, const std::string& label) {
        return without_gil([&] {
          const buffer bytes = shareable(bytes_of_column(of), label);
          return column_of_bytes(bytes.owner()->ctx(), bytes);
        });
      },
      nb::arg("body"), nb::arg("tag"), nb::sig("def _shareable(body: Column, tag: str) -> Column"),
      "A column of uint8, which must have rows, in memory that other processes can open: the same memory if "
      "its context has an exportable pool, else a copy in a pool that is.");
  m.def(
      "_bytes_of", [](const column_object& of) { return buffer_object(bytes_of_column(of)); },
      nb::arg("column"), nb::sig("def _bytes_of(column: Column) -> Buffer"),
      "The buffer of a column of uint8, which must have rows.");
  m.def(
      "_column_of", [](const buffer_object& of) { return column_of_bytes(of.owner().ctx(), *of.value); },
      nb::arg("buffer"), nb::sig("def _column_of(buffer: Buffer) -> Column"),
      "A column of uint8 over the bytes.");
  m.def("_share_bytes", &share, nb::arg("of"), nb::sig("def _share_bytes(of: Buffer) -> bytes"),
        "The description with which another process can open the bytes, after their last writes. The bytes "
        "must be kept until it has closed them.");
}

} // namespace saeta::py
