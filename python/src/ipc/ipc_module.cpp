// The module `_ipc`: Arrow IPC files and streams. It needs the libarrow that it was built with. saeta/ipc.py
// loads it.
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "python/src/core/pickling.hpp"
#include "python/src/core/python_bytes.hpp"
#include "python/src/ipc/fetched_bytes.hpp"
#include "python/src/ipc/writing.hpp"
#include "saeta/base/interrupt.hpp"
#include "saeta/base/interruptible_lock.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/data_set.hpp"
#include "saeta/ipc/inspect.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/scan.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace saeta::py {
namespace {

/// A reader serves one thread at a time. Other threads wait for their turn.
class reader_object {
public:
  explicit reader_object(std::unique_ptr<ipc::data_set> of) : live_(of->live()), value_(std::move(of)) {}
  explicit reader_object(std::unique_ptr<ipc::reader> of) : reader_object(set_of(std::move(of))) {}
  reader_object(const reader_object&) = delete;
  reader_object& operator=(const reader_object&) = delete;
  ~reader_object() = default;

  /// Waits for its turn, then runs `action` with the reader and without the GIL. @throws error closed.
  template <class Action>
  auto with(Action action) {
    require_own_process();
    const gil_release release;
    const cancellation_scope ends_with(closed_);
    const last_out drops(*this);
    const auto lock = turn_.lock("a read");
    if (value_ == nullptr || closed_) {
      throw error(errc::closed, "the reader is closed");
    }
    return action(*value_);
  }

  /// Whether the reader reads a stream that is still being sent.
  [[nodiscard]] bool live() const noexcept { return live_; }

  /// Moves the readers to the end of a list. The object is then closed.
  void move_to(std::vector<std::unique_ptr<ipc::reader>>& list) {
    with([&](ipc::data_set& of) {
      for (auto& each : std::move(of).take_readers()) {
        list.push_back(std::move(each));
      }
      closed_ = true;
    });
  }

  /// Does not wait for a read in progress. That read ends within 50 ms, or for a live stream when its current
  /// call returns, and then drops the source.
  void close() {
    closed_ = true;
    if (made_in_ == fork_generation()) { // in a forked child, the parent's locks are not touched
      const gil_release release;
      drop_if_free();
    }
  }

private:
  /// Runs after the lock of a read is released. If the reader was closed meanwhile, it drops the source,
  /// because `close` does not wait.
  class last_out {
  public:
    explicit last_out(reader_object& of) noexcept : of_(of) {}
    last_out(const last_out&) = delete;
    last_out& operator=(const last_out&) = delete;
    ~last_out() {
      if (of_.closed_) {
        of_.drop_if_free();
      }
    }

  private:
    reader_object& of_;
  };

  static std::unique_ptr<ipc::data_set> set_of(std::unique_ptr<ipc::reader> only) {
    std::vector<std::unique_ptr<ipc::reader>> readers;
    readers.push_back(std::move(only));
    return std::make_unique<ipc::data_set>(std::move(readers));
  }
  void drop_if_free() noexcept {
    turn_.run_if_free([this] { value_ = nullptr; });
  }
  void require_own_process() const {
    if (made_in_ != fork_generation()) {
      throw error(errc::closed,
                  "the reader belongs to the parent of this forked process: open its source again");
    }
  }

