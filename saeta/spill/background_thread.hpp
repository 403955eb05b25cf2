// A thread for work that nobody waits for. Private to spill/.
//
// Owner     The object that has it. Its destructor waits for the job, unless the job itself destroys the
//           owner: the job may have held the last pointer to it.
// Thread    Any.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

namespace saeta {

class background_thread {
public:
  background_thread() = default;
  background_thread(const background_thread&) = delete;
  background_thread& operator=(const background_thread&) = delete;
  ~background_thread();

  /// Does a job on a new thread. Waits for the thread of the job before, so call it when that job has ended.
  /// Returns false, and reports why, if no thread can be started.
  /// @param job  must not throw
  [[nodiscard]] bool start(std::function<void()> job) noexcept;

private:
  std::mutex mutex_;
  std::thread thread_;
};

} // namespace saeta
