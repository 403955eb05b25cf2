// The module `_rmm`, built if RMM is installed: contexts that allocate from resources of RMM's Python
// package.
//
// Owner     A source keeps both the Python object and its C++ resource, because RMM's adaptors do not own
//           their upstream resource. The last context made from the source releases both.
// Thread    The resource is used without the GIL.
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/rmm/rmm_resource.hpp"
#include "saeta/runtime/runtime.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <rmm/mr/per_device_resource.hpp>

namespace saeta::py {
namespace {

using any_rmm_resource = cuda::mr::any_resource<cuda::mr::device_accessible>;

/// A copy of RMM's current resource of the device. RMM hands out the resource only when it is replaced, so it
/// is set again.
any_rmm_resource current_resource(rmm::cuda_device_id device) {
  any_rmm_resource current = rmm::mr::reset_per_device_resource(device);
  any_rmm_resource copy = current;
  rmm::mr::set_per_device_resource(device, std::move(current));
  return copy;
}

std::shared_ptr<void> keep_alive(nb::object python) {
  return {python.release().ptr(),
          [](void* object) { with_gil_or_leak([object] { Py_DECREF(static_cast<PyObject*>(object)); }); }};
}

struct with_python {
  with_python(std::shared_ptr<void> object, std::shared_ptr<backend> of, any_rmm_resource from)
      : python(std::move(object)), memory(std::move(of), std::move(from)) {}

  std::shared_ptr<void> python; // destroyed after `memory`, which refers to it
  rmm_resource<any_rmm_resource> memory;
};

class source_object {
public:
  source_object(std::int32_t ordinal, nb::object python)
      : resource_(current_resource(rmm::cuda_device_id{ordinal})), python_(keep_alive(std::move(python))) {}

  [[nodiscard]] context_object open(const std::string& device, std::optional<std::string> stack,
                                    std::optional<std::int64_t> wait) const {
    return without_gil([&] {
      open_options options;
      options.stack = std::move(stack);
      if (wait) {
        options.wait = std::chrono::milliseconds(*wait);
      }
      options.slabs = [resource = resource_, python = python_](const std::shared_ptr<backend>& of) {
        const auto made = std::make_shared<with_python>(python, of, resource);
        return std::shared_ptr<saeta::resource>(made, &made->memory);
      };
      return context_object{open_context(parse_device(device), options)};
    });
  }

private:
  any_rmm_resource resource_;
  std::shared_ptr<void> python_;
};

} // namespace
} // namespace saeta::py

NB_MODULE(_rmm, m) {
  using namespace saeta::py;
  static nb::handle first;
  if (is_imported_again(m, first)) {
    return;
  }
  m.doc() = "Contexts over resources of RMM.";
  nb::set_leak_warnings(false);
  nb::module_::import_("saeta._core"); // defines the classes and exceptions of contexts
  nb::class_<source_object>(m, "Source", "The resource that RMM has as the current one of a device.")
      .def(nb::init<std::int32_t, nb::object>(), nb::arg("ordinal"), nb::arg("upstream"))
      .def("open", &source_object::open, nb::arg("device"), nb::arg("stack").none(), nb::arg("wait").none(),
           "The device's context, made with its cache over the resource; `wait` in milliseconds.");
  first = nb::object(m).release();
}
