#include "python/src/dlpack/torch_tensors.hpp"

#include "python/src/core/gil.hpp"
#include "python/src/dlpack/exchange_api.hpp"

#include <utility>

namespace saeta::py {
namespace {

/// Python objects that are never freed.
struct constants {
  PyObject* torch = PyUnicode_InternFromString("torch");
  PyObject* tensor = PyUnicode_InternFromString("Tensor");
  PyObject* requires_grad = PyUnicode_InternFromString("requires_grad");
  PyObject* is_neg = PyUnicode_InternFromString("is_neg");
};

const constants& names() {
  static const constants made;
  return made;
}

} // namespace

bool is_torch_tensor(nb::handle source) { return is_instance_of(source, names().torch, names().tensor); }

void require_plain_values(nb::handle source) {
  const auto [gradient, negated] = foreign_call([&] {
    PyObject* const self = source.ptr();
    // Without an object for the method: a hand-over takes a microsecond or two.
    nb::object sign = nb::steal(PyObject_VectorcallMethod(names().is_neg, &self, 1, nullptr));
    if (!sign.is_valid()) {
      throw nb::python_error();
    }
    return std::pair(nb::object(source.attr(nb::handle(names().requires_grad))), std::move(sign));
  });
  if (gradient.is(nb::handle(Py_True))) {
    throw error(errc::exchange,
                "the tensor requires a gradient, which a column does not have: pass tensor.detach()");
  }
  if (negated.is(nb::handle(Py_True))) {
    throw error(errc::exchange, "the tensor is a view that negates its values: pass tensor.resolve_neg()");
  }
}

nb::object on_torch_device(tensor_device device, const std::function<nb::object()>& ask) {
  const nb::object current = foreign_call([&]() -> nb::object {
    nb::object made = nb::handle(imported_module(names().torch)).attr("cuda").attr("device")(device.ordinal);
    made.attr("__enter__")();
    return made;
  });
  const auto leave = [&] {
    foreign_call([&] { current.attr("__exit__")(nb::none(), nb::none(), nb::none()); });
  };
  nb::object made;
  try {
    made = ask();
  } catch (...) {
    leave();
    throw;
  }
  leave();
  return made;
}

} // namespace saeta::py
