// Contexts: one per device, and contexts that charge a child budget or draw from a reservation.
#include "python/src/core/pickling.hpp"
#include "python/src/memory/memory_objects.hpp"
#include "saeta/base/interrupt.hpp"
#include "saeta/base/text.hpp"
#include "saeta/runtime/runtime.hpp"
#include "saeta/spill/spill.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <thread>

namespace saeta::py {
namespace {

std::optional<std::chrono::milliseconds> parse_wait(std::optional<double> seconds) {
  constexpr double longest = 1e9;
  if (!seconds) {
    return std::nullopt;
  }
  if (!(*seconds >= 0 && *seconds <= longest)) {
    throw error(errc::invalid_argument, concat("wait is ", *seconds, " seconds, expected 0 to 1e9"));
  }
  return std::chrono::milliseconds(std::llround(*seconds * 1000));
}

/// Says once in a process if a GPU stays unused because this build has no CUDA.
void note_host_only() {
  static std::atomic<bool> noted = false;
  if (!noted.exchange(true)) {
    foreign_call([] { nb::module_::import_("saeta._report.host_only").attr("note")(); });
  }
}

context_object open(const std::optional<std::string>& device, const std::optional<size_spec>& limit,
                    std::optional<std::string> stack, std::optional<double> wait,
                    std::optional<bool> exportable_pool,
                    const std::optional<std::filesystem::path>& spill_dir) {
  note_host_only();
  return without_gil([&] {
    const device_id chosen = device ? parse_device(*device) : best_device();
    open_options options{std::nullopt, std::move(stack), parse_wait(wait), exportable_pool};
    if (limit) {
      options.budget = to_bytes(*limit, chosen);
    }
    auto opened = open_context(chosen, options);
    if (spill_dir) {
      set_spill_folder(opened, *spill_dir);
    }
    return context_object{std::move(opened)};
  });
}

std::optional<std::string> spill_dir_of(const context_object& self) {
  const std::string folder =
      without_gil([&] { return spill_folder_of(std::shared_ptr<context>(self.value)).string(); });
  return folder.empty() ? std::nullopt : std::optional(folder);
}

void set_spill_dir(const context_object& self, const std::optional<std::filesystem::path>& folder) {
  without_gil([&] { set_spill_folder(std::shared_ptr<context>(self.value), folder.value_or("")); });
}

bool is_derived(const context_object& self) { return &self.value->root() != self.value.get(); }

/// Polls, because a wait in the driver can't be interrupted. It polls without sleep for 2 ms, about as long
/// as the work that a read leaves queued: a sleeping core is slow to serve data from its cache. Then it
/// sleeps for growing intervals, which lengthen a wait by at most 6%.
void wait_for(point awaited) {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds awake{2};
  constexpr std::chrono::microseconds pace{4};
  constexpr std::chrono::milliseconds longest_sleep{1};
  const auto start = clock::now();
  while (!has_passed(awaited)) {
    const auto now = clock::now();
    if (now - start < awake) {
      while (clock::now() < now + pace) {
        std::this_thread::yield();
      }
      continue;
    }
    check_interrupt();
    std::this_thread::sleep_for(std::min<clock::duration>((now - start) / 16, longest_sleep));
  }
}

void wait_for_releases(context& ctx) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!ctx.wait_for_releases(interrupt_interval) && std::chrono::steady_clock::now() < deadline) {
    check_interrupt();
  }
}

void synchronize_context(const context_object& self) {
  context& ctx = *self.value;
  if (const auto everything = ctx.clocks()->mark_device()) {
    wait_for(*everything);
    ctx.synchronize(
        ctx.work_stream()); // nothing is left to wait for, but the driver's pool releases memory in this call
    wait_for_releases(ctx);
  } else { // releases wait for a capture, which this caller may have to end
    ctx.synchronize(ctx.work_stream());
    ctx.drain();
  }
}

nb::dict traffic_dict(const traffic& moved) {
  nb::dict result;
  result["transfers"] = moved.transfers;
  result["calls"] = moved.calls;
  result["bytes"] = moved.bytes;
  return result;
}