  const bool live_;
  const std::uint64_t made_in_ = fork_generation();
  std::atomic<bool> closed_{false};
  std::unique_ptr<ipc::data_set> value_; ///< null once closed
  interruptible_mutex turn_;
};

nb::object view_of(std::span<std::byte> target) {
  nb::object view = nb::steal(PyMemoryView_FromMemory(reinterpret_cast<char*>(target.data()),
                                                      static_cast<Py_ssize_t>(target.size()), PyBUF_WRITE));
  if (!view.is_valid()) {
    throw nb::python_error();
  }
  return view;
}

/// Fills a range by calling `read(offset, memoryview)`.
void read_range(const nb::object& read, std::uint64_t offset, std::span<std::byte> target) {
  const gil_acquire acquire;
  foreign_call([&] { read(offset, view_of(target)); });
}

/// Calls `read(memoryview)`. Returns the number of bytes that it wrote at the beginning of the target.
std::size_t read_some(const nb::object& read, std::span<std::byte> target) {
  const gil_acquire acquire;
  return foreign_call([&] { return std::min(nb::cast<std::size_t>(read(view_of(target))), target.size()); });
}

/// True, False, or "utf8".
using checks = std::variant<bool, std::string>;

ipc::read_options options_of(std::optional<std::vector<std::string>> columns,
                             std::optional<std::pair<std::int64_t, std::int64_t>> batches,
                             std::optional<bool> copy, const checks& validate,
                             std::optional<bool> combine_chunks) {
  ipc::read_options options;
  options.columns = std::move(columns);
  options.batches = batches;
  options.copy = policy_of(copy);
  options.check_texts = std::holds_alternative<std::string>(validate);
  if (options.check_texts && std::get<std::string>(validate) != "utf8") {
    throw error(errc::invalid_argument, concat("validate is '", std::get<std::string>(validate),
                                               "', expected True, False or 'utf8'"));
  }
  const bool values = options.check_texts || std::get<bool>(validate);
  options.check = values ? validation::full : validation::structure;
  options.combine_chunks = combine_chunks;
  return options;
}

using range = std::optional<std::pair<std::int64_t, std::int64_t>>;
using names = std::optional<std::vector<std::string>>;

std::unique_ptr<reader_object> open_file(const std::filesystem::path& file, names columns,
                                         const range& batches, std::optional<bool> copy,
                                         const checks& validate, std::optional<bool> combine_chunks,
                                         bool keep_open) {
  const gil_release release;
  return std::make_unique<reader_object>(ipc::reader::open(
      file, options_of(std::move(columns), batches, copy, validate, combine_chunks), keep_open));
}

std::unique_ptr<reader_object> open_bytes(nb::handle source, names columns, const range& batches,
                                          std::optional<bool> copy, const checks& validate,
                                          std::optional<bool> combine_chunks) {
  auto bytes = std::make_shared<python_bytes>(source);
  const gil_release release;
  const auto span = bytes->span();
  return std::make_unique<reader_object>(ipc::reader::open(
      span, std::move(bytes), options_of(std::move(columns), batches, copy, validate, combine_chunks)));
}

/// @param brought  FetchedBytes, to which `fetch` adds; None without `fetch`
std::unique_ptr<reader_object> open_ranges(const nb::object& read, std::string name, std::uint64_t size,
                                           names columns, const range& batches, std::optional<bool> copy,
                                           const checks& validate, std::optional<bool> combine_chunks,
                                           const nb::object& fetch, const nb::object& brought) {
  const auto kept = kept_callable(read);
  ipc::source_fetcher fetcher;
  std::shared_ptr<fetched_bytes> fetched;
  if (!fetch.is_none()) {
    fetched = {kept_callable(brought), nb::cast<fetched_bytes*>(brought)};
    fetcher = [fetch = kept_callable(fetch), fetched](std::span<const ipc::byte_range> ranges) {
      return fetch_ranges(*fetch, fetched, ranges);
    };
  }
  const gil_release release;
  return std::make_unique<reader_object>(ipc::reader::open(
      std::move(name), size,
      [kept, fetched](std::uint64_t offset, std::span<std::byte> target) {
        if (fetched == nullptr || !fetched->copy(offset, target)) {
          read_range(*kept, offset, target);
        }
      },
      options_of(std::move(columns), batches, copy, validate, combine_chunks), std::move(fetcher)));
}

std::unique_ptr<reader_object> open_live(const nb::object& read, std::string name, names columns,
                                         const range& batches, std::optional<bool> copy,
                                         const checks& validate, std::optional<bool> combine_chunks) {
  const auto kept = kept_callable(read);
  const gil_release release;
  return std::make_unique<reader_object>(ipc::reader::open(
      std::move(name), [kept](std::span<std::byte> target) { return read_some(*kept, target); },
      options_of(std::move(columns), batches, copy, validate, combine_chunks)));
}

std::unique_ptr<reader_object> join_readers(const std::vector<reader_object*>& readers, const schema* meant,
                                            const range& batch_range,
                                            std::optional<std::vector<std::int64_t>> batches) {
  std::vector<std::unique_ptr<ipc::reader>> moved;
  for (reader_object* const each : readers) {
    each->move_to(moved);
  }
  const ipc::data_set_options options{.meant = meant == nullptr ? std::nullopt : std::optional(*meant),
                                      .range = batch_range,
                                      .batches = std::move(batches)};
  const gil_release release;
  return std::make_unique<reader_object>(std::make_unique<ipc::data_set>(std::move(moved), options));
}

/// Returns one number of each batch.
template <auto Number>
auto each_size(reader_object& self) {
  return self.with([](ipc::data_set& of) {
    std::vector<std::decay_t<decltype(ipc::batch_size().*Number)>> values;
    for (const ipc::batch_size& each : of.sizes()) {
      values.push_back(each.*Number);
    }
    return values;
  });
}

/// Calls a function of the data set without arguments.
template <auto Function>
auto call(reader_object& self) {
  return self.with([](ipc::data_set& of) { return (of.*Function)(); });
}

table_object read_all(reader_object& self, const context_object& ctx, const nb::object& progress) {
  return self.with(
      [&](ipc::data_set& from) { return table_object(from.read_all(ctx.value, hook_of(progress))); });
}

std::optional<table_object> next(reader_object& self, const context_object& ctx) {
  return self.with([&](ipc::data_set& from) -> std::optional<table_object> {
    auto rows = from.next(ctx.value);
    if (!rows) {
      return std::nullopt;
    }
    return table_object(table::make(ctx.value, from.fields(), {std::move(*rows)}));
  });
}

/// A scan by windows. It closes without the GIL, because its threads may wait for the GIL in a hook.
class scan_object {
public:
  explicit scan_object(std::unique_ptr<ipc::scan> of) : value_(std::move(of)) {}
  scan_object(const scan_object&) = delete;
  scan_object& operator=(const scan_object&) = delete;
  ~scan_object() {
    const gil_release release;
    value_ = nullptr;
  }

