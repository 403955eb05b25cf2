#include "python/src/share/descriptor.hpp"

#include "python/src/core/module.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace saeta::py {
namespace {

descriptor* first = nullptr;

descriptor memory_file(const char* name) {
  const int number = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (number < 0) {
    throw_system_error();
  }
  return descriptor(number);
}

} // namespace

descriptor::descriptor(int number) noexcept : number_(number) { link(); }

descriptor::descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) { link(); }

descriptor::~descriptor() {
  close();
  *link_ = next_;
  if (next_ != nullptr) {
    next_->link_ = link_;
  }
}

void descriptor::link() noexcept {
  next_ = first;
  link_ = &first;
  first = this;
  if (next_ != nullptr) {
    next_->link_ = &next_;
  }
}

void descriptor::close() noexcept {
  if (number_ >= 0) {
    ::close(std::exchange(number_, -1));
  }
}

void descriptor::close_all() noexcept {
  for (descriptor* each = first; each != nullptr; each = each->next_) {
    each->close();
  }
}

void throw_system_error() {
  foreign_call([] { PyErr_SetFromErrno(PyExc_OSError); });
  throw nb::python_error();
}

void bind_descriptors(nb::module_& m) {
  nb::class_<descriptor>(m, "_Descriptor", "A file descriptor, which is closed with the object.")
      .def_prop_ro("number", &descriptor::number, "-1 once it is closed.")
      .def("close", &descriptor::close);
  m.def("_memory_file", &memory_file, nb::arg("name"),
        "An unnamed file in memory, which can be sealed. OSError if the system refuses one.");
  m.def("_close_descriptors", &descriptor::close_all, "Closes them all, in a child of fork.");
}

} // namespace saeta::py
