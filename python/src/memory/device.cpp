// Devices, and the capabilities of this build and this machine.
#include "python/src/core/gil.hpp"
#include "python/src/core/module.hpp"
#include "python/src/core/pickling.hpp"
#include "saeta/base/text.hpp"
#include "saeta/runtime/runtime.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace saeta::py {
namespace {

std::string describe_entry(const device_entry& device) {
  return concat("<saeta.Device ", to_string(device.id), ": ", device.properties.name, ", ",
                human_bytes(device.properties.total_bytes), ">");
}

nb::dict runtime_dict() {
  const runtime_report report = without_gil([] { return describe_runtime(); });
  nb::dict result;
  result["built_with_cuda"] = report.built_with_cuda;
  result["cuda_usable"] = report.cuda_usable;
  result["cuda_missing"] = report.cuda_missing;
  result["cuda_runtime"] = report.cuda_runtime;
  result["cuda_driver"] = report.cuda_driver;
  return result;
}

} // namespace

void bind_device(nb::module_& m) {
  nb::class_<device_entry>(m, "Device",
                           "A device that can be used now."
                           "\n\nExample:\n"
                           "    >>> import saeta as sa\n"
                           "    >>> host = sa.devices()[-1]\n"
                           "    >>> host.name\n"
                           "    'host'")
      .def(made_by("saeta.devices"))
      .def(copied_as_itself())
      .def(not_pickled("pass its name, and look for it among saeta.devices() there"))
      .def_prop_ro(
          "name", [](const device_entry& d) { return to_string(d.id); },
          "How Saeta names it: \"host\" or \"cuda:0\".")
      .def_prop_ro(
          "kind", [](const device_entry& d) { return static_cast<int>(d.id.kind); },
          "Device type as DLPack and Arrow number it.")
      .def_prop_ro(
          "ordinal", [](const device_entry& d) { return d.id.ordinal; },
          "Its number among those of its kind.")
      .def_prop_ro(
          "model", [](const device_entry& d) { return d.properties.name; }, "Name of the product.")
      .def_prop_ro(
          "architecture", [](const device_entry& d) { return d.properties.architecture; },
          "Compute capability of a GPU, instruction set of the host.")
      .def_prop_ro(
          "driver", [](const device_entry& d) { return d.properties.driver; },
          "Driver version, empty on the host.")
      .def_prop_ro(
          "total_bytes", [](const device_entry& d) { return d.properties.total_bytes; },
          "Bytes of memory of the whole device.")
      .def_prop_ro(
          "free_bytes", [](const device_entry& d) { return d.properties.free_bytes; },
          "Bytes free in the whole device when this object was made. None for a CUDA device that this "
          "process does not use yet: only a CUDA context can tell, and asking makes none.")
      .def_prop_ro(
          "multiprocessors", [](const device_entry& d) { return d.properties.multiprocessors; },
          "Streaming multiprocessors, or threads of the CPU.")
      .def("__repr__", &describe_entry);

  m.def("devices", &devices, nb::call_guard<gil_release>(),
        "Devices that can be used now: CUDA devices first, then the host. Needs no driver, makes no CUDA "
        "context and takes no memory of any device."
        "\n\nExample:\n"
        "    >>> import saeta as sa\n"
        "    >>> [device.name for device in sa.devices() if device.name == 'host']\n"
        "    ['host']");
  m.def("_human_bytes", &human_bytes, nb::arg("bytes"),
        "Bytes with a binary unit and at most two decimals: \"512 B\", \"1.5 KiB\", \"8 GiB\".");
  m.def(
      "_parse_bytes", [](const std::string& text) { return parse_bytes(text); }, nb::arg("text"),
      "Bytes of a size for people, as \"8GiB\".");
  m.def("_runtime", &runtime_dict, nb::sig("def _runtime() -> dict[str, typing.Any]"),
        "What this build and this machine can do, and if CUDA can't be used, why.");
}

} // namespace saeta::py
