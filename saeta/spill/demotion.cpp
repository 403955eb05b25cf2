// How spilled bodies move on: from a full tier to a slower one, on a thread of the store.
#include "saeta/base/interruptible_wait.hpp"
#include "saeta/base/report.hpp"
#include "saeta/spill/spill_store.hpp"

#include <chrono>
#include <tuple>
#include <utility>

namespace saeta {

void spill_store::begin_demotions() noexcept {
  {
    std::optional<demotion> first; // dropped without the lock, and before the thread looks at the budgets
    const std::lock_guard held(mutex_);
    if (demoting_) {
      return;
    }
    full_tiers full{};
    first = choose_demotion(full);
    demoting_ = first.has_value();
    if (!first) {
      return;
    }
  }
  // The thread keeps the context: without it the last handle could end the store under the thread.
  if (!demoter_.start([this, kept = root_.shared_from_this()] { demote(); })) {
    report("spill", "no thread can be started that moves spilled tables on");
    const std::lock_guard held(mutex_);
    demoting_ = false;
    settled_.notify_all();
  }
}

void spill_store::demote() noexcept {
  full_tiers full{};
  for (bool failed = false;;) {
    std::optional<demotion> next;
    {
      const std::lock_guard held(mutex_);
      if (!failed) {
        next = choose_demotion(full);
      }
      demoting_ = next.has_value();
    }
    if (!next) {
      settled_.notify_all();
      return;
    }
    failed = !carry_out(*std::exchange(next, std::nullopt));
    const std::lock_guard held(mutex_);
    ++demotions_;
    settled_.notify_all();
  }
}

std::optional<spill_store::demotion> spill_store::choose_demotion(full_tiers& full) const {
  for (const spill_tier tier : {spill_tier::pageable, spill_tier::pinned}) {
    bool& above = full[number_of(tier)];
    above = excess_over(*tiers_.limit_of(tier), above ? options_.end : options_.begin) != 0;
    if (above) {
      if (auto coldest = coldest_in(tier)) {
        return coldest;
      }
    }
  }
  return std::nullopt;
}

/// Looks at the bodies that would find room in a slower tier.
std::optional<spill_store::demotion> spill_store::coldest_in(spill_tier tier) const {
  const auto rank = [](const spill_entry& entry) { return std::tuple(entry.priority, entry.last_used); };
  const auto is_there = [&](const spill_entry& entry) {
    return entry.state == spill_state::spilled && entry.lower->tier() == tier;
  };
  spill_entry* best = nullptr;
  std::optional<spill_tier> to;
  for (spill_entry* entry : entries_) {
    if (is_there(*entry) && (best == nullptr || rank(*entry) < rank(*best))) {
      if (const auto room = tiers_.slower_with_room(tier, entry->lower->stored_bytes())) {
        best = entry;
        to = room;
      }
    }
  }
  return to ? std::optional(demotion{best->weak_from_this(), best->lower, best->bytes, *to}) : std::nullopt;
}

bool spill_store::carry_out(demotion next) noexcept {
  try {
    spilled_pointer lower = tiers_.move_on(*next.body, next.to);
    end_demotion(next, lower);
    return true;
  } catch (const error& why) {
    if (is_lack_of_room(why.code()) || why.code() == errc::closed) {
      return false; // others have taken the room, or the context is about to end
    }
    if (why.code() == errc::io) {
      tiers_.report_failed_file(why);
    } else {
      report_current_exception("moving a spilled table on");
    }
  } catch (...) {
    report_current_exception("moving a spilled table on");
  }
  log(memory_event::demote, to_string(next.to), next.bytes, "failed: the table stays where it is");
  const std::lock_guard held(mutex_);
  ++counted_.failures;
  return false;
}

/// Puts the copy in the place of the body, unless the handle was used or closed meanwhile.
void spill_store::end_demotion(demotion& done, spilled_pointer& lower) noexcept {
  const std::shared_ptr<spill_entry> of = done.of.lock();
  if (of == nullptr) {
    return;
  }
  {
    const std::lock_guard held(mutex_);
    if (of->state != spill_state::spilled || of->lower != done.body) {
      return;
    }
    std::swap(of->lower, lower);
    spill_tier_statistics& there = counted_.tiers[number_of(done.to)];
    ++there.demotions;
    there.demoted_bytes += done.bytes;
  }
  log(memory_event::demote, to_string(done.to), done.bytes, "ok");
}

std::uint64_t spill_store::demotions_done() const {
  const std::lock_guard held(mutex_);
  return demotions_;
}

bool spill_store::wait_for_demotion(std::uint64_t seen) {
  lock held(mutex_);
  wait_interruptibly(settled_, held, [&] { return demotions_ != seen || !demoting_; });
  return demotions_ != seen;
}

} // namespace saeta
