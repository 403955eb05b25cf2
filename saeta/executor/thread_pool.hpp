// Threads that run numbered tasks together with the caller, and work that is queued for them.
//
// @code
// std::array<std::int64_t, 8> squares{};
// thread_pool pool(4); // three threads and the caller
// pool.run(squares.size(), [&](std::size_t /*member*/, std::size_t task) {
//   squares.at(task) = static_cast<std::int64_t>(task * task);
// }); // all tasks are done
// @endcode
//
// What      The members of a pool are its threads and a caller. `run` does numbered tasks and waits for them.
//           `queue` leaves work to the threads and returns. It is meant for calls that the system serializes,
//           such as writes to one file, so few threads do it at a time.
// Owner     A staging ring, a write, a read. Threads start when there is work for them and end with the pool.
//           If the system has no more threads, the others and the caller do the work. The destructor waits
//           for work that has begun and drops what is queued.
// Thread    Several calls of `run` at a time, also inside of a task. A member without a task takes one of any
//           call, so no member is idle during the last tasks of one call while another call has tasks. One
//           caller at a time is member 0. The others wait for it, or for the end of their tasks. A task that
//           calls `run` stays the member that it is. A single task is the caller's, unless another caller is
//           member 0. `queue` and `wait_until`: one thread.
//           A call from a background thread leaves one member of eight idle: the program goes on beside it,
//           and takes a core from a member, for which all others wait. With all 16 cores a scan took 110% of
//           a whole read of 1 GiB, with 14 of them 103% (H200).
// Order     Calls with fewer tasks go first. They may be what a longer one needs: the offsets of strings.
//           When such a call begins, members leave a longer one after the task that they are in. Only its
//           caller stays. Queued work goes last.
// Interrupt Callers check for an interrupt (base/interrupt.hpp) between two tasks, now and then, and while
//           they wait. It is a failure like any other. The cancellation scope of a caller (base/interrupt.hpp)
//           applies to all members that take part, so that it ends waits of their tasks.
// Sleep     Members without work sleep. `run` wakes no more of them than there are tasks, and does not wait
//           for one that wakes up when all tasks are done. If `run` has a condition, they spin for the next
//           round until it is true, for at most `most_awake`. Data that a core has written lies in its cache,
//           and a sleeping core is slow to hand it to the device.
// Failure   The first exception of a member stops the others at their next task. `run` throws it after all
//           have stopped. After a failure of queued work no other begins, and every call throws that failure.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/interruptible_wait.hpp"
#include "saeta/executor/background_thread.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace SAETA_EXPORT saeta {

class thread_pool {
public:
  using task_function = std::function<void(std::size_t member, std::size_t task)>;
  using condition = std::function<bool()>;

  /// The ring's copies in flight arrive in less than half of this time.
  static constexpr std::chrono::milliseconds most_awake{3};
  static constexpr std::size_t most_queued = std::size_t{64} << 20; ///< most bytes left when `queue` returns
  static constexpr std::size_t most_at_queue = 4;                   ///< members that do queued work

  /// @param members  the threads and one caller; 0: as many as the machine has cores, at least two
  explicit thread_pool(std::size_t members = 0);
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  ~thread_pool();

  [[nodiscard]] std::size_t members() const noexcept { return members_; }
  /// Returns how many members at most take part in a call of the current thread.
  [[nodiscard]] std::size_t members_of_call() const noexcept;
  /// Calls `work` once for each task in [0, tasks), several at a time. Tasks start in increasing order.
  /// @param may_sleep  called by several members at a time, even after `run` has returned, until it is true
  ///                   or the next round begins; null: members sleep at once. The caller does not call it.
  void run(std::size_t tasks, const task_function& work,
           const std::shared_ptr<const condition>& may_sleep = nullptr);
  /// Queues work, then helps until at most `most_queued` bytes are queued.
  /// @param bytes  bytes that the work keeps in memory.
  void queue(std::size_t bytes, std::function<void()> work);
  /// Helps with queued work until `enough()` is true or all of it is done. `enough` is called again after
  /// each piece of work.
  void wait_until(const condition& enough);

private:
  using lock_type = std::unique_lock<std::mutex>;
  struct round;
  struct queued_work {
    std::size_t bytes;
    std::function<void()> work;
  };

  /// Starts threads until `idle` threads have nothing to do, or all threads have been started.
  void start(std::size_t idle);
  void loop(std::size_t member);
  /// Takes part in a round as member 0. If another caller is member 0, waits for it or for the round's end.
  /// @param lock  held; released meanwhile.
  void lead(lock_type& lock, round& mine);
  /// Returns the first round with a task that nobody has begun and room for a member; null if there is none.
  [[nodiscard]] round* find_open() const noexcept;
  void take_part(std::size_t member, round& in, bool is_caller) noexcept;
  void stay_awake(std::size_t rounds, const condition& may_sleep) const;
  [[nodiscard]] bool may_take_queued() const noexcept;
  void take_queued(lock_type& lock);
  void throw_failure() const;

  std::size_t members_;
  std::mutex mutex_;
  std::condition_variable begun_;
  std::condition_variable left_;
  std::atomic<std::size_t> rounds_begun_{0}; ///< changed under the mutex, like `stop_`
  std::vector<round*> rounds_;               ///< of more than one task, by ascending number of tasks
  std::size_t busy_ = 0;                     ///< threads of the pool that have work
  bool led_ = false;                         ///< a caller takes part as member 0
  std::atomic<bool> stop_{false};
  std::deque<queued_work> queue_;
  std::size_t queued_bytes_ = 0; ///< includes work that has begun
  std::size_t at_queue_ = 0;     ///< members that do queued work
  std::exception_ptr failure_;   ///< of queued work
  interrupt_pace pace_;          ///< for the thread that queues
  std::list<background_thread> threads_;
};

} // namespace saeta
