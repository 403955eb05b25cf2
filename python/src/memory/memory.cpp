// The memory of a context: what is allocated, for which owners, and how to release it.
#include "python/src/core/pickling.hpp"
#include "python/src/memory/memory_objects.hpp"
#include "saeta/base/text.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

namespace saeta::py {
namespace {

/// Whether this budget or one above has a limit.
bool has_limit(const budget& of) {
  return of.limit() != budget::unlimited || (of.parent() != nullptr && has_limit(*of.parent()));
}

nb::dict statistics_dict(const memory_view& self) {
  const auto [now, foreign] = without_gil(
      [&] { return std::pair(self.value->reports().statistics(), self.value->reports().foreign_bytes()); });
  nb::dict result;
  result["limit"] = limit_or_none(now.budget.limit);
  result["current"] = now.budget.current;
  result["reserved"] = now.budget.reserved;
  result["remaining"] =
      limit_or_none(has_limit(*self.value->memory_budget()) ? now.budget.remaining : budget::unlimited);
  result["peak"] = now.budget.peak;
  result["requests"] = now.budget.requests;
  result["refused"] = now.budget.refused;
  result["own"] = now.ledger.own;
  result["external"] = now.ledger.external;
  result["buffers"] = now.ledger.buffers;
  result["pinned"] = now.pinned;
  result["held"] = now.held;
  result["foreign"] = foreign;
  result["host_held"] = now.host_held;
  result["pending_releases"] = now.pending_releases;
  return result;
}

std::vector<std::string> guard_check(const memory_view& self) {
  const auto& guard = self.value->memory().guard;
  if (guard == nullptr) {
    throw error(errc::invalid_argument,
                concat("the memory of ", to_string(self.value->device()),
                       " has no guard: open it with stack=\"logging, budget, guard\""));
  }
  static_cast<void>(guard->check());
  std::vector<std::string> texts;
  for (const guard_finding& each : guard->findings()) {
    texts.push_back(each.text);
  }
  return texts;
}

std::string describe_memory(const memory_view& self) {
  const budget_statistics now = self.value->memory_budget()->statistics();
  return concat("<saeta.Memory of ", to_string(self.value->device()), ": ", human_bytes(now.current),
                " in use, peak ", human_bytes(now.peak),
                now.limit == budget::unlimited ? std::string(", no budget>")
                                               : concat(", budget ", human_bytes(now.limit), ">"));
}

void bind_reports(memory_class& c) {
  c.def("statistics", &statistics_dict, nb::sig("def statistics(self) -> dict[str, int | None]"),
        "Bytes of the context's budget: `limit`, `current`, `reserved` (promised and not drawn yet), "
        "`remaining` (of this budget and those above; None: no limit), `peak`; its counts of accepted "
        "`requests` and `refused` ones. Bytes "
        "of the device: `own` (held by buffers), `external` (views of foreign memory), `pinned` (page-locked "
        "host memory), `held` (taken from the device: in use or cached), `foreign` (used on the device by "
        "others; 0 on the host), `host_held` (ordinary host memory taken for downloads: in use, where it "
        "counts as `own`, or kept for the next); counts of live `buffers` and of `pending_releases` (waiting "
        "for work to finish)."
        "\n\nExample:\n"
        "    >>> import saeta as sa\n"
        "    >>> ctx = sa.context('host').memory.child('query', '1MiB')\n"
        "    >>> block = ctx.allocate('1KiB')\n"
        "    >>> ctx.memory.statistics()['current']\n"
        "    1024")
      .def(
          "by_tag",
          [](const memory_view& self) {
            return bytes_dict(without_gil([&] { return self.value->reports().live_by_tag(); }));
          },
          nb::sig("def by_tag(self) -> dict[str, int]"),
          "Live bytes by tag, largest first; views of foreign memory as \"external:TAG\". For a child "
          "budget, the bytes charged to it.")
      .def(
          "by_budget",
          [](const memory_view& self) {
            return bytes_dict(without_gil([&] { return self.value->reports().live_by_budget(); }));
          },
          nb::sig("def by_budget(self) -> dict[str, int]"),
          "Live bytes of own buffers on the whole device by the name of the budget that holds the charge, "
          "largest first.")
      .def("report", in_python("saeta._report.memory", "memory_report"), nb::sig("def report(self) -> str"),
           "The statistics and the live bytes by tag and by budget, as text.")
      .def("timeline", in_python("saeta._report.memory", "memory_timeline"),
           nb::sig("def timeline(self, path: str | os.PathLike[str], recording: MemoryRecording | None = "
                   "None, *, phases: collections.abc.Sequence[tuple[str, int]] = ()) -> None"),
           "Writes a recording of `record` (None: the one that SAETA_RECORD began) as one self-contained "
           "HTML page: bytes over time by tag, the budget, refusals and trims. `phases` names stretches of "
           "it: (name, number of records when it ended), in order."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> ctx = sa.context('host')\n"
           "    >>> with ctx.memory.record() as recording:\n"
           "    ...     block = ctx.allocate('1KiB')\n"
           "    >>> _ = ctx.memory.timeline('timeline.html', recording)");
}

} // namespace

void bind_memory(nb::module_& m) {
  bind_context(m);
  memory_class c(m, "Memory",
                 "Statistics, budgets and records of a context's memory."
                 "\n\nExample:\n"
                 "    >>> import saeta as sa\n"
                 "    >>> ctx = sa.context('host')\n"
                 "    >>> with ctx.memory.child('query', limit='1MiB') as query:\n"
                 "    ...     query.memory.limit\n"
                 "    1048576");
  c.def(copied_as_itself());
  c.def(not_pickled("pickle what statistics() returns, and set the budget of the other process there"));
  c.def(made_by("Context.memory"));
  bind_reports(c);
  c.def("__repr__", &describe_memory)
      .def("_repr_html_", in_python("saeta._report.html", "memory_html"),
           nb::sig("def _repr_html_(self) -> str"))
      .def_prop_ro(
          "device", [](const memory_view& self) { return to_string(self.value->device()); },
          "\"host\" or \"cuda:0\".")
      .def_prop_rw(
          "limit",
          [](const memory_view& self) { return limit_or_none(self.value->memory_budget()->limit()); },
          [](const memory_view& self, const std::optional<size_spec>& limit) {
            set_limit(*self.value, limit);
          },
          nb::for_setter(nb::arg("limit").none()), nb::for_getter(nb::sig("def limit(self) -> int | None")),
          nb::for_setter(nb::sig("def limit(self, limit: int | str | None, /) -> None")),
          "Limit of the budget in bytes, None for no limit. Set it to an int, \"8GiB\" or \"50%\" (of the "
          "device's memory). InvalidError if more bytes are already in use."
          "\n\nExample:\n"
          "    >>> import saeta as sa\n"
          "    >>> memory = sa.context('host').memory.child('part', '1MiB').memory\n"
          "    >>> memory.limit = '2MiB'\n"
          "    >>> memory.limit\n"
          "    2097152")
      .def(
          "trim", [](const memory_view& self) { return self.value->trim(); }, nb::call_guard<gil_release>(),
          "Returns unused memory of the pools to the device. Returns the number of bytes.")
      .def("guard_check", &guard_check, nb::call_guard<gil_release>(),
           "Checks canaries and freed memory, waiting for all work of the device; returns what the guard has "
           "found so far, one line each. InvalidError if the stack has no guard."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> ctx = sa.context('host', stack='budget, guard, direct')\n"
           "    >>> ctx.memory.guard_check()\n"
           "    []");
  bind_budgets(m, c);
  bind_hooks(m, c);
  bind_log(m, c);
}

} // namespace saeta::py
