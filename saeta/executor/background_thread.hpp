// A thread that an object owns. The library starts all of its threads here.
//
// @code
// std::atomic<bool> stop = false;
// background_thread worker("prefetch");
// if (worker.start([&stop] { stop.wait(false); })) {
//   stop = true; // ends the work
//   stop.notify_one();
//   worker.join();
// }
// @endcode
//
// What      `start` runs work on a new thread. `join` waits for its end, as the destructor does.
// Stop      The owner has a flag that ends the work. It sets the flag, wakes the work and joins.
// Owner     The object that has it. The work may destroy its owner, because it may hold the last pointer to
//           it: a thread does not wait for itself, but ends on its own.
// Fork      A child does not have the threads of its parent. It does not wait for them and can't start them.
// Thread    Any, but one `start` at a time.
// Failure   An exception of the work is reported (base/report.hpp).
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/process.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace SAETA_EXPORT saeta {

class background_thread {
public:
  /// @param name  of the thread in the system: at most 15 characters, which live as long as the program
  explicit background_thread(const char* name) noexcept : name_(name) {}
  background_thread(const background_thread&) = delete;
  background_thread& operator=(const background_thread&) = delete;
  ~background_thread() { join(); }

  /// Waits until the last work has ended, then runs `work`. Returns false if the system has no thread.
  [[nodiscard]] bool start(std::function<void()> work) noexcept;
  /// Waits until the work has ended. Returns at once if another call of `join` waits.
  void join() noexcept;
  /// Lets the work end on its own.
  void detach() noexcept;
  /// Whether work was started that was neither joined nor detached.
  [[nodiscard]] bool joinable() const noexcept;
  /// Whether the calling thread runs the work.
  [[nodiscard]] bool is_current() const noexcept;
  /// Whether the calling thread is one of the library's, not one of the program's.
  [[nodiscard]] static bool is_calling() noexcept;

private:
  using handle = std::unique_ptr<std::thread, delete_in_own_process>;

  /// Takes the thread's handle, so that no other call can take it.
  [[nodiscard]] handle take() noexcept;

  const char* name_;
  const std::uint64_t made_in_ = fork_generation();
  mutable std::mutex mutex_; ///< held only for moments
  handle thread_;
};

} // namespace saeta
