// Contexts: their budget, memory statistics and counters.
#include "module.hpp"
#include "objects.hpp"
#include "saeta/base/text.hpp"
#include "saeta/runtime/runtime.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <chrono>
#include <cstdint>
#include <variant>

namespace saeta::py {
namespace {

using size_spec = std::variant<std::uint64_t, std::string>;

/// The memory of a context, as `Context.memory` shows it.
struct memory_view {
  std::shared_ptr<context> value;
};

std::uint64_t to_bytes(const size_spec& given, const context& where) {
  if (const auto* bytes = std::get_if<std::uint64_t>(&given)) {
    return *bytes;
  }
  return parse_bytes(std::get<std::string>(given), where.device_backend()->properties().total_bytes);
}

nb::object limit_or_none(std::uint64_t limit) {
  return limit == budget::unlimited ? nb::none() : nb::object(nb::int_(limit));
}

context_object open(const std::optional<std::string>& device, const std::optional<size_spec>& limit) {
  return without_gil([&] {
    auto where = open_context(device ? parse_device(*device) : best_device());
    if (limit) {
      where->memory_budget()->set_limit(to_bytes(*limit, *where));
    }
    return context_object{std::move(where)};
  });
}

void set_budget(const context_object& self, const std::optional<size_spec>& limit) {
  const std::uint64_t bytes =
      limit ? without_gil([&] { return to_bytes(*limit, *self.value); }) : budget::unlimited;
  self.value->memory_budget()->set_limit(bytes);
}

void synchronize(const context_object& self) {
  context& where = *self.value;
  if (const auto everything = where.events().record_context()) {
    where.synchronize(*everything);
  } else {
    where.synchronize(where.work_stream());
  }
  static_cast<void>(where.wait_for_releases(std::chrono::seconds(10)));
}

nb::dict traffic_dict(const traffic& moved) {
  nb::dict result;
  result["transfers"] = moved.transfers;
  result["calls"] = moved.calls;
  result["bytes"] = moved.bytes;
  return result;
}

nb::dict counters_dict(const context_object& self) {
  const counter_values values = self.value->count().read();
  nb::dict result;
  result["host_to_device"] = traffic_dict(values.host_to_device);
  result["device_to_host"] = traffic_dict(values.device_to_host);
  result["device_to_device"] = traffic_dict(values.device_to_device);
  result["host_to_host"] = traffic_dict(values.host_to_host);
  result["scalars"] = traffic_dict(values.scalars);
  result["allocations"] = values.allocations;
  result["imports"] = values.imports;
  result["exports"] = values.exports;
  result["synchronizations"] = values.synchronizations;
  return result;
}

nb::dict statistics_dict(const memory_view& self) {
  const memory_statistics now = without_gil([&] { return self.value->statistics(); });
  nb::dict result;
  result["limit"] = limit_or_none(now.budget.limit);
  result["current"] = now.budget.current;
  result["remaining"] =
      now.budget.limit == budget::unlimited ? nb::none() : nb::object(nb::int_(now.budget.remaining));
  result["peak"] = now.budget.peak;
  result["requests"] = now.budget.requests;
  result["refused"] = now.budget.refused;
  result["own"] = now.ledger.own;
  result["external"] = now.ledger.external;
  result["buffers"] = now.ledger.buffers;
  result["pinned"] = now.pinned;
  result["pending_releases"] = now.pending_releases;
  return result;
}

nb::dict tags_dict(const std::vector<std::pair<std::string, std::uint64_t>>& tags) {
  nb::dict result;
  for (const auto& [tag, bytes] : tags) {
    result[nb::str(tag.c_str(), tag.size())] = bytes;
  }
  return result;
}

nb::dict close(const context_object& self) {
  return tags_dict(without_gil([&] { return self.value->close(); }));
}

nb::dict by_tag(const memory_view& self) {
  return tags_dict(without_gil([&] { return self.value->live_by_tag(); }));
}

std::string describe(const context_object& self) {
  const budget_statistics now = self.value->memory_budget()->statistics();
  const std::string limit =
      now.limit == budget::unlimited ? "no budget" : concat("budget ", human_bytes(now.limit));
  return concat("<saeta.Context ", to_string(self.value->device()), ": ", limit, ", ",
                human_bytes(now.current), " in use", self.value->closed() ? ", closed>" : ">");
}

void bind_context(nb::module_& m) {
  nb::class_<context_object>(
      m, "Context",
      "Everything Saeta keeps for one device of this process: memory under a budget, streams "
      "and counters. There is one per device; `saeta.context` gives it.")
      .def_prop_ro(
          "device", [](const context_object& self) { return to_string(self.value->device()); },
          "\"host\" or \"cuda:0\".")
      .def_prop_rw(
          "budget",
          [](const context_object& self) {
            return limit_or_none(self.value->memory_budget()->statistics().limit);
          },
          &set_budget, nb::for_setter(nb::arg("limit").none()),
          nb::for_getter(nb::sig("def budget(self) -> int | None")),
          nb::for_setter(nb::sig("def budget(self, limit: int | str | None, /) -> None")),
          "Limit in bytes, None for no limit. Set it with an int, \"8GiB\" or \"50%\" (of the device's "
          "memory); "
          "InvalidError when more is live already.")
      .def_prop_ro(
          "memory", [](const context_object& self) { return memory_view{self.value}; },
          "What its memory is used for.")
      .def_prop_ro("closed", [](const context_object& self) { return self.value->closed(); })
      .def(
          "counters", &counters_dict, nb::sig("def counters(self) -> dict[str, typing.Any]"),
          "What was moved, allocated and waited for since the last reset. For each direction a dict of "
          "`transfers` "
          "(planned movements), `calls` (copies given to the driver) and `bytes`; beside them `allocations`, "
          "`imports` and `exports` (views taken in and handed out without a copy) and `synchronizations` "
          "(waits of "
          "the host).")
      .def(
          "reset_counters", [](const context_object& self) { self.value->count().reset(); },
          "Sets all counters to zero.")
      .def("synchronize", &synchronize, nb::call_guard<nb::gil_scoped_release>(),
           "Waits for all work on the device that was queued so far, by whomever, and for memory whose "
           "release waits "
           "for it.")
      .def("close", &close, nb::sig("def close(self) -> dict[str, int]"),
           "Refuses new work from now on. Returns the bytes that are still alive, by tag; they stay valid "
           "until their "
           "owners drop them.")
      .def(
          "__eq__", [](const context_object& a, const context_object& b) { return a.value == b.value; },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const context_object& self) { return std::hash<context*>()(self.value.get()); })
      .def("__repr__", &describe);