nb::dict counters_dict(const context_object& self) {
  const counter_values values = self.value->copies().read_counters();
  nb::dict result;
  result["host_to_device"] = traffic_dict(values.host_to_device);
  result["device_to_host"] = traffic_dict(values.device_to_host);
  result["device_to_device"] = traffic_dict(values.device_to_device);
  result["host_to_host"] = traffic_dict(values.host_to_host);
  result["peer_to_device"] = traffic_dict(values.peer_to_device);
  result["scalars"] = traffic_dict(values.scalars);
  result["allocations"] = values.allocations;
  result["imports"] = values.imports;
  result["exports"] = values.exports;
  result["synchronizations"] = values.synchronizations;
  result["staged"] = values.staged;
  result["events"] = values.events;
  return result;
}

nb::dict options_dict(const context_object& self) {
  const auto ctx = std::shared_ptr<context>(self.value);
  const context_options& made_with = ctx->options();
  nb::dict result;
  result["stack"] = to_string(made_with.memory);
  result["wait"] = static_cast<double>(made_with.pressure.wait.count()) / 1000;
  result["guard_quarantine"] = made_with.memory.guard.quarantine;
  result["exportable_pool"] = made_with.memory.exportable_pool;
  result["pool_threshold"] = limit_or_none(made_with.memory.pool_threshold);
  result["record"] = made_with.recorded;
  result["staging_threads"] = made_with.staging.threads;
  result["staging_pinned"] = limit_or_none(made_with.staging.pinned_bytes);
  result["host_cache"] = made_with.host_cache.value_or(0);
  result["spill_pinned"] = made_with.spill.pinned.value_or(0);
  result["spill_pageable"] = limit_or_none(made_with.spill.pageable);
  result["spill_files"] = limit_or_none(made_with.spill.files);
  result["spill_compress"] = made_with.spill.compress;
  return result;
}

nb::dict close_context(const context_object& self) {
  return bytes_dict(without_gil([&] { return self.value->close(); }));
}

nb::object enter_context(nb::object self) {
  const auto& entered = nb::cast<const context_object&>(self);
  if (!is_derived(entered)) {
    throw error(errc::invalid_argument, concat("the context of ", to_string(entered.value->device()),
                                               " belongs to the process: only contexts of memory.child and "
                                               "memory.reserve can be used in a `with` block"));
  }
  return self;
}

void leave_context(const context_object& self, const nb::args&) { close_context(self); }

/// An effect on a context for the duration of a `with` block.
template <std::shared_ptr<void> (*Begin)(context&)>
class block_object {
public:
  explicit block_object(const context_object& of) : ctx_(of.value) {}

  void enter() {
    if (hold_) {
      throw error(errc::busy, "this block is already open: ask the context for a new one for each `with`");
    }
    // Without the GIL: `Begin` may wait for a thread that takes the GIL to report something.
    hold_ = without_gil([this] { return Begin(*ctx_); });
  }
  void leave() { hold_.reset(); }
  [[nodiscard]] bool open() const noexcept { return hold_.has_value(); }

private:
  std::shared_ptr<context> ctx_;
  std::optional<std::shared_ptr<void>> hold_; ///< the inner pointer may be null while the block is open
};

std::shared_ptr<void> announce_capture(context& on) { return on.capturing(); }
std::shared_ptr<void> forbid_downloads(context& of) { return of.copies().forbid_downloads(); }

using capture_object = block_object<announce_capture>;
using strict_object = block_object<forbid_downloads>;

std::string describe_context(const context_object& self) {
  const context& ctx = *self.value;
  const budget_statistics now = ctx.memory_budget()->statistics();
  std::string text = now.limit == budget::unlimited ? "no budget" : concat("budget ", human_bytes(now.limit));
  if (const reservation* from = ctx.drawn_from()) {
    text = concat("reservation of ", human_bytes(from->bytes()), ", ", human_bytes(from->left()), " left");
  } else if (is_derived(self)) {
    text = concat("child '", ctx.memory_budget()->name(), "', ", text);
  }
  return printable(concat("<saeta.Context ", to_string(ctx.device()), ": ", text, ", ",
                          human_bytes(now.current), " in use", ctx.closed() ? ", closed>" : ">"));
}

