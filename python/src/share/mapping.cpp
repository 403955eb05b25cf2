// Files in memory that other processes share, as Python objects with the buffer protocol.
#include "python/src/core/module.hpp"
#include "python/src/share/descriptor.hpp"

#include <cstddef>
#include <utility>

#include <sys/mman.h>

namespace saeta::py {
namespace {

/// A read-only view of a file. It needs no descriptor.
class mapping {
public:
  mapping(int number, std::size_t bytes, nb::object kept) : bytes_(bytes), kept_(std::move(kept)) {
    // A private mapping: before Linux 6.7 a file that is sealed against writing can't be mapped shared, not
    // even to read. Pages that are never written are the same memory in both kinds of mapping.
    data_ = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, number, 0);
    if (data_ == MAP_FAILED) {
      throw_system_error();
    }
  }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;
  ~mapping() { ::munmap(data_, bytes_); }

  static int fill(PyObject* self, Py_buffer* view, int flags) {
    const mapping& of = *nb::inst_ptr<mapping>(self);
    return PyBuffer_FillInfo(view, self, of.data_, static_cast<Py_ssize_t>(of.bytes_), 1, flags);
  }

private:
  void* data_ = nullptr;
  std::size_t bytes_;
  nb::object kept_;
};

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&mapping::fill)}, {0, nullptr}};

} // namespace

void bind_mappings(nb::module_& m) {
  nb::class_<mapping>(m, "_FileMapping", nb::type_slots(slots),
                      "The first bytes of a file, which must not change, for reading. Keeps `kept`.")
      .def(nb::init<int, std::size_t, nb::object>(), nb::arg("number"), nb::arg("nbytes"), nb::arg("kept"),
           nb::sig("def __init__(self, number: int, nbytes: int, kept: object) -> None"))
      .def(
          "view", [](const nb::object& self) { return nb::steal(PyMemoryView_FromObject(self.ptr())); },
          nb::sig("def view(self) -> memoryview"));
}

} // namespace saeta::py
