// Sends reports of the library's destructors, callbacks and background threads to Python's `logging`.
//
// A report may come from any thread, with or without the GIL and with locks of the library held, so it must
// not take the GIL. It is put on a list, and Python's main thread logs the list at its next pending call.
// Once the interpreter begins to end, reports go to standard error, as without Python.
#include "python/src/core/module.hpp"
#include "saeta/base/report.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace saeta::py {
namespace {

struct waiting_report {
  std::string text;
  waiting_report* before = nullptr; ///< the next older report
};

std::atomic<waiting_report*> latest{nullptr}; ///< lock-free, so that a forked child never finds a held lock
std::atomic<bool> scheduled{false};           ///< whether a pending call is scheduled
std::atomic<report_sink> without_python{nullptr};

/// Takes all waiting reports, oldest first.
std::vector<std::unique_ptr<waiting_report>> take_all() {
  std::vector<std::unique_ptr<waiting_report>> taken;
  for (waiting_report* each = latest.exchange(nullptr); each != nullptr; each = each->before) {
    taken.emplace_back(each);
  }
  std::reverse(taken.begin(), taken.end());
  return taken;
}

/// The caller holds the GIL.
void log_one(const waiting_report& report) {
  try {
    const nb::object text = nb::steal(
        PyUnicode_DecodeUTF8(report.text.data(), static_cast<Py_ssize_t>(report.text.size()), "replace"));
    nb::module_::import_("saeta._report.failures").attr("log")(text);
  } catch (nb::python_error& failure) {
    failure.discard_as_unraisable("saeta: logging a report");
  }
}

/// With the GIL held, on the main thread. The same call logs reports that arrive meanwhile: in CPython 3.11,
/// a pending call that schedules another one does not end while Python code is traced.
int log_waiting(void*) {
  foreign_call([] {
    do {
      for (const auto& each : take_all()) {
        log_one(*each);
      }
      scheduled = false;
    } while (latest.load() != nullptr && !scheduled.exchange(true));
  });
  return 0;
}

void put_on_list(std::string_view where, std::string_view message) noexcept {
  if (!interpreter_alive()) {
    return without_python.load()(where, message);
  }
  try {
    auto made = std::make_unique<waiting_report>();
    made->text = concat(where, ": ", message);
    made->before = latest.load();
    while (!latest.compare_exchange_weak(made->before, made.get())) {
    }
    made.release();
    // CPython's queue of pending calls is small. If it is full, the next report tries again.
    if (!scheduled.exchange(true) && Py_AddPendingCall(&log_waiting, nullptr) != 0) {
      scheduled = false;
    }
  } catch (...) {
    without_python.load()(where, message);
  }
}

} // namespace

void install_reports() {
  without_python = set_report_sink(&put_on_list);
  // Logs the last reports at exit. Later ones go to standard error, because pending calls no longer run.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    log_waiting(nullptr);
    set_report_sink(without_python.load());
  }));
}

} // namespace saeta::py
