// How objects behave under pickle and copy.
#pragma once

#include "python/src/core/module.hpp"

namespace saeta::py {

/// For a class whose objects are valid only in their process. Pickling one raises type_mismatch with advice;
/// so does copying, unless the class defines it.
class not_pickled : public nb::def_visitor<not_pickled> {
public:
  /// @param instead  what to do instead, for the message.
  explicit not_pickled(const char* instead) : instead_(instead) {}

  template <class Class, class... Extra>
  void execute(Class& c, const Extra&...) {
    c.def(
        "__reduce_ex__",
        [instead = instead_](nb::handle self, nb::handle) -> nb::object {
          throw error(errc::type_mismatch,
                      concat(with_article(nb::cast<std::string>(self.type().attr("__name__"))),
                             " belongs to its process and can't be pickled: ", instead));
        },
        nb::arg("protocol"),
        nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> typing.Never"),
        "Raises TypeMismatch, which names what to do instead.");
  }

private:
  const char* instead_;
};

/// For a class whose objects are immutable or must stay unique: `copy.copy` and `copy.deepcopy` return the
/// object itself.
class copied_as_itself : public nb::def_visitor<copied_as_itself> {
public:
  template <class Class, class... Extra>
  void execute(Class& c, const Extra&...) {
    c.def(
         "__copy__", [](nb::object self) { return self; },
         nb::sig("def __copy__(self) -> typing_extensions.Self"))
        .def(
            "__deepcopy__", [](nb::object self, nb::handle) { return self; }, nb::arg("memo"),
            nb::sig("def __deepcopy__(self, memo: object) -> typing_extensions.Self"), "The object itself.");
  }
};

/// For a class that a function of saeta/_share/pickling.py pickles.
class pickled_by : public nb::def_visitor<pickled_by> {
public:
  /// @param reduce  name of that function, which takes the object and the protocol.
  explicit pickled_by(const char* reduce) : reduce_(reduce) {}

  template <class Class, class... Extra>
  void execute(Class& c, const Extra&...) {
    c.def("__reduce_ex__", in_python("saeta._share.pickling", reduce_),
          nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> tuple[typing.Any, ...]"));
  }

private:
  const char* reduce_;
};

} // namespace saeta::py
