// A team of threads that runs numbered tasks together with the caller.
//
// Owner     The staging ring. Threads start with the first `run` that needs them and end with the team.
// Thread    Several calls of `run` at a time. A member without a task takes one of any call, so no member is
//           idle during the last tasks of one call while another call has tasks. One caller at a time is
//           member 0. The others wait for it, or for the end of their tasks. A single task is the caller's,
//           unless another caller is member 0.
// Order     Calls with fewer tasks go first. They may be what a longer one needs: the offsets of strings.
//           When such a call begins, members leave a longer one after the task that they are in. Only its
//           caller stays.
// Interrupt The caller checks for an interrupt (base/interrupt.hpp) between two tasks, now and then. It is a
//           failure like any other.
// Sleep     Members without work sleep. `run` wakes no more of them than there are tasks, and does not wait
//           for one that wakes up when all tasks are done. If `run` has a condition, they spin for the next
//           round until it is true, for at most `most_awake`. Data that a core has written lies in its cache,
//           and a sleeping core is slow to hand it to the device.
// Failure   The first exception of a member stops the others at their next task. `run` throws it after all
//           have stopped.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace saeta {

class worker_team {
public:
  using task_function = std::function<void(std::size_t member, std::size_t task)>;
  using condition = std::function<bool()>;

  /// The ring's copies in flight arrive in less than half of this time.
  static constexpr std::chrono::milliseconds most_awake{3};

  explicit worker_team(std::size_t members) : members_(members) {}
  worker_team(const worker_team&) = delete;
  worker_team& operator=(const worker_team&) = delete;
  ~worker_team();

  [[nodiscard]] std::size_t members() const noexcept { return members_; }
  /// Calls `work` once for each task in [0, tasks), several at a time. Tasks start in increasing order.
  /// @param may_sleep  called by several members at a time, even after `run` has returned, until it is true
  ///                   or the next round begins; null: members sleep at once. The caller does not call it.
  void run(std::size_t tasks, const task_function& work,
           const std::shared_ptr<const condition>& may_sleep = nullptr);

private:
  struct round;

  void start();
  void loop(std::size_t member);
  /// Takes part in a round as member 0. If another caller is member 0, waits for it or for the round's end.
  /// @param lock  held; released meanwhile.
  void lead(std::unique_lock<std::mutex>& lock, round& mine);
  /// Returns the first round with a task that nobody has begun; null if there is none.
  [[nodiscard]] round* find_open() const noexcept;
  void take_part(std::size_t member, round& in) noexcept;
  void stay_awake(std::size_t rounds, const condition& may_sleep) const;

  std::size_t members_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable begun_;
  std::condition_variable left_;
  std::atomic<std::size_t> rounds_begun_{0}; ///< changed under the mutex, like `stop_`
  std::vector<round*> rounds_;               ///< of more than one task, by ascending number of tasks
  bool led_ = false;                         ///< a caller takes part as member 0
  std::atomic<bool> stop_{false};
};

} // namespace saeta
