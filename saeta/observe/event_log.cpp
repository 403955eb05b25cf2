#include "saeta/observe/event_log.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/thread_number.hpp"

#include <algorithm>

namespace saeta {

std::string_view to_string(memory_event kind) noexcept {
  switch (kind) {
  case memory_event::allocate:
    return "allocate";
  case memory_event::free:
    return "free";
  case memory_event::refuse:
    return "refuse";
  case memory_event::fail:
    return "fail";
  case memory_event::free_failed:
    return "free_failed";
  case memory_event::drain:
    return "drain";
  case memory_event::trim:
    return "trim";
  case memory_event::relief:
    return "relief";
  case memory_event::adopt:
    return "adopt";
  case memory_event::release:
    return "release";
  case memory_event::spill:
    return "spill";
  case memory_event::unspill:
    return "unspill";
  case memory_event::demote:
    return "demote";
  }
  return "unknown";
}

void event_log::attach(std::shared_ptr<log_sink> sink) {
  require_argument(sink, "sink");
  const std::lock_guard lock(mutex_);
  sinks_.push_back(std::move(sink));
  active_.store(true, std::memory_order_relaxed);
}

void event_log::detach(const std::shared_ptr<log_sink>& sink) noexcept {
  if (made_in_ != fork_generation()) {
    return; // the sink belongs to the parent process, which flushes it
  }
  const std::lock_guard lock(mutex_);
  const auto match = std::find(sinks_.begin(), sinks_.end(), sink);
  if (match == sinks_.end()) {
    return;
  }
  const std::shared_ptr<log_sink> last_use = *match; // `sink` may refer to the element that is erased
  sinks_.erase(match);
  active_.store(!sinks_.empty(), std::memory_order_relaxed);
  try {
    last_use->flush();
  } catch (...) {
    report_current_exception("event_log::detach");
  }
}

void event_log::write(log_record record) noexcept {
  record.thread = thread_number();
  const std::lock_guard lock(mutex_);
  if (sinks_.empty()) {
    return;
  }
  record.order = ++last_;
  record.time_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begun_).count();
  for (const auto& sink : sinks_) {
    try {
      sink->write(record);
    } catch (...) {
      drop();
    }
  }
}

void event_log::flush() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& sink : sinks_) {
    try {
      sink->flush();
    } catch (...) {
      report_current_exception("event_log::flush");
    }
  }
}

} // namespace saeta
