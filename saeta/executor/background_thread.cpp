#include "saeta/executor/background_thread.hpp"

#include "saeta/base/report.hpp"

#include <utility>

#include <pthread.h>

namespace saeta {
namespace {

thread_local bool calling = false;

} // namespace

bool background_thread::start(std::function<void()> work) noexcept {
  if (made_in_ != fork_generation()) {
    return false;
  }
  join();
  try {
    const std::lock_guard lock(mutex_);
    thread_.reset(new std::thread([name = name_, done_here = std::move(work)] {
      ::pthread_setname_np(::pthread_self(), name);
      calling = true;
      try {
        done_here();
      } catch (...) {
        report_current_exception(name);
      }
    }));
    return true;
  } catch (...) { // std::system_error, or no memory
    return false;
  }
}

void background_thread::join() noexcept {
  const handle ending = take();
  if (ending != nullptr && ending->get_id() == std::this_thread::get_id()) {
    ending->detach();
  } else if (ending != nullptr) {
    ending->join();
  }
}

void background_thread::detach() noexcept {
  if (const handle leaving = take()) {
    leaving->detach();
  }
}

bool background_thread::joinable() const noexcept {
  const std::lock_guard lock(mutex_);
  return thread_ != nullptr;
}

bool background_thread::is_current() const noexcept {
  const std::lock_guard lock(mutex_);
  return thread_ != nullptr && thread_->get_id() == std::this_thread::get_id();
}

bool background_thread::is_calling() noexcept { return calling; }

background_thread::handle background_thread::take() noexcept {
  if (made_in_ != fork_generation()) {
    return nullptr; // a thread of the parent may have held the lock
  }
  const std::lock_guard lock(mutex_);
  return std::move(thread_);
}

} // namespace saeta
