// Copies of bytes between buffers and to and from the host, and memory known by its address. saeta.cuda is
// built on these.
#include "python/src/core/python_bytes.hpp"
#include "python/src/memory/memory_objects.hpp"
#include "saeta/memory/host_copies.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/order/timeline.hpp"

#include <nanobind/stl/string.h>

namespace saeta::py {
namespace {

void write_bytes(const buffer_object& target, std::size_t offset, nb::handle source) {
  const python_bytes given(source);
  without_gil([&] { copy_from_host(*target.value, offset, given.span()); });
}

void read_bytes(const buffer_object& source, std::size_t offset, nb::handle target) {
  const writable_bytes room(target);
  without_gil([&] { copy_to_host(*source.value, offset, room.span()); });
}

/// Compares addresses, because a view of external memory may refer to our own bytes.
bool overlap(const buffer& a, const buffer& b) {
  return a.address() < b.address() + b.size() && b.address() < a.address() + a.size();
}

/// Copies on the work stream of the target's context. The buffers have equal sizes and may be on different
/// devices.
void copy_whole(const buffer& to, const buffer& from) {
  const std::shared_ptr<context>& ctx = to.owner()->ctx();
  const stream_ref work = ctx->work_stream();
  use_token token(work, {reads(from), writes(to)});
  ctx->copies().copy(token.span<std::byte>(to).data(), token.span<const std::byte>(from).data(), to.size(),
                     copy_between(from.kind(), to.kind()), work);
  token.finish();
}

/// Overlapping ranges are copied through a temporary buffer, because a device copy reads and writes in any
/// order.
void copy_bytes(const buffer_object& target, std::size_t target_offset, const buffer_object& source,
                std::size_t source_offset, std::size_t bytes) {
  without_gil([&] {
    const buffer from = source.value->slice(source_offset, bytes);
    const buffer to = target.value->slice(target_offset, bytes);
    if (bytes == 0) {
      return;
    }
    if (!overlap(from, to)) {
      return copy_whole(to, from);
    }
    const std::shared_ptr<context>& ctx = to.owner()->ctx();
    const buffer between = buffer::allocate(ctx, bytes, ctx->work_stream(), "overlapping copy");
    copy_whole(between, from);
    copy_whole(to, between);
  });
}

/// A view of writable external memory, ordered after all work that is queued on the device.
buffer_object foreign_bytes(const context_object& ctx, std::uintptr_t address, std::size_t bytes,
                            nb::object owner, std::string label) {
  external_memory memory;
  memory.keepalive = std::shared_ptr<void>(
      owner.release().ptr(), [](void* object) { // may be dropped on threads that do not hold the GIL
        with_gil_or_leak([object] { Py_DECREF(static_cast<PyObject*>(object)); });
      });
  return without_gil([&] {
    const std::shared_ptr<context> into = ctx.value;
    const auto queued = into->clocks()->mark_device();
    if (!queued) {
      throw error(errc::busy, "can't wait for users of external memory while a graph is captured");
    }
    memory.pointer = reinterpret_cast<void*>(address);
    memory.bytes = bytes;
    memory.device = into->device();
    memory.access = mutability::writable;
    memory.ready = *queued;
    memory.tag = std::move(label);
    return buffer_object(buffer::adopt(into, std::move(memory)));
  });
}

std::string kind_at(const context_object& ctx, std::uintptr_t address) {
  return without_gil([&] {
    return std::string(
        to_string(ctx.value->device_backend()->kind_of(reinterpret_cast<const void*>(address))));
  });
}

} // namespace

void bind_bytes(nb::module_& m) {
  m.def("_write_bytes", &write_bytes, nb::arg("target"), nb::arg("offset"), nb::arg("source"),
        nb::sig("def _write_bytes(target: Buffer, offset: int, source: typing_extensions.Buffer) -> None"),
        "Copies host memory into a buffer, behind its users; returns when that is done.");
  m.def("_read_bytes", &read_bytes, nb::arg("source"), nb::arg("offset"), nb::arg("target"),
        nb::sig("def _read_bytes(source: Buffer, offset: int, target: typing_extensions.Buffer) -> None"),
        "Fills writable host memory from a buffer, behind its last writers; returns when that is done.");
  m.def("_copy_bytes", &copy_bytes, nb::arg("target"), nb::arg("target_offset"), nb::arg("source"),
        nb::arg("source_offset"), nb::arg("nbytes"),
        nb::sig("def _copy_bytes(target: Buffer, target_offset: int, source: Buffer, source_offset: int, "
                "nbytes: int) -> None"),
        "Copies among buffers in order; the host does not wait.");
  m.def(
      "_foreign_bytes", &foreign_bytes, nb::arg("where"), nb::arg("address"), nb::arg("nbytes"),
      nb::arg("owner").none(), nb::arg("tag"),
      nb::sig(
          "def _foreign_bytes(where: Context, address: int, nbytes: int, owner: object, tag: str) -> Buffer"),
      "A view of memory that the device can access and `owner` keeps alive.");
  m.def("_kind_at", &kind_at, nb::arg("where"), nb::arg("address"),
        nb::sig("def _kind_at(where: Context, address: int) -> str"),
        "The kind of the memory at an address according to the driver: \"device\", \"managed\", \"pinned\", "
        "or \"host\" for memory that it does not know.");
  m.def(
      "_driver_context",
      [](const context_object& ctx) {
        return without_gil([&] { return driver_context(ctx.value->device()); });
      },
      nb::arg("where"), nb::sig("def _driver_context(where: Context) -> int"),
      "The CUcontext that the context works in; 0 if there is none.");
}

} // namespace saeta::py