void bind_life(nb::class_<context_object>& c) {
  c.def("synchronize", &synchronize_context, nb::call_guard<gil_release>(),
        "Waits for all work on the device that was queued so far, also by other libraries, and for memory "
        "whose release waits for it. While a graph is captured, for the context's own stream alone.")
      .def("close", &close_context, nb::sig("def close(self) -> dict[str, int]"),
           "Refuses new work from now on. Returns the bytes that are still alive, by tag; they stay valid "
           "until their owners drop them. Bytes of a reservation that were not drawn return at once.")
      .def("__enter__", &enter_context, nb::sig("def __enter__(self) -> Context"),
           "A context of `memory.child` or `memory.reserve` closes at the end of a `with` block. The context "
           "of the process does not: InvalidError.")
      .def("__exit__", &leave_context, nb::sig("def __exit__(self, *exception: object) -> None"))
      .def(
          "__eq__", [](const context_object& a, const context_object& b) { return a.value == b.value; },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const context_object& self) { return std::hash<context*>()(self.value.get()); })
      .def("__repr__", &describe_context)
      .def("_repr_html_", in_python("saeta._report.html", "context_html"),
           nb::sig("def _repr_html_(self) -> str"));
}

template <class Block>
void bind_block(nb::module_& m, const char* name, const char* enter, const char* meaning, const char* maker) {
  nb::class_<Block>(m, name, meaning)
      .def(made_by(maker))
      .def(not_pickled("make one where the work is"))
      .def("__repr__",
           [name](const Block& self) {
             return concat("<saeta.", name, self.open() ? ", open>" : ", not open>");
           })
      .def(with_block<&Block::leave, &Block::enter>(enter));
}

} // namespace

std::uint64_t to_bytes(const size_spec& given, device_id device) {
  if (const auto* bytes = std::get_if<std::uint64_t>(&given)) {
    return *bytes;
  }
  return parse_bytes(std::get<std::string>(given), describe_device(device).total_bytes);
}

std::uint64_t to_bytes(const size_spec& given, const context& ctx) { return to_bytes(given, ctx.device()); }

nb::object limit_or_none(std::uint64_t limit) {
  return limit == budget::unlimited ? nb::none() : nb::object(nb::int_(limit));
}

void set_limit(context& of, const std::optional<size_spec>& limit) {
  if (of.drawn_from() != nullptr) {
    throw error(errc::invalid_argument, "a context that draws from a reservation has no limit of its own");
  }
  without_gil([&] { of.set_budget(limit ? to_bytes(*limit, of) : budget::unlimited); });
}