  std::optional<table_object> next() {
    const gil_release release;
    auto rows = value_->next();
    return rows ? std::optional(table_object(std::move(*rows))) : std::nullopt;
  }
  void require_more() const { value_->require_more(); }
  void close() {
    const gil_release release;
    value_->close();
  }

private:
  std::unique_ptr<ipc::scan> value_;
};

std::unique_ptr<scan_object> scan_windows(reader_object& self, const context_object& ctx,
                                          std::uint64_t window_bytes, std::size_t windows_ahead,
                                          std::int64_t batch_rows) {
  return self.with([&](ipc::data_set& from) {
    auto made = from.scan_windows(
        ctx.value, {.window_bytes = window_bytes, .windows_ahead = windows_ahead, .batch_rows = batch_rows});
    return made == nullptr ? nullptr : std::make_unique<scan_object>(std::move(made));
  });
}

using span_list = std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>;

/// The key, and the members of `lane_batches`.
using order_list =
    std::vector<std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                           std::int64_t, std::int64_t, std::int64_t, std::int64_t>>;

using guessed_size = std::tuple<std::int64_t, std::uint64_t, bool>;

std::vector<guessed_size> guess_sizes(reader_object& self) {
  return self.with([](ipc::data_set& of) {
    std::vector<guessed_size> guessed;
    for (const ipc::batch_size& each : of.guess_sizes()) {
      guessed.emplace_back(each.rows, each.bytes, each.compressed);
    }
    return guessed;
  });
}

nb::object fetch_batches(reader_object& self, const context_object& ctx,
                         const std::vector<std::size_t>& numbers) {
  using owner = std::shared_ptr<void>;
  auto kept = std::make_unique<owner>(
      self.with([&](ipc::data_set& of) { return of.fetch_batches(*ctx.value, numbers); }));
  return nb::capsule(kept.release(), [](void* held) noexcept { delete static_cast<owner*>(held); });
}

std::unique_ptr<scan_object> scan_spans(reader_object& self, const context_object& ctx,
                                        const std::vector<span_list>& windows, std::size_t windows_ahead,
                                        const order_list& orders) {
  return self.with([&](ipc::data_set& from) {
    std::vector<std::vector<ipc::batch_span>> lists;
    for (const span_list& window : windows) {
      auto& list = lists.emplace_back();
      for (const auto& [number, first_row, rows] : window) {
        if (number < 0) {
          throw error(errc::out_of_range,
                      concat("window ", lists.size() - 1, ": batch ", number, " is negative"));
        }
        list.push_back({static_cast<std::size_t>(number), first_row, rows});
      }
    }
    std::vector<ipc::window_order> in_order;
    for (const auto& [key, first, step, batch_rows, count, lanes, lane_step, window_batches, round] :
         orders) {
      in_order.push_back({key, {first, step, batch_rows, count, lanes, lane_step, window_batches, round}});
    }
    return std::make_unique<scan_object>(
        from.scan_spans(ctx.value, lists, windows_ahead, std::move(in_order)));
  });
}

const char* name_of_container(ipc::container format) {
  return format == ipc::container::file ? "file" : "stream";
}

/// Text from a file may not be valid UTF-8: invalid bytes become "\xff".
nb::object text_of(const std::string& said) {
  return nb::steal(
      PyUnicode_DecodeUTF8(said.data(), static_cast<Py_ssize_t>(said.size()), "backslashreplace"));
}

nb::dict describe_file(const ipc::file_summary& found) {
  nb::list columns;
  for (const ipc::column_summary& each : found.columns) {
    nb::dict column;
    column["name"] = text_of(each.name);
    column["type"] = text_of(each.type);
    column["nullable"] = each.nullable;
    column["supported"] = each.supported;
    column["nulls"] = each.nulls;
    column["dictionary_values"] =
        each.dictionary_values < 0 ? nb::none() : nb::object(nb::int_(each.dictionary_values));
    columns.append(column);
  }
  nb::dict metadata;
  for (const auto& [key, value] : found.metadata) {
    metadata[nb::bytes(key.data(), key.size())] = nb::bytes(value.data(), value.size());
  }
  nb::dict result;
  result["format"] = name_of_container(found.format);
  result["bytes"] = found.bytes;
  result["compression"] = found.compression;
  result["metadata_version"] = found.metadata_version;
  result["batch_rows"] = found.batch_rows;
  result["metadata"] = metadata;
  result["columns"] = columns;
  return result;
}

nb::dict inspect_file(const std::filesystem::path& file) {
  return describe_file(without_gil([&] { return ipc::inspect(file); }));
}

nb::dict inspect_bytes(nb::handle source) {
  const python_bytes bytes(source);
  return describe_file(without_gil([&] { return ipc::inspect(bytes.span()); }));
}

nb::dict inspect_ranges(const nb::object& read, const std::string& name, std::uint64_t size) {
  return describe_file(without_gil([&] {
    return ipc::inspect(name, size, [&](std::uint64_t offset, std::span<std::byte> target) {
      read_range(read, offset, target);
    });
  }));
}

nb::dict inspect_live(const nb::object& read, const std::string& name) {
  return describe_file(without_gil([&] {
    return ipc::inspect(name, [&](std::span<std::byte> target) { return read_some(read, target); });
  }));
}

} // namespace
} // namespace saeta::py

