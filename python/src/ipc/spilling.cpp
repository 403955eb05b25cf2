// The part of the module `_ipc` that spills: the functions behind saeta/_share/spilling.py.
#include "python/src/core/objects.hpp"
#include "python/src/core/pickling.hpp"
#include "python/src/ipc/writing.hpp"
#include "python/src/memory/memory_objects.hpp"
#include "saeta/spill/spill.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace saeta::py {
namespace {

/// A value whose destructor may move or free memory, and so runs without the GIL.
template <class T>
class spill_object {
public:
  explicit spill_object(T of) : value_(std::move(of)) {}
  spill_object(const spill_object&) = delete;
  spill_object& operator=(const spill_object&) = delete;
  ~spill_object() { end(); }

  void end() {
    if (value_) {
      released_gil([this] { value_.reset(); });
    }
  }
  [[nodiscard]] const std::optional<T>& value() const noexcept { return value_; }

private:
  std::optional<T> value_;
};

using handle_object = spill_object<spill_handle>;
using use_object = spill_object<spill_use>;

std::unique_ptr<handle_object> make_handle(const context_object& ctx, const table_object& kept, int priority,
                                           std::optional<bool> compress) {
  return without_gil([&] {
    return std::make_unique<handle_object>(
        spillable(std::shared_ptr<context>(ctx.value), *kept.value, priority, compress));
  });
}

std::unique_ptr<use_object> begin_use(const handle_object& of, const std::optional<context_object>& with) {
  return without_gil([&] {
    const spill_handle& handle = *of.value();
    return std::make_unique<use_object>(
        handle.use(with ? std::shared_ptr<context>(with->value) : handle.ctx()));
  });
}

table_object table_of(const use_object& of) {
  if (!of.value()) {
    throw error(errc::closed, "the use of the spillable table has ended");
  }
  return table_object(of.value()->value());
}

std::string spill_to(const handle_object& of, const std::optional<std::string>& tier) {
  return std::string(to_string(without_gil(
      [&] { return of.value()->spill(tier ? std::optional(parse_spill_tier(*tier)) : std::nullopt); })));
}

nb::dict statistics_dict(const memory_view& of) {
  const spill_statistics now =
      without_gil([&] { return read_spill_statistics(std::shared_ptr<context>(of.value)); });
  nb::dict tiers;
  for (std::size_t i = 0; i < now.tiers.size(); ++i) {
    const spill_tier_statistics& seen = now.tiers[i];
    nb::dict shown;
    shown["handles"] = seen.handles;
    shown["bytes"] = seen.bytes;
    shown["charged"] = seen.charged;
    shown["limit"] = seen.limit == spill_options::unlimited ? nb::none() : nb::object(nb::int_(seen.limit));
    shown["spills"] = seen.spills;
    shown["spilled_bytes"] = seen.spilled_bytes;
    shown["demotions"] = seen.demotions;
    shown["demoted_bytes"] = seen.demoted_bytes;
    shown["returns"] = seen.returns;
    shown["returned_bytes"] = seen.returned_bytes;
    tiers[nb::str(std::string(to_string(static_cast<spill_tier>(i))).c_str())] = shown;
  }
  nb::dict result;
  result["tiers"] = tiers;
  result["refusals_avoided"] = now.refusals_avoided;
  result["failures"] = now.failures;
  return result;
}

} // namespace

void bind_spilling(nb::module_& m) {
  nb::class_<use_object>(m, "SpillUse", "A spillable table in use.")
      .def(not_pickled("use the table where the handle is"))
      .def_prop_ro("table", &table_of, nb::sig("def table(self) -> saeta._core.Table"))
      .def("end", &use_object::end, "Gives the table back to its handle.");
  nb::class_<handle_object>(m, "SpillHandle", "A spillable table.")
      .def(not_pickled("pickle the table"))
      .def("use", &begin_use, nb::arg("ctx").none() = nb::none(),
           nb::sig("def use(self, ctx: saeta._core.Context | None = None) -> SpillUse"),
           "Brings the table back. None: charged to the handle's own context.")
      .def("spill", &spill_to, nb::arg("tier").none() = nb::none(),
           nb::sig("def spill(self, tier: str | None = None) -> str"),
           "Moves the table to a tier; which one.")
      .def(
          "close", [](const handle_object& of) { without_gil([&] { of.value()->close(); }); },
          "Gives the table up.")
      .def_prop_ro("tier",
                   [](const handle_object& of) {
                     return std::string(to_string(without_gil([&] { return of.value()->tier(); })));
                   })
      .def_prop_ro("closed",
                   [](const handle_object& of) { return without_gil([&] { return of.value()->closed(); }); })
      .def_prop_ro("nbytes", [](const handle_object& of) { return of.value()->bytes(); })
      .def_prop_ro(
          "stored_nbytes",
          [](const handle_object& of) { return without_gil([&] { return of.value()->stored_bytes(); }); })
      .def_prop_ro("priority", [](const handle_object& of) { return of.value()->priority(); })
      .def_prop_ro(
          "context", [](const handle_object& of) { return context_object{of.value()->ctx()}; },
          nb::sig("def context(self) -> saeta._core.Context"));
  m.def("spillable", &make_handle, nb::arg("ctx"), nb::arg("table"), nb::arg("priority"),
        nb::arg("compress").none(),
        nb::sig("def spillable(ctx: saeta._core.Context, table: saeta._core.Table, priority: int, "
                "compress: bool | None) -> SpillHandle"),
        "Keeps a table where it may leave the device.");
  m.def("spill_statistics", &statistics_dict, nb::arg("memory"),
        nb::sig("def spill_statistics(memory: saeta._core.Memory) -> dict[str, typing.Any]"),
        "What became of the handles of a device.");
}

} // namespace saeta::py
