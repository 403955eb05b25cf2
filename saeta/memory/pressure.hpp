// The steps that may make room when a request does not fit. They run in this order.
//
// @code
// std::vector<buffer> cache{bytes};
// const hook_registration hook = ctx->add_pressure_hook("cache", 0, [&](std::uint64_t /*needed*/) {
//   const std::size_t freed = cache.empty() ? 0 : cache.back().size();
//   cache.clear(); // freed in stream order
//   return freed;
// });                              // removed with `hook`
// const hooks_suspended suspended; // requests of this thread do not call it meanwhile
// @endcode
//
//   1. finished releases are carried out
//   2. pending releases are waited for, one after the other, at most `release_wait`. Releases that wait for
//      the end of a capture are skipped, because the caller may be the one to end it
//   3. if the device has no memory, caches are trimmed. If a budget has no room, a guard's quarantine is
//      emptied: it is charged but unused. Cached bytes are not charged, so trimming them makes no room in a
//      budget
//   4. hooks are called, highest priority first: frameworks that can drop their caches; tables that nobody
//      uses are moved to the host last (spill/spill.hpp)
//   5. the request waits in line until others have freed enough, first come first served, at most `wait`
//
// A request that can never fit (it is larger than a limit, or its budget is closed) is refused at any of
// these steps, and the rest are skipped. After each step that freed something the request is tried again.
// When no step is left it fails.
// Thread    Any. Hooks run on the thread of the request, without a lock held. A request made inside a hook
//           calls no hooks and does not wait in line.
// Failure   A hook that throws is reported, and counts as having freed nothing. Room makers and both waits
//           pass on exceptions of the interrupt hook (base/interrupt.hpp).
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/process.hpp"
#include "saeta/observe/event_log.hpp"
#include "saeta/order/reaper.hpp"
#include "saeta/resource/decorators/budget_resource.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace SAETA_EXPORT saeta {

struct pressure_policy {
  /// Step 2; 0: skipped, for a program that lets the work of the device go on only between its own calls.
  std::chrono::milliseconds release_wait{10'000};
  std::chrono::milliseconds wait{0}; ///< step 5; 0: skipped
};

/// Called to free at least `bytes` of a device; returns the bytes that it freed, 0 for none.
using pressure_hook = std::function<std::uint64_t(std::uint64_t bytes)>;

/// A hook that is asked with the whole request. If it returns more than 0, the request continues with step 2,
/// so that the hook is asked again if it does not fit then. An exception ends the request.
using room_maker = std::function<std::uint64_t(shortage& need)>;

/// While one lives, requests of its thread call no hooks and do not wait in line, like those inside a hook.
/// For a thread that holds what a hook may need, such as the turn of the staging ring.
class hooks_suspended {
public:
  hooks_suspended() noexcept;
  hooks_suspended(const hooks_suspended&) = delete;
  hooks_suspended& operator=(const hooks_suspended&) = delete;
  ~hooks_suspended();

private:
  bool before_;
};

class hook_table;

/// A registered hook; destroying it removes the hook. A call that is running meanwhile is not disturbed.
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

/// @code
/// reaper releases([] { return std::optional<point_set>(std::in_place); });
/// pressure steps({}, releases, *ctx->reports().log(), ctx->device(),
///                [&](const shortage& /*need*/) { return ctx->trim(); });
/// shortage need(4096, ctx->memory_budget().get()); // 4096 bytes do not fit
/// const bool try_again = steps.relieve(need);      // as a context does for each request without room
/// @endcode
class pressure {
public:
  /// @param trim  frees unused memory of a full device or a full budget; returns bytes.
  pressure(pressure_policy policy, reaper& releases, event_log& log, device_id device,
           std::function<std::size_t(const shortage& need)> trim);

  [[nodiscard]] hook_registration add_hook(std::string name, int priority, pressure_hook ask);
  [[nodiscard]] hook_registration add_room_maker(std::string name, int priority, room_maker ask);
  /// Runs the steps from `need.attempt` on until one may have helped; false if none is left.
  bool relieve(shortage& need);

private:
  bool wait_for_a_release(shortage& need);
  bool ask_hooks(shortage& need, std::size_t& next);

  pressure_policy policy_;
  reaper& releases_;
  event_log& log_;
  device_id device_;
  std::function<std::size_t(const shortage& need)> trim_;
  std::shared_ptr<hook_table> hooks_;
};

} // namespace saeta
