#include "saeta/memory/pressure.hpp"

#include "saeta/base/interruptible_wait.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace saeta {

class SAETA_LOCAL hook_table {
public:
  struct entry {
    std::uint64_t id;
    std::string name;
    int priority;
    bool repeated; ///< the hook is called again as long as it frees bytes
    std::shared_ptr<const room_maker> ask;
  };

  std::uint64_t add(std::string name, int priority, bool repeated, room_maker ask) {
    auto shared = std::make_shared<const room_maker>(std::move(ask));
    const std::lock_guard lock(mutex_);
    const auto place =
        std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return e.priority < priority; });
    entries_.insert(place, {++last_, std::move(name), priority, repeated, std::move(shared)});
    return last_;
  }
  void remove(std::uint64_t id) noexcept {
    // Destroyed after the lock: a hook may own state whose destructor must not run under it.
    std::shared_ptr<const room_maker> removed;
    const std::lock_guard lock(mutex_);
    const auto match =
        std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return e.id == id; });
    if (match != entries_.end()) {
      removed = std::move(match->ask);
      entries_.erase(match);
    }
  }
  [[nodiscard]] std::optional<entry> at(std::size_t position) const {
    const std::lock_guard lock(mutex_);
    return position < entries_.size() ? std::optional(entries_[position]) : std::nullopt;
  }

private:
  mutable std::mutex mutex_;
  std::vector<entry> entries_; ///< highest priority first, then oldest first
  std::uint64_t last_ = 0;
};

namespace {

enum step : std::size_t { drain, await_releases, trim, first_hook };

thread_local bool inside_hook = false;

std::uint64_t ask(const std::string& name, const pressure_hook& hook, std::uint64_t bytes) noexcept {
  try {
    return hook(bytes);
  } catch (...) {
    with_report_text(report_current_exception, "pressure hook", "pressure hook '", name, "'");
    return 0;
  }
}

} // namespace

hooks_suspended::hooks_suspended() noexcept : before_(std::exchange(inside_hook, true)) {}
hooks_suspended::~hooks_suspended() { inside_hook = before_; }

void hook_registration::remove() noexcept {
  if (made_in_ != fork_generation()) {
    return; // the hook belongs to the parent process
  }
  if (const auto table = table_.lock()) {
    table->remove(id_);
  }
}

pressure::pressure(pressure_policy policy, reaper& releases, event_log& log, device_id device,
                   std::function<std::size_t(const shortage& need)> trim)
    : policy_(policy), releases_(releases), log_(log), device_(device), trim_(std::move(trim)),
      hooks_(std::make_shared<hook_table>()) {}

hook_registration pressure::add_hook(std::string name, int priority, pressure_hook ask) {
  room_maker wrapped = [name, hook = std::move(ask)](const shortage& need) {
    return saeta::ask(name, hook, need.bytes);
  };
  return {hooks_, hooks_->add(std::move(name), priority, false, std::move(wrapped))};
}

hook_registration pressure::add_room_maker(std::string name, int priority, room_maker ask) {
  return {hooks_, hooks_->add(std::move(name), priority, true, std::move(ask))};
}

/// Waits in short intervals and checks for interrupts between them. A release that any thread carried out
/// since the last attempt counts.
bool pressure::wait_for_a_release(shortage& need) {
  const auto one_was_done = [&] {
    const std::uint64_t now = releases_.done();
    return std::exchange(need.releases_seen, now) != now;
  };
  if (!need.wait_until) {
    need.wait_until = wait_now() + policy_.release_wait;
  }
  while (!one_was_done()) {
    if (!releases_.can_wait() || wait_now() >= *need.wait_until || need.can_never_succeed()) {
      return one_was_done();
    }
    check_interrupt();
    const auto left = std::min<std::chrono::nanoseconds>(*need.wait_until - wait_now(), wait_interval());
    releases_.wait_for_one(need.releases_seen, std::chrono::steady_clock::now() + left);
  }
  return wait_now() < *need.wait_until; // stop at the deadline even if releases keep finishing
}

bool pressure::relieve(shortage& need) {
  if (need.can_never_succeed()) {
    return false;
  }
  if (need.attempt <= drain) {
    releases_.drain();
    need.releases_seen = releases_.done();
    return true;
  }
  if (need.attempt <= await_releases) {
    if (policy_.release_wait.count() > 0 && wait_for_a_release(need)) {
      need.attempt = await_releases - 1; // the next attempt repeats this step
      return true;
    }
  }
  if (need.attempt <= trim) {
    need.attempt = trim;
    if (trim_(need) != 0) {
      return true;
    }
  }
  if (inside_hook) {
    return false;
  }
  need.attempt = std::max<std::size_t>(need.attempt, first_hook);
  if (ask_hooks(need, need.attempt)) {
    return true;
  }
  if (need.full == nullptr || policy_.wait.count() == 0 || need.charged) {
    return false;
  }
  const auto deadline = wait_now() + policy_.wait;
  need.charged = need.wait_in_line ? need.wait_in_line(deadline) : need.full->charge_by(need.bytes, deadline);
  return need.charged;
}

bool pressure::ask_hooks(shortage& need, std::size_t& next) {
  while (const auto hook = hooks_->at(next - first_hook)) {
    const std::uint64_t freed = [&] {
      const hooks_suspended inside;
      return (*hook->ask)(need);
    }();
    if (log_.active()) {
      log_record seen;
      seen.event = memory_event::relief;
      seen.device = device_;
      seen.bytes = freed;
      seen.label = hook->name;
      seen.outcome = "ok";
      log_.write(std::move(seen));
    }
    if (freed != 0) {
      if (hook->repeated) {
        next = await_releases - 1; // the bytes that the hook freed may come with a release
      }
      return true; // the caller adds one, and so continues with the next hook
    }
    ++next;
  }
  return false;
}

} // namespace saeta
