// The event log: recordings in memory, and logs to files.
#include "python/src/core/pickling.hpp"
#include "python/src/memory/memory_objects.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <new>
#include <optional>

namespace saeta::py {
namespace {

/// A sink that listens until it is detached. It is detached without the GIL, because that may write a file.
class listening {
public:
  listening(std::shared_ptr<event_log> log, std::shared_ptr<log_sink> sink)
      : log_(std::move(log)), sink_(std::move(sink)) {
    without_gil([this] { log_->attach(sink_); });
  }
  listening(listening&&) noexcept = default;
  listening& operator=(listening&&) = delete;
  ~listening() { end(); }

  void end() noexcept {
    if (made_in_ != fork_generation()) {
      // In a child of fork the log and the sink belong to the parent, so they are neither used nor destroyed.
      static_cast<void>(new (std::nothrow) std::shared_ptr(std::move(log_)));
      static_cast<void>(new (std::nothrow) std::shared_ptr(std::move(sink_)));
      return;
    }
    if (auto log = std::move(log_)) {
      without_gil([&] {
        log->detach(sink_);
        sink_.reset();
        log.reset();
      });
    }
  }

  [[nodiscard]] bool ended() const noexcept { return log_ == nullptr; }

private:
  std::shared_ptr<event_log> log_;
  std::shared_ptr<log_sink> sink_;
  std::uint64_t made_in_ = fork_generation();
};

struct recording_object {
  void end() {
    if (attached) {
      attached->end();
    }
  }

  std::shared_ptr<memory_sink> kept;
  /// Empty for the recorder of a context, which records as long as the context lives.
  std::optional<listening> attached;
};

nb::dict record_dict(const log_record& record) {
  const auto text = [](std::string_view of) { return nb::str(of.data(), of.size()); };
  nb::dict result;
  result["order"] = record.order;
  result["time_ns"] = record.time_ns;
  result["event"] = text(to_string(record.event));
  result["device"] = text(to_string(record.device));
  result["thread"] = record.thread;
  result["stream"] = record.stream;
  result["bytes"] = record.bytes;
  result["address"] = record.address;
  result["generation"] = record.generation;
  result["tag"] = text(record.label.name());
  result["account"] = text(record.account.name());
  result["limit"] = record.limit;
  result["outcome"] = text(record.outcome);
  result["reserved"] = record.reserved;
  result["held"] = record.held;
  return result;
}

nb::list records(const recording_object& self) {
  nb::list result;
  for (const log_record& each : without_gil([&] { return self.kept->records(); })) {
    result.append(record_dict(each));
  }
  return result;
}

std::string describe_recording(const recording_object& self) {
  return concat("<saeta.MemoryRecording: ", self.kept->size(), " records, ", self.kept->forgotten(),
                " forgotten", self.attached && self.attached->ended() ? ", ended>" : ">");
}

recording_object record(const memory_view& self, std::size_t capacity) {
  auto kept = std::make_shared<memory_sink>(capacity);
  return {kept, listening(self.value->reports().log(), kept)};
}

std::optional<recording_object> recorder_of(const memory_view& self) {
  const auto& recorder = self.value->reports().recorder();
  return recorder == nullptr ? std::nullopt : std::optional(recording_object{recorder, std::nullopt});
}

listening log_to(const memory_view& self, const std::string& target) {
  return {self.value->reports().log(), without_gil([&] { return make_sink(target); })};
}

void bind_classes(nb::module_& m) {
  nb::class_<recording_object>(
      m, "MemoryRecording",
      "The events of a device's memory, from `memory.record()` to the end of its `with` block."
      "\n\nExample:\n"
      "    >>> import saeta as sa\n"
      "    >>> ctx = sa.context('host')\n"
      "    >>> with ctx.memory.record() as recording:\n"
      "    ...     block = ctx.allocate('1KiB', tag='scratch')\n"
      "    >>> [each['bytes'] for each in recording.records()]\n"
      "    [1024]")
      .def(made_by("Context.memory.record"))
      .def(not_pickled("pickle what records() returns"))
      .def("__repr__", &describe_recording)
      .def("records", &records, nb::sig("def records(self) -> list[dict[str, typing.Any]]"),
           "The records, oldest first: `order`, `time_ns`, `event`, `device`, `thread`, `stream`, `bytes`, "
           "`address`, `generation`, `tag`, `account` (the budget that was charged), `limit`, `outcome`, "
           "and, if the memory of the device changed, its `reserved` and `held`.")
      .def_prop_ro(
          "forgotten", [](const recording_object& self) { return self.kept->forgotten(); },
          "Number of records that were dropped for later ones.")
      .def(with_block<&recording_object::end>("def __enter__(self) -> MemoryRecording"));

  nb::class_<listening>(m, "MemoryLog",
                        "A log of `memory.log_to`; written until it is closed or dropped."
                        "\n\nExample:\n"
                        "    >>> import saeta as sa\n"
                        "    >>> ctx = sa.context('host')\n"
                        "    >>> with ctx.memory.log_to('jsonl:memory.jsonl'):\n"
                        "    ...     block = ctx.allocate('1KiB')")
      .def(made_by("Context.memory.log_to"))
      .def(not_pickled("make one where the work is"))
      .def("__repr__",
           [](const listening& self) { return concat("<saeta.MemoryLog", self.ended() ? ", closed>" : ">"); })
      .def("close", &listening::end, "Completes the file. Does nothing the second time.")
      .def(with_block<&listening::end>("def __enter__(self) -> MemoryLog"));
}

} // namespace

void bind_log(nb::module_& m, memory_class& memory) {
  bind_classes(m);
  memory
      .def("record", &record, nb::kw_only(), nb::arg("capacity") = memory_sink::standard_capacity,
           "Records every allocation, free, refusal and trim of the device, and every view of foreign "
           "memory, from now on. Keeps the last `capacity` records.")
      .def_prop_ro("recording", &recorder_of,
                   "The records of the device since its context was made; None unless SAETA_RECORD is set.")
      .def("log_to", &log_to, nb::arg("target"),
           "Writes the events of the device to \"csv:PATH\", \"jsonl:PATH\" or \"trace:PATH\" (Chrome's "
           "trace format, for Perfetto) from now on. InvalidError for another kind, FileError if the file "
           "can't be opened."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> ctx = sa.context('host')\n"
           "    >>> with ctx.memory.log_to('csv:memory.csv'):\n"
           "    ...     block = ctx.allocate('1KiB')")
      .def_prop_ro(
          "log_dropped", [](const memory_view& self) { return self.value->reports().log()->dropped(); },
          "Number of records that a log could not write, because the disk was full.");
}

} // namespace saeta::py
