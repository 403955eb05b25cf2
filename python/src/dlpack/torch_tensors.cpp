#include "python/src/dlpack/torch_tensors.hpp"

#include "python/src/core/gil.hpp"
#include "python/src/dlpack/exchange_api.hpp"

#include <atomic>
#include <cstdint>

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

/// Whether the tensor may be the imaginary part of a conjugate, which torch negates when it is read. The values
/// of such a part are two numbers apart, and the first is the second number of a pair.
bool may_be_imaginary_part(const DLTensor& exported) {
  const std::uintptr_t width = exported.dtype.bits / 8U;
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(exported.data) + exported.byte_offset;
  if (width == 0 || first % (2 * width) != 0) {
    return true;
  }
  for (std::int32_t i = 0; i < exported.ndim; ++i) {
    if (exported.shape[i] > 1 && (exported.strides == nullptr || exported.strides[i] == 1)) {
      return false;
    }
  }
  return true;
}

/// Whether a type with these C functions is one of torch. All its tensors share one table.
bool is_torch_table(nb::handle source, const DLPackExchangeAPI& table) {
  static std::atomic<const DLPackExchangeAPI*> known{nullptr};
  if (known.load(std::memory_order_relaxed) == &table) {
    return true;
  }
  const bool found = is_torch_tensor(source);
  if (found) {
    known.store(&table, std::memory_order_relaxed);
  }
  return found;
}

} // namespace

bool is_torch_tensor(nb::handle source) { return is_instance_of(source, names().torch, names().tensor); }

producer::producer(nb::handle given)
    : object(given), table(exchange_api_of(Py_TYPE(given.ptr()))),
      is_ours(table != nullptr && is_own(*table)),
      is_of_torch(table != nullptr && !is_ours && is_torch_table(given, *table)) {}

void require_no_gradient(nb::handle source) {
  const nb::object gradient =
      foreign_call([&] { return nb::object(source.attr(nb::handle(names().requires_grad))); });
  if (gradient.is(nb::handle(Py_True))) {
    throw error(errc::exchange,
                "the tensor requires a gradient, which a column does not have: pass tensor.detach()");
  }
}

void require_values_as_they_are(nb::handle source, const DLTensor& exported) {
  if (!may_be_imaginary_part(exported)) {
    return; // a hand-over takes a microsecond or two, and torch drops and takes the GIL to answer
  }
  const nb::object negated = foreign_call([&] { return source.attr(nb::handle(names().is_neg))(); });
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
