// The parts of the module `_core`, one function each.
#pragma once

#include "python/src/core/gil.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>
#include <functional>

namespace saeta::py {

namespace nb = nanobind;

void install_interrupts();
void bind_cancellation(nb::module_& m);
void install_reports();
void bind_errors();
/// Makes the classes of errors that this module raises those of `saeta.errors` again.
void restore_errors();
/// Sets the Python exception of an error, for callbacks from C code. With the GIL held.
/// @throws nb::python_error.
void raise(const error& failure);
/// Bytes by the names of tags or budgets.
nb::dict bytes_dict(const budget_refusal::bytes_by_tag& bytes);
void bind_device(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_symbols(nb::module_& m);
void bind_type(nb::module_& m);
void bind_column(nb::module_& m);
void bind_table(nb::module_& m);
void bind_counted_table(nb::module_& m);
void bind_permutations(nb::module_& m);
void bind_arrow(nb::module_& m);
void bind_cuda_array(nb::module_& m);
void bind_dlpack(nb::module_& m);
void bind_chosen_tensors(nb::module_& m);
void bind_lent(nb::module_& m);
void bind_bytes(nb::module_& m);
void bind_sharing(nb::module_& m);
void bind_graph_pool(nb::module_& m);
void bind_measure(nb::module_& m);
void bind_read_times(nb::module_& m);
void bind_use(nb::module_& m);
/// The functions that bind the parts. A class must be bound before the functions that return it.
inline constexpr std::array bind_functions{
    bind_device, bind_memory,     bind_symbols,       bind_type,           bind_column,
    bind_use,    bind_table,      bind_counted_table, bind_permutations,   bind_cancellation,
    bind_arrow,  bind_cuda_array, bind_dlpack,        bind_chosen_tensors, bind_lent,
    bind_bytes,  bind_sharing,    bind_graph_pool,    bind_measure,        bind_read_times};
/// Must be called last. Gives every function of the module a signature for `inspect` and clear messages for
/// wrong argument types.
void complete_functions(nb::module_& m);

/// For a module that is imported again, because its entry in sys.modules was removed: nanobind knows its
/// classes already, so it gets the content of the first import. Returns false for the first import.
/// @param first  set at the end of the first import, and kept until the process ends
inline bool is_imported_again(nb::module_& m, nb::handle first) {
  if (!first.is_valid()) {
    return false;
  }
  nb::cast<nb::dict>(m.attr("__dict__")).update(nb::cast<nb::dict>(first.attr("__dict__")));
  return true;
}

/// A method implemented by the Python function `function` of `module`, which is imported at the first call.
/// Used for code that needs NumPy, pyarrow or a framework, and for text for users.
inline auto in_python(const char* module, const char* function) {
  return [module, function](nb::handle self, const nb::args& args, const nb::kwargs& kwargs) -> nb::object {
    return foreign_call(
        [&]() -> nb::object { return nb::module_::import_(module).attr(function)(self, *args, **kwargs); });
  };
}

/// For a class without a public constructor: calling it raises an error that names the function to use.
class made_by : public nb::def_visitor<made_by> {
public:
  explicit made_by(const char* maker) : maker_(maker) {}

  template <class Class, class... Extra>
  void execute(Class& c, const Extra&...) {
    c.def(
        "__init__",
        [maker = maker_](nb::handle self, const nb::args&, const nb::kwargs&) {
          throw error(errc::type_mismatch,
                      concat(with_article(nb::cast<std::string>(self.type().attr("__name__"))),
                             " can't be made by calling its class: use ", maker));
        },
        nb::sig("def __init__(self, *args: object, **kwargs: object) -> None"),
        "Raises TypeMismatch, which names the function that makes one.");
  }

private:
  const char* maker_;
};

/// A `with` block: `__enter__` calls `Enter`, if given, and returns the object; `__exit__` calls `Leave`.
template <auto Leave, auto Enter = nullptr>
class with_block : public nb::def_visitor<with_block<Leave, Enter>> {
public:
  /// @param enter  the signature of `__enter__`.
  explicit with_block(const char* enter) : enter_(enter) {}

  template <class Class, class... Extra>
  void execute(Class& c, const Extra&...) {
    using object = typename Class::Type;
    c.def(
         "__enter__",
         [](nb::object self) {
           if constexpr (Enter != nullptr) {
             std::invoke(Enter, nb::cast<object&>(self));
           }
           return self;
         },
         nb::sig(enter_))
        .def(
            "__exit__", [](object& self, const nb::args&) { std::invoke(Leave, self); },
            nb::sig("def __exit__(self, *exception: object) -> None"));
  }

private:
  const char* enter_;
};

} // namespace saeta::py