  m.def(
      "context", &open, nb::arg("device") = nb::none(), nb::kw_only(), nb::arg("budget") = nb::none(),
      nb::sig("def context(device: str | None = None, *, budget: int | str | None = None) -> Context"),
      "The context of a device (\"host\", \"cuda\", \"cuda:1\"; None: the best there is), made on first "
      "use.\n\n"
      "`budget` sets its limit: bytes, \"8GiB\", or \"50%\" of the device's memory; None leaves it as it is. "
      "DeviceError where there is no such device, with the reason; InvalidError when more than the budget is "
      "live.");
}

void bind_memory_view(nb::module_& m) {
  nb::class_<memory_view>(m, "Memory", "What the memory of a context is used for.")
      .def("statistics", &statistics_dict, nb::sig("def statistics(self) -> dict[str, int | None]"),
           "Bytes: `limit`, `current`, `remaining`, `peak` of the budget (None: no limit), `own` (held by "
           "columns), "
           "`external` (views of the memory of others), `pinned` (page-locked host memory). Counts: accepted "
           "`requests`, `refused` ones, live `buffers`, `pending_releases` (waiting for work to finish).")
      .def("by_tag", &by_tag, nb::sig("def by_tag(self) -> dict[str, int]"),
           "Live bytes by tag, largest first; views of the memory of others as \"external:TAG\".")
      .def("report", in_python("saeta._report", "memory_report"), nb::sig("def report(self) -> str"),
           "The statistics and the live bytes by tag, as text.")
      .def_prop_ro("device", [](const memory_view& self) { return to_string(self.value->device()); })
      .def(
          "trim", [](const memory_view& self) { return self.value->trim(); },
          nb::call_guard<nb::gil_scoped_release>(),
          "Gives memory that is pooled and not in use back to the device; returns the bytes.")
      .def(
          "reset_peak", [](const memory_view& self) { self.value->memory_budget()->reset_peak(); },
          "Restarts the peak from what is live now.");
}

} // namespace

void bind_memory(nb::module_& m) {
  bind_memory_view(m);
  bind_context(m);
}

} // namespace saeta::py