void bind_context(nb::module_& m) {
  bind_block<capture_object>(m, "GraphCapture", "def __enter__(self) -> GraphCapture",
                             "The announcement of a graph capture, from `Context.capturing`."
                             "\n\nExample:\n"
                             "    >>> import saeta as sa\n"
                             "    >>> with sa.context('host').capturing() as announced:\n"
                             "    ...     announced\n"
                             "    <saeta.GraphCapture, open>",
                             "Context.capturing");
  bind_block<strict_object>(m, "StrictMode", "def __enter__(self) -> StrictMode",
                            "A block without downloads, from `Context.forbid_downloads`."
                            "\n\nExample:\n"
                            "    >>> import saeta as sa\n"
                            "    >>> table = sa.table({'a': [1, 2, 3]}, 'host')\n"
                            "    >>> with table.context.forbid_downloads():\n"
                            "    ...     last = table.take([2])",
                            "Context.forbid_downloads");
  nb::class_<context_object> c(
      m, "Context",
      "Everything Saeta keeps for one device of this process: memory under a budget, streams and counters. "
      "There is one per device; `saeta.context` gives it. `memory.child` and `memory.reserve` give further "
      "ones that share all of it but the budget."
      "\n\nExample:\n"
      "    >>> import saeta as sa\n"
      "    >>> ctx = sa.context('host')\n"
      "    >>> ctx.device\n"
      "    'host'\n"
      "    >>> block = ctx.allocate('1KiB', tag='scratch')");
  c.def(made_by("saeta.context"));
  c.def(copied_as_itself());
  c.def(not_pickled("pass the name of its device and call saeta.context(name) there. Tables that are "
                    "unpickled go into the host context, or into the one of `with saeta.unpickling(ctx):`"));
  c.def_prop_ro(
       "device", [](const context_object& self) { return to_string(self.value->device()); },
       "\"host\" or \"cuda:0\".")
      .def_prop_ro(
          "memory", [](const context_object& self) { return memory_view{self.value}; },
          "Statistics, budgets and records of its memory.")
      .def_prop_ro(
          "options", &options_dict, nb::sig("def options(self) -> dict[str, typing.Any]"),
          "The options that it was made with: `stack` (top first), `wait` (seconds), `guard_quarantine`, "
          "`exportable_pool` (whether other processes can open its memory), `pool_threshold` (bytes; None: "
          "all), `record` (events kept from the start), `staging_threads` (0: the machine's, at most 16), "
          "`staging_pinned` (bytes; None: 96 MiB, and 12 MiB a thread), `host_cache` (bytes of host memory "
          "kept for downloads), and the limits in bytes of the tables of `spillable`: `spill_pinned`, "
          "`spill_pageable` and `spill_files` (None: no limit), and `spill_compress` (whether they leave "
          "compressed). The budget and `spill_dir` have attributes of their own."
          "\n\nExample:\n"
          "    >>> import saeta as sa\n"
          "    >>> ctx = sa.context('host')\n"
          "    >>> 'stack' in ctx.options\n"
          "    True")
      .def_prop_rw(
          "spill_dir", &spill_dir_of, &set_spill_dir, nb::for_setter(nb::arg("folder").none()),
          nb::for_getter(nb::sig("def spill_dir(self) -> str | None")),
          nb::for_setter(nb::sig("def spill_dir(self, folder: str | os.PathLike[str] | None, /) -> None")),
          "The folder for the files of tables of `spillable`; None: they do not go to files, and on "
          "the host they do not leave. Another folder is for tables that are spilled from then on. "
          "MissingFileError, FileError unless it is a folder."
          "\n\nExample:\n"
          "    >>> import saeta as sa, tempfile\n"
          "    >>> ctx = sa.context('host')\n"
          "    >>> ctx.spill_dir = tempfile.mkdtemp()\n"
          "    >>> trips = ctx.spillable(sa.table({'fare': [12.5, None]}, ctx))\n"
          "    >>> trips.spill()\n"
          "    'file'")
      .def_prop_ro(
          "closed", [](const context_object& self) { return self.value->closed(); },
          "Whether it refuses new work.")
      .def("counters", &counters_dict, nb::sig("def counters(self) -> dict[str, typing.Any]"),
           "What was moved, allocated and waited for since the last reset. For each direction a dict of "
           "`transfers` (planned movements), `calls` (copies given to the driver) and `bytes`; "
           "`peer_to_device` came from another GPU by peer access. Beside them `allocations`, `imports` and "
           "`exports` (imported and exported views), `synchronizations` (waits of the host), `staged` "
           "(tables copied from another GPU through the host, because the two have no peer access) and "
           "`events` (recorded to order streams; work on one stream needs none)."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> ctx = sa.context('host')\n"
           "    >>> sorted(ctx.counters()['host_to_device'])\n"
           "    ['bytes', 'calls', 'transfers']")
      .def(
          "reset_counters", [](const context_object& self) { self.value->copies().reset_counters(); },
          "Sets all counters to zero.")
      .def("allocate", &allocate_buffer, nb::arg("nbytes"), nb::kw_only(), nb::arg("tag") = "",
           nb::arg("stream").none() = nb::none(), nb::arg("alignment") = 0, nb::arg("kind") = "device",
           nb::sig("def allocate(self, nbytes: int | str, *, tag: str = '', stream: object = None, "
                   "alignment: int = 0, kind: typing.Literal['device', 'pinned'] = 'device') -> Buffer"),
           "Memory charged to this context's budget under a tag, ready on a stream (None: the context's own; "
           "see `saeta.use` for the others). Contents are undefined. `kind` \"pinned\" is page-locked host "
           "memory, charged to the budget of the host's context; on the host it is ordinary memory of this "
           "one. BudgetExceeded, OutOfMemory, ClosedError, UnsupportedError for other kinds.")
      .def(
          "spillable", in_python("saeta._share.spilling", "spillable"),
          nb::sig("def spillable(self, table: Table, *, priority: int = 0, compress: bool | None = None) -> "
                  "saeta._share.spilling.SpillHandle"),
          "Keeps a table that may leave the device while nobody uses it. When a request does not fit, the "
          "tables of unused handles move to the host: to page-locked memory, pageable memory or a file, the "
          "first that has room. Those of the lowest `priority` move first, among them the one that was "
          "unused for the longest time. `SpillHandle.use` brings the table back.\n\n"
          "The handle keeps the table packed: one that is packed already, as every read leaves it, is not "
          "copied; others are gathered by one kernel under the budget of this context. Drop the table after "
          "this call, because a table that is still referenced can't leave.\n\n"
          "With `compress`, the table leaves compressed where that makes it smaller: kernels of the device "
          "pack numbers, times, decimals, floats of few digits and text into fewer bits, and it comes back "
          "equal to the last bit. While such a handle lives, that takes up to 48 MiB of the device's budget. "
          "None: as `SAETA_SPILL_COMPRESS` says.\n\n"
          "Raises InvalidError for a table of another device, UnsupportedError for types that the IPC format "
          "can't describe, BudgetExceeded if the gathered copy does not fit."
          "\n\nExample:\n"
          "    >>> import saeta as sa\n"
          "    >>> ctx = sa.context('host')\n"
          "    >>> trips = ctx.spillable(sa.table({'fare': [12.5, None]}, ctx), priority=1)\n"
          "    >>> with trips.use() as table:\n"
          "    ...     table['fare'].to_pylist()\n"
          "    [12.5, None]")
      .def(
          "capturing", [](const context_object& self) { return capture_object(self); },
          "Announces that a CUDA graph is captured inside a `with` block. Views that are dropped meanwhile "
          "are released after the capture; otherwise their release could end it. Needed on streams that do "
          "not synchronise with the legacy default stream, as those of torch.cuda.graph, unless the capture "
          "itself takes a view or opens a token on its stream. Does nothing on the host."
          "\n\nExample:\n"
          "    >>> import torch\n"
          "    >>> import saeta as sa\n"
          "    >>> ctx = sa.context('cuda:0')\n"
          "    >>> x = sa.column([1.0, 2.0], ctx, name='x').to_torch()\n"
          "    >>> doubled = x * 2  # loads the kernel that is captured\n"
          "    >>> graph = torch.cuda.CUDAGraph()\n"
          "    >>> with ctx.capturing(), torch.cuda.graph(graph):\n"
          "    ...     doubled = x * 2\n"
          "    >>> graph.replay()\n"
          "    >>> doubled.tolist()\n"
          "    [2.0, 4.0]")
      .def(
          "forbid_downloads", [](const context_object& self) { return strict_object(self); },
          "Strict mode inside a `with` block: copying data from this device to the host raises "
          "DownloadForbidden before anything is copied, on every thread. Scalars that metadata needs are "
          "still read. Copies that other libraries make are not seen, and on the host there is nothing to "
          "download."
          "\n\nExample:\n"
          "    >>> import saeta as sa\n"
          "    >>> table = sa.table({'a': [1, 2, 3]}, 'host')\n"
          "    >>> with table.context.forbid_downloads():\n"
          "    ...     last = table.take([2])\n"
          "    >>> last['a'].to_pylist()\n"
          "    [3]");
  bind_life(c);

  m.def("context", &open, nb::arg("device") = nb::none(), nb::kw_only(), nb::arg("budget") = nb::none(),
        nb::arg("stack") = nb::none(), nb::arg("wait") = nb::none(), nb::arg("exportable_pool") = nb::none(),
        nb::arg("spill_dir") = nb::none(),
        nb::sig("def context(device: str | None = None, *, budget: int | str | None = None, stack: str | "
                "None = None, wait: float | None = None, exportable_pool: bool | None = None, spill_dir: str "
                "| os.PathLike[str] | None = None) -> Context"),
        "The context of a device (\"host\", \"cuda\", \"cuda:1\"; None: the best there is), made on first "
        "use.\n\n"
        "`budget` is its limit: bytes, \"8GiB\", or \"50%\" of the device's memory; None leaves it "
        "unchanged. Of a context that exists it becomes the new limit: InvalidError if more bytes are in "
        "use. `spill_dir` sets `Context.spill_dir`, also of a context that exists. `stack` names its "
        "resources, top first (\"logging, budget, guard, caching\"); `wait` is "
        "the number of seconds for which a request that does not fit waits in line. With `exportable_pool` "
        "other processes can open its memory (`saeta.cuda`); the host has no pool. These three "
        "apply at the first use: InvalidError if the context exists with other ones. Take "
        "`Context.memory.child` to limit your own part of a process. DeviceError where there is no such "
        "device, with the reason."
        "\n\nExample:\n"
        "    >>> import saeta as sa\n"
        "    >>> ctx = sa.context('host')\n"
        "    >>> ctx.device\n"
        "    'host'");
}

} // namespace saeta::py
