// What happens when a request does not fit: the steps that may make room, each of them optional, in this order.
//
//   1. releases whose work has finished are done
//   2. pending releases are waited for, one after the other, at most `release_wait`; not those that wait for the end of a
//      capture, which may be the caller's to end
//   3. where the device has no memory, caches are trimmed; where a budget has no room, what is charged and unused: the
//      quarantine of a guard. Cached bytes are charged to nobody, so giving them back makes no room in a budget
//   4. hooks are asked, highest priority first: frameworks that can give up their caches, tables that can be spilled
//   5. the request waits in line until others have freed enough, first come first served, at most `wait`
//
// A request that can never fit, because it is larger than a limit or its budget is closed, is refused at any of these steps without the
// others. After each step that freed something the request is tried again; when none is left it fails.
// Thread    Any. Hooks run on the thread of the request, without a lock held. A request made inside a hook asks no hooks and
//           does not wait in line.
// Failure   A hook that throws is reported and counts as having freed nothing. Both waits pass on what the interrupt hook
//           throws (base/interrupt.hpp).
#pragma once

#include "saeta/base/process.hpp"
#include "saeta/observe/event_log.hpp"
#include "saeta/order/reaper.hpp"
#include "saeta/resource/decorators/budget_resource.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace saeta {

struct pressure_policy {
  bool drain = true;                              ///< step 1
  std::chrono::milliseconds release_wait{10'000}; ///< step 2; 0: skipped
  bool trim = true;                               ///< step 3
  bool hooks = true;                              ///< step 4
  std::chrono::milliseconds wait{0};              ///< step 5; 0: skipped
};

/// Asked to free at least `bytes` of a device; returns how many it freed, 0 for none.
using pressure_hook = std::function<std::uint64_t(std::uint64_t bytes)>;

class hook_table;

/// A registered hook; its end removes it. A call that is running meanwhile ends undisturbed.
class hook_registration {
public:
  hook_registration() = default;
  hook_registration(std::weak_ptr<hook_table> table, std::uint64_t id) : table_(std::move(table)), id_(id) {}
  hook_registration(hook_registration&& other) noexcept = default;
  hook_registration& operator=(hook_registration&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(id_, other.id_);
    std::swap(made_in_, other.made_in_);
    return *this;
  }
  ~hook_registration() { remove(); }

  void remove() noexcept;

private:
  std::weak_ptr<hook_table> table_;
  std::uint64_t id_ = 0;
  std::uint64_t made_in_ = fork_generation();
};

class pressure {
public:
  /// @param trim  gives unused memory back, of a full device or of a budget without room; returns bytes.
  pressure(pressure_policy policy, reaper& releases, event_log& log, device_id device,
           std::function<std::size_t(const shortage& need)> trim);

  [[nodiscard]] hook_registration add_hook(std::string name, int priority, pressure_hook ask);
  /// Does the steps from `what.attempt` on until one of them may have helped; false when none is left.
  bool relieve(shortage& need);

private:
  bool wait_for_a_release(shortage& need);
  bool ask_hooks(const shortage& need, std::size_t& next);

  pressure_policy policy_;
  reaper& releases_;
  event_log& log_;
  device_id device_;
  std::function<std::size_t(const shortage& need)> trim_;
  std::shared_ptr<hook_table> hooks_;
};

} // namespace saeta
