// The threads of one write: they compress blocks and put pieces into the file.
//
// What      `run` does numbered tasks together with the calling thread, and may be called inside of a task.
//           `queue` leaves a piece of work to the threads and goes on; few of them do queued work at a time,
//           since a file system lets one thread after the other into a file.
// Owner     One write. The destructor waits for the tasks that have begun and drops the others.
// Thread    `queue`, `wait_until` and `finish`: the one that made it. `run`: that one, and whoever does a
//           task.
// Failure   The first failure ends everything: nothing that waits is begun any more, and each call throws it
//           from then on. Calls look for an interrupt (base/interrupt.hpp) between two tasks and while they
//           wait.
#pragma once

#include "saeta/base/interrupt_pace.hpp"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace saeta::ipc::detail {

class write_team {
public:
  static constexpr std::size_t most_queued = std::size_t{64} << 20; ///< bytes that `queue` goes on with
  static constexpr std::size_t most_at_queue = 4;                   ///< threads that do queued work

  /// @param threads  beside the calling one; 0: one less than the machine has. They start when there is
  /// something to do.
  explicit write_team(std::size_t threads = 0);
  write_team(const write_team&) = delete;
  write_team& operator=(const write_team&) = delete;
  ~write_team();

  void run(std::size_t tasks, const std::function<void(std::size_t task)>& work);
  /// @param bytes  that the work keeps in memory. Waits until at most `most_queued` are left, and takes part.
  void queue(std::size_t bytes, std::function<void()> work);
  /// Waits until `enough()` or until everything queued is done, and takes part. `enough` is called again
  /// after each piece of work.
  void wait_until(const std::function<bool()>& enough);
  /// Waits until everything queued is done, and takes part.
  void finish();

private:
  using lock_type = std::unique_lock<std::mutex>;
  struct shared_run {
    const std::function<void(std::size_t)>* work;
    std::size_t tasks;
    std::size_t next = 0;
    std::size_t running = 0;
  };
  struct queued_work {
    std::size_t bytes;
    std::function<void()> work;
  };

  void start() noexcept;
  void loop();
  void work_off_queue(lock_type& lock, const std::function<bool()>& enough);
  [[nodiscard]] bool may_take() const noexcept;
  void take(lock_type& lock);
  void take_of(shared_run& from, lock_type& lock);
  void take_queued(lock_type& lock);
  /// Does it without the lock; what it throws becomes the failure, unless there is one.
  template <class Action>
  void attempt(lock_type& lock, const Action& action) noexcept;
  void throw_failure() const;

  std::size_t most_threads_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::list<shared_run*> runs_; ///< with tasks that nobody has begun
  std::deque<queued_work> queue_;
  std::size_t queued_bytes_ = 0; ///< with those of work that has begun
  std::size_t at_queue_ = 0;     ///< threads that do queued work
  interrupt_pace pace_;          ///< of the owner's thread
};

} // namespace saeta::ipc::detail
