// What destructors, callbacks and background threads of the library report goes to Python's `logging`.
//
// A report may come from any thread, with or without the GIL and with locks of the library held, so it must not ask for the
// GIL. It is put on a list, and Python's main thread logs what is there when it next looks for pending calls. What comes after
// the interpreter has begun to end goes to standard error, as without Python.
#include "module.hpp"
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
  waiting_report* before = nullptr; ///< the one that came earlier
};

std::atomic<waiting_report*> latest{nullptr}; ///< a list without a lock: a child of fork finds no lock held
std::atomic<bool> asked{false};               ///< whether a pending call is on its way
std::atomic<report_sink> without_python{nullptr};

/// The reports that wait, oldest first.
std::vector<std::unique_ptr<waiting_report>> take_all() {
  std::vector<std::unique_ptr<waiting_report>> taken;
  for (waiting_report* each = latest.exchange(nullptr); each != nullptr; each = each->before) {
    taken.emplace_back(each);
  }
  std::reverse(taken.begin(), taken.end());
  return taken;
}

/// With the GIL.
void log_one(const waiting_report& report) {
  try {
    const nb::object text = nb::steal(
        PyUnicode_DecodeUTF8(report.text.data(), static_cast<Py_ssize_t>(report.text.size()), "replace"));
    nb::module_::import_("saeta._reports").attr("log")(text);
  } catch (nb::python_error& failure) {
    failure.discard_as_unraisable("saeta: logging a report");
  }
}

/// With the GIL, on the main thread. What is reported meanwhile is logged by the same call: a pending call during which
/// another one is asked for does not end in CPython 3.11 where Python code is traced.
int log_waiting(void*) {
  foreign_call([] {
    do {
      for (const auto& each : take_all()) {
        log_one(*each);
      }
      asked = false;
    } while (latest.load() != nullptr && !asked.exchange(true));
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
    // CPython keeps few pending calls. Where it has no room, the next report asks again.
    if (!asked.exchange(true) && Py_AddPendingCall(&log_waiting, nullptr) != 0) {
      asked = false;
    }
  } catch (...) {
    without_python.load()(where, message);
  }
}

} // namespace

void install_reports() {
  without_python = set_report_sink(&put_on_list);
  // The last ones, and from then on standard error: nobody runs pending calls any more.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    log_waiting(nullptr);
    set_report_sink(without_python.load());
  }));
}

} // namespace saeta::py
