#include "saeta/spill/background_thread.hpp"

#include "saeta/base/report.hpp"

#include <utility>

namespace saeta {

background_thread::~background_thread() {
  if (!thread_.joinable()) {
    return;
  }
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

bool background_thread::start(std::function<void()> job) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) {
      thread_.join();
    }
    thread_ = std::thread(std::move(job));
    return true;
  } catch (...) {
    report_current_exception("no thread can be started that moves spilled tables or page-locks memory");
    return false;
  }
}

} // namespace saeta
