// Lends memory of a context, by address, to allocators of other libraries. saeta.rmm and saeta.allocators are
// built on it.
//
// Thread    Every call enters the core without the GIL. Otherwise a call could hold the GIL and wait for a
//           lock of the core, whose holder waits for the GIL.
#include "saeta/memory/loans/lent_memory.hpp"

#include "python/src/allocators/torch_allocator.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/interop/dlpack/types.hpp"
#include "saeta/memory/context.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

namespace saeta::py {
namespace {

/// Empty on the host, where streams of other libraries have no meaning, and if no stream is given.
std::optional<stream_handle> stream_of(const context& ctx, std::optional<std::int64_t> number) {
  return number && !ctx.on_host() ? tensor_stream(*number) : std::nullopt;
}

std::uintptr_t lend_address(const context_object& from, std::size_t bytes, const std::string& label,
                            std::optional<std::int64_t> stream) {
  return without_gil([&] {
    const context& ctx = *from.value;
    const auto handle = stream_of(ctx, stream);
    const stream_ref on = handle ? stream_ref(*ctx.device_backend(), *handle) : ctx.work_stream();
    return reinterpret_cast<std::uintptr_t>(lend_memory(from.value, bytes, on, label));
  });
}

std::uintptr_t lend_ready(const context_object& from, std::size_t bytes, const std::string& label) {
  return without_gil(
      [&] { return reinterpret_cast<std::uintptr_t>(lend_ready_memory(from.value, bytes, label)); });
}

void take_back(const context_object& ctx, std::uintptr_t address, std::size_t bytes,
               std::optional<std::int64_t> stream) {
  without_gil(
      [&] { take_back_memory(reinterpret_cast<void*>(address), bytes, stream_of(*ctx.value, stream)); });
}

/// Returns the memory when destroyed. The streams that used it are unknown.
class lent_object {
public:
  lent_object(const context_object& ctx, std::size_t bytes, const std::string& label,
              std::optional<std::int64_t> stream)
      : address_(lend_address(ctx, bytes, label, stream)), bytes_(bytes) {}
  lent_object(const lent_object&) = delete;
  lent_object& operator=(const lent_object&) = delete;
  ~lent_object() {
    released_gil([this] { take_back_memory(reinterpret_cast<void*>(address_), bytes_, std::nullopt); });
  }

  [[nodiscard]] std::uintptr_t address() const noexcept { return address_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
  std::uintptr_t address_;
  std::size_t bytes_;
};

template <class Hook>
std::uintptr_t address_of(Hook* hook) {
  return reinterpret_cast<std::uintptr_t>(hook);
}

nb::dict serve_tensors(const context_object& ctx, std::int32_t ordinal, const std::string& label) {
  without_gil([&] { serve_torch({ctx.value, label}, ordinal, torch_memory::tensors); });
  nb::dict hooks;
  hooks["set_record_stream_fn"] = address_of(&saeta_torch_record_stream);
  hooks["set_begin_allocate_to_pool"] = address_of(&saeta_torch_begin_pool);
  hooks["set_end_allocate_to_pool_fn"] = address_of(&saeta_torch_end_pool);
  hooks["set_release_pool"] = address_of(&saeta_torch_release_pool);
  return hooks;
}

void serve_segments(const context_object& ctx, std::int32_t ordinal, const std::string& label) {
  without_gil([&] { serve_torch({ctx.value, label}, ordinal, torch_memory::segments); });
}

} // namespace

void bind_lent(nb::module_& m) {
  m.def("_lend", &lend_address, nb::arg("where"), nb::arg("nbytes"), nb::arg("tag"), nb::arg("stream").none(),
        nb::sig("def _lend(where: Context, nbytes: int, tag: str, stream: int | None) -> int"),
        "Address of memory that is charged to the context until `_take_back`, ready on a stream as "
        "`__dlpack__` numbers it (None: the context's own).");
  m.def("_lend_ready", &lend_ready, nb::arg("where"), nb::arg("nbytes"), nb::arg("tag"),
        nb::sig("def _lend_ready(where: Context, nbytes: int, tag: str) -> int"),
        "The same, ready on every stream: the host waits for earlier users.");
  m.def("_take_back", &take_back, nb::arg("where"), nb::arg("address"), nb::arg("nbytes"),
        nb::arg("stream").none(),
        nb::sig("def _take_back(where: Context, address: int, nbytes: int, stream: int | None) -> None"),
        "Ends a loan behind the work queued on the stream (None: on the whole device). Never raises.");
  nb::class_<lent_object>(m, "_LentMemory",
                          "Memory charged to a context until this is dropped; reused behind all work.")
      .def(nb::init<const context_object&, std::size_t, const std::string&, std::optional<std::int64_t>>(),
           nb::arg("where"), nb::arg("nbytes"), nb::arg("tag"), nb::arg("stream").none(),
           nb::sig("def __init__(self, where: Context, nbytes: int, tag: str, stream: int | None) -> None"))
      .def_prop_ro("address", &lent_object::address)
      .def_prop_ro("nbytes", &lent_object::bytes);
  m.def("_serve_torch", &serve_tensors, nb::arg("where"), nb::arg("ordinal"), nb::arg("tag"),
        nb::sig("def _serve_torch(where: Context, ordinal: int, tag: str) -> dict[str, int]"),
        "Makes saeta_torch_allocate of this library lend from the context for the device of that number. "
        "Returns the addresses of the hooks, by the names of the setters of torch's allocator.");
  m.def("_serve_torch_segments", &serve_segments, nb::arg("where"), nb::arg("ordinal"), nb::arg("tag"),
        nb::sig("def _serve_torch_segments(where: Context, ordinal: int, tag: str) -> None"),
        "As `_serve_torch`, for saeta_torch_allocate_segment.");
}

} // namespace saeta::py
