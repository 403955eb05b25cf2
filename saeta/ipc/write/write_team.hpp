// The threads of one write. They compress blocks and write pieces to the file.
//
// What      `run` runs numbered tasks on the threads and the calling thread. It may be called inside a task.
//           `queue` hands work to the threads and returns. Only a few threads run queued work at a time,
//           because a file system serializes writes to one file.
// Owner     One write. The destructor waits for tasks that have begun and drops the others.
// Thread    `queue`, `wait_until` and `finish`: the thread that made the team. `run`: that thread, and
//           threads in a task.
// Failure   After the first failure no waiting task begins, and every call throws that failure. Calls check
//           for an interrupt (base/interrupt.hpp) between two tasks and while they wait.
#pragma once

#include "saeta/base/interruptible_wait.hpp"

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
  static constexpr std::size_t most_queued = std::size_t{64} << 20; ///< most bytes left when `queue` returns
  static constexpr std::size_t most_at_queue = 4;                   ///< threads that run queued work

  /// @param threads  in addition to the calling one; 0: one less than the machine has. They start when work
  /// arrives.
  explicit write_team(std::size_t threads = 0);
  write_team(const write_team&) = delete;
  write_team& operator=(const write_team&) = delete;
  ~write_team();

  void run(std::size_t tasks, const std::function<void(std::size_t task)>& work);
  /// Queues work, then helps until at most `most_queued` bytes are queued.
  /// @param bytes  bytes that the work keeps in memory.
  void queue(std::size_t bytes, std::function<void()> work);
  /// Helps with queued work until `enough()` is true or all of it is done. `enough` is called again after
  /// each task.
  void wait_until(const std::function<bool()>& enough);
  /// Helps with queued work until all of it is done.
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
  void process_queue(lock_type& lock, const std::function<bool()>& enough);
  [[nodiscard]] bool may_take() const noexcept;
  void take(lock_type& lock);
  void take_of(shared_run& from, lock_type& lock);
  void take_queued(lock_type& lock);
  /// Runs `action` without the lock. Its exception becomes the team's failure, unless there is one already.
  template <class Action>
  void attempt(lock_type& lock, const Action& action) noexcept;
  void throw_failure() const;

  std::size_t most_threads_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::list<shared_run*> runs_; ///< runs that have tasks not yet begun
  std::deque<queued_work> queue_;
  std::size_t queued_bytes_ = 0; ///< includes work that has begun
  std::size_t at_queue_ = 0;     ///< threads that run queued work
  interrupt_pace pace_;          ///< for the owner's thread
};

} // namespace saeta::ipc::detail