NB_MODULE(_ipc, m) {
  using namespace saeta;
  using namespace saeta::py;
  static nb::handle first;
  if (is_imported_again(m, first)) {
    return;
  }
  m.doc() = "Arrow IPC files and streams.";
  bind_fetched_bytes(m);

  nb::class_<ipc::progress>(m, "Progress", "How far a read or a write has come.")
      .def(nb::new_([](std::int64_t batches, std::int64_t total_batches, std::int64_t rows,
                       std::uint64_t bytes, std::int64_t total_rows) {
             return ipc::progress{batches, total_batches, rows, bytes, total_rows};
           }),
           nb::arg("batches"), nb::arg("total_batches"), nb::arg("rows"), nb::arg("bytes"),
           nb::arg("total_rows") = -1)
      .def_ro("batches", &ipc::progress::batches)
      .def_ro("total_batches", &ipc::progress::total_batches, "-1 if it is not known, as of a stream.")
      .def_ro("rows", &ipc::progress::rows)
      .def_ro("total_rows", &ipc::progress::total_rows, "-1 if it is not known, as of a stream.")
      .def_ro("bytes", &ipc::progress::bytes, "Bytes of batch bodies.");
  nb::class_<scan_object>(m, "WindowScan", "The batches of a source, read in windows.")
      .def(not_pickled("pass the source, and scan it there"))
      .def("next", &scan_object::next, nb::sig("def next(self) -> saeta._core.Table | None"),
           "The next rows, None at the end.")
      .def("require_more", &scan_object::require_more, "Raises ClosedError if no rows can be taken any more.")
      .def("close", &scan_object::close, "Ends reading within 50 ms.");

  nb::class_<reader_object>(m, "Reader", "One or several open Arrow IPC files or streams.")
      .def(not_pickled("pass the source, and open a reader there"))
      .def_prop_ro(
          "format", [](reader_object& self) { return name_of_container(call<&ipc::data_set::format>(self)); },
          "\"file\" or \"stream\", of the first source.")
      .def_prop_ro("schema", &call<&ipc::data_set::fields>, nb::sig("def schema(self) -> saeta._core.Schema"))
      .def(
          "choose",
          [](reader_object& self, std::vector<std::string> columns) {
            self.with([&](ipc::data_set& of) { of.choose(std::move(columns)); });
          },
          nb::arg("columns"),
          "Reads only these columns of one source, of which nothing was read. For a choice that depends on "
          "the "
          "schema.")
      .def_prop_ro("num_batches", &call<&ipc::data_set::batch_count>,
                   "Batches that were asked for; -1 for a stream.")
      .def_prop_ro("near_by", &call<&ipc::data_set::near_by>,
                   "Whether all sources are files or memory of this machine.")
      .def_prop_ro("planned", &call<&ipc::data_set::planned>,
                   "Whether parts of batches can be read in any order, by `scan_spans`.")
      .def_prop_ro("batch_rows", &each_size<&ipc::batch_size::rows>,
                   "Rows of each batch that was asked for, from metadata. UnsupportedError if not `planned`.")
      .def_prop_ro(
          "batch_bytes", &each_size<&ipc::batch_size::bytes>,
          "Bytes of the columns in each batch, as they are in the source. UnsupportedError if not `planned`.")
      .def_prop_ro("batch_compressed", &each_size<&ipc::batch_size::compressed>,
                   "Whether each batch is compressed. UnsupportedError if not `planned`.")
      .def_prop_ro("undivided", &call<&ipc::data_set::undivided>,
                   "The first column whose rows may be anywhere in a compressed batch. Empty: parts of it "
                   "can be read.")
      .def(
          "divided_bytes",
          [](reader_object& self, const std::vector<std::size_t>& numbers) {
            return self.with([&](ipc::data_set& of) { return of.divided_bytes(numbers); });
          },
          nb::arg("numbers"), "Decoded bytes of compressed batches whose parts can be read; 0 for others.")
      .def("guess_sizes", &guess_sizes,
           "Begins to fetch the metadata of all batches of a store, and returns what the rows and bytes of "
           "each "
           "one probably are, and whether it is compressed. Empty if they are known, or not needed.")
      .def("fetch_batches", &fetch_batches, nb::arg("where"), nb::arg("numbers"),
           nb::sig("def fetch_batches(self, where: saeta._core.Context, numbers: "
                   "collections.abc.Sequence[int]) -> object"),
           "Begins to fetch whole batches, in this order, for a scan that follows. They are kept with the "
           "result.")
      .def("read_all", &read_all, nb::arg("where"), nb::arg("progress") = nb::none(),
           nb::sig("def read_all(self, where: saeta._core.Context, progress: "
                   "collections.abc.Callable[[Progress], object] | None = None) -> saeta._core.Table"),
           "All batches from here on, as a table of the context. `progress` is called now and then, at least "
           "at the end.")
      .def("scan_windows", &scan_windows, nb::arg("where"), nb::arg("window_bytes"), nb::arg("windows_ahead"),
           nb::arg("batch_rows"),
           nb::sig("def scan_windows(self, where: saeta._core.Context, window_bytes: int, windows_ahead: "
                   "int, batch_rows: int) -> WindowScan | None"),
           "Begins to read all batches from here on in windows. None where batches are read one by one.")
      .def("scan_spans", &scan_spans, nb::arg("where"), nb::arg("windows"), nb::arg("windows_ahead"),
           nb::arg("orders") = order_list(),
           nb::sig("def scan_spans(self, where: saeta._core.Context, windows: "
                   "collections.abc.Sequence[collections.abc.Sequence[tuple[int, int, int]]], windows_ahead: "
                   "int, orders: collections.abc.Sequence[tuple[int, int, int, int, int, int, int, int, "
                   "int]] = ...) -> "
                   "WindowScan"),
           "Begins to read windows, each as one table. A window is a sequence of (batch, first row, rows); "
           "rows is -1 for all that follow. Batches may occur in any order and repeatedly. `orders` permute "
           "the rows of each window, as the arguments of `Table._take_permuted`. A window that the budget "
           "refuses can be requested again. UnsupportedError if not `planned`.")
      .def("next", &next, nb::arg("where"),
           nb::sig("def next(self, where: saeta._core.Context) -> saeta._core.Table | None"),
           "The next batch as a table, None at the end.")
      .def_prop_ro("live", &reader_object::live, "Whether it reads a stream that is still being sent.")
      .def("close", &reader_object::close,
           "Lets the source go. Columns that view it keep it. Using the reader then is ClosedError, also for "
           "a thread that reads: it ends within 50 ms, of a live stream when its call has returned, and lets "
           "the source go.")
      .def(with_block<&reader_object::close>("def __enter__(self) -> Reader"));

  m.def("open_file", &open_file, nb::arg("path"), nb::arg("columns") = nb::none(),
        nb::arg("batches") = nb::none(), nb::arg("copy") = nb::none(), nb::arg("validate") = true,
        nb::arg("combine_chunks") = nb::none(), nb::arg("keep_open") = true,
        nb::sig("def open_file(path: str | os.PathLike[str], columns: collections.abc.Sequence[str] | None = "
                "None, batches: tuple[int, int] | None = None, copy: bool | None = None, validate: bool | "
                "str = True, combine_chunks: bool | None = None, keep_open: bool = True) -> Reader"),
        "Opens a file. It is mapped only where columns view it. Files that are not kept open share a limited "
        "number of descriptors.");
  m.def("open_bytes", &open_bytes, nb::arg("source"), nb::arg("columns") = nb::none(),
        nb::arg("batches") = nb::none(), nb::arg("copy") = nb::none(), nb::arg("validate") = true,
        nb::arg("combine_chunks") = nb::none(),
        nb::sig(
            "def open_bytes(source: bytes | bytearray | memoryview, columns: "
            "collections.abc.Sequence[str] | None = None, batches: tuple[int, int] | None = None, copy: "
            "bool | None = None, validate: bool | str = True, combine_chunks: bool | None = None) -> Reader"),
        "Opens bytes, which columns of a host context may view for as long as they live.");
  m.def(
      "open_ranges", &open_ranges, nb::arg("read"), nb::arg("name"), nb::arg("size"),
      nb::arg("columns") = nb::none(), nb::arg("batches") = nb::none(), nb::arg("copy") = nb::none(),
      nb::arg("validate") = true, nb::arg("combine_chunks") = nb::none(), nb::arg("fetch") = nb::none(),
      nb::arg("fetched").none() = nb::none(),
      nb::sig(
          "def open_ranges(read: collections.abc.Callable[[int, memoryview], object], name: str, size: int, "
          "columns: collections.abc.Sequence[str] | None = None, batches: tuple[int, int] | None = None, "
          "copy: bool | None = None, validate: bool | str = True, combine_chunks: bool | None = None, fetch: "
          "collections.abc.Callable[[list[tuple[int, int]]], object] | None = None, fetched: FetchedBytes | "
          "None = None) -> Reader"),
      "Opens a source of `size` bytes. `read(offset, target)` fills the target; several threads call it. "
      "`fetch` begins to bring ranges (offset, bytes) that will be needed to `fetched`, and returns what "
      "keeps them; `read` is then called for what is not there, and for large ranges as a whole.");
  m.def("open_live", &open_live, nb::arg("read"), nb::arg("name"), nb::arg("columns") = nb::none(),
        nb::arg("batches") = nb::none(), nb::arg("copy") = nb::none(), nb::arg("validate") = true,
        nb::arg("combine_chunks") = nb::none(),
        nb::sig(
            "def open_live(read: collections.abc.Callable[[memoryview], int], name: str, columns: "
            "collections.abc.Sequence[str] | None = None, batches: tuple[int, int] | None = None, copy: "
            "bool | None = None, validate: bool | str = True, combine_chunks: bool | None = None) -> Reader"),
        "Opens a stream that is still being sent. `read(target)` fills the beginning of the target and "
        "returns how many bytes, 0 at the end.");
  m.def("join_readers", &join_readers, nb::arg("readers"), nb::arg("schema").none() = nb::none(),
        nb::arg("batch_range") = nb::none(), nb::arg("batches") = nb::none(),
        nb::sig("def join_readers(readers: collections.abc.Sequence[Reader], schema: saeta._core.Schema | "
                "None = None, batch_range: tuple[int, int] | None = None, batches: "
                "collections.abc.Sequence[int] | None = None) -> Reader"),
        "Makes one reader of several that were opened with the same options and without batches. They are "
        "then closed. `schema` is that of the result, by default that of the rows of all. `batch_range` or "
        "`batches` are numbers through all of them.");
  bind_writing(m);
  bind_atomic_file(m);
  bind_packing(m);
  bind_spilling(m);
  m.def("inspect_file", &inspect_file, nb::arg("path"),
        nb::sig("def inspect_file(path: str | os.PathLike[str]) -> dict[str, typing.Any]"),
        "What a file says about itself.");
  m.def("inspect_bytes", &inspect_bytes, nb::arg("source"),
        nb::sig("def inspect_bytes(source: bytes | bytearray | memoryview) -> dict[str, typing.Any]"),
        "What bytes say about themselves.");
  m.def("inspect_ranges", &inspect_ranges, nb::arg("read"), nb::arg("name"), nb::arg("size"),
        nb::sig("def inspect_ranges(read: collections.abc.Callable[[int, memoryview], object], name: str, "
                "size: int) -> dict[str, typing.Any]"),
        "What a source says about itself, as `open_ranges` takes it.");
  m.def("inspect_live", &inspect_live, nb::arg("read"), nb::arg("name"),
        nb::sig("def inspect_live(read: collections.abc.Callable[[memoryview], int], name: str) -> dict[str, "
                "typing.Any]"),
        "What a stream says about itself, as `open_live` takes it. Reads it to its end.");
  complete_functions(m);
  first = nb::object(m).release();
}
