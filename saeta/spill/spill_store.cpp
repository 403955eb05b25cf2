#include "saeta/spill/spill_store.hpp"

#include "saeta/base/interruptible_wait.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <tuple>
#include <utility>

namespace saeta {
namespace {

/// After all others: caches of frameworks are cheaper to give up.
constexpr int hook_priority = std::numeric_limits<int>::min();

std::atomic<std::size_t> entry_count = 0;

std::uint64_t used_of(const budget_statistics& now) noexcept { return now.current + now.reserved; }

/// The bytes that a budget lacks for a request, without regard to its ancestors.
std::uint64_t missing_in(const budget& level, std::uint64_t bytes) noexcept {
  const budget_statistics now = level.statistics();
  const std::uint64_t room = now.limit - std::min(now.limit, used_of(now));
  return bytes - std::min(bytes, room);
}

/// Returns the first of a budget and its ancestors that has too little room; null if the request fits.
budget* full_level(budget* asked, std::uint64_t bytes) noexcept {
  budget* level = asked;
  while (level != nullptr && missing_in(*level, bytes) == 0) {
    level = level->parent().get();
  }
  return level;
}

spill_tier settled_tier(const spill_entry& of) noexcept {
  return of.state == spill_state::spilled || of.state == spill_state::returning ? of.lower->tier()
                                                                                : spill_tier::device;
}

/// Whether moving the body would give memory back to the budget of the device.
bool frees_memory(const spill_entry& of) noexcept {
  const std::shared_ptr<storage>& owner = of.body.owner();
  return of.state == spill_state::resident && owner != nullptr && owner.use_count() == 1 &&
         !owner->external() && owner->kind() == own_kind(of.ctx->device());
}

error closed_handle() { return {errc::closed, "the handle of the spillable table is closed"}; }

} // namespace

std::uint64_t excess_over(const budget& level, double share) noexcept {
  const budget_statistics now = level.statistics();
  if (now.limit == budget::unlimited) {
    return 0;
  }
  const auto allowed = static_cast<std::uint64_t>(share * static_cast<double>(now.limit));
  return used_of(now) - std::min(used_of(now), allowed);
}

spill_entry::spill_entry(std::shared_ptr<context> in, std::vector<std::byte> described, buffer kept, int rank,
                         spill_compression how)
    : ctx(std::move(in)), metadata(std::move(described)), bytes(kept.size()), priority(rank),
      compression(std::move(how)), store(spill_store::of(ctx)), body(std::move(kept)) {
  store.add(*this);
  ++entry_count;
}

spill_entry::~spill_entry() {
  --entry_count;
  store.forget(*this);
}

bool spill_entry::any() noexcept { return entry_count != 0; }

spill_store& spill_store::of(const std::shared_ptr<context>& ctx) {
  return ctx->services().of<spill_store>(
      [&] { return std::unique_ptr<spill_store>(new spill_store(ctx->root())); });
}

spill_store::spill_store(context& root)
    : root_(root), options_(root.options().spill), tiers_(root),
      hook_(root.add_room_maker("spill", hook_priority, [this](shortage& need) { return make_room(need); })) {
}

void spill_store::add(spill_entry& entry) {
  const std::lock_guard held(mutex_);
  entry.last_used = ++clock_;
  entries_.insert(&entry);
}

void spill_store::forget(spill_entry& gone) noexcept {
  const std::lock_guard held(mutex_);
  entries_.erase(&gone);
}

std::string spill_store::hint() {
  if (!root_.on_host() || !folder().empty()) {
    return {};
  }
  std::size_t unused = 0;
  std::uint64_t bytes = 0;
  const std::lock_guard held(mutex_);
  for (const spill_entry* entry : entries_) {
    if (frees_memory(*entry)) {
      ++unused;
      bytes += entry->bytes;
    }
  }
  return unused == 0
             ? std::string()
             : concat("spillable tables of ", human_bytes(bytes), " can't leave the host: ", no_spill_folder);
}

buffer spill_store::acquire(spill_entry& of, const std::shared_ptr<context>& into) {
  {
    lock held(mutex_);
    wait_until_settled(held, of);
    if (of.gone) {
      throw closed_handle();
    }
    of.last_used = ++clock_;
    if (of.state == spill_state::resident) {
      return of.body;
    }
    of.state = spill_state::returning;
  }
  const spill_tier from = of.lower->tier();
  buffer back;
  try {
    back = of.lower->restore(into);
  } catch (...) {
    log(memory_event::unspill, to_string(from), of.bytes, "failed: the table stays where it is");
    settle_unmoved(of);
    throw;
  }
  log(memory_event::unspill, to_string(from), of.bytes, "ok");
  settle(of, back, nullptr);
  return back;
}

void spill_store::note_use(spill_entry& of) noexcept {
  const std::lock_guard held(mutex_);
  of.last_used = ++clock_;
}

spill_tier spill_store::spill(spill_entry& of, std::optional<spill_tier> only) {
  {
    lock held(mutex_);
    wait_until_settled(held, of);
    if (of.gone) {
      throw closed_handle();
    }
    if (of.state == spill_state::spilled || !of.body.present()) {
      return settled_tier(of);
    }
    if (of.body.owner().use_count() > 1) {
      throw error(errc::busy, concat("the table of ", of.bytes,
                                     " bytes is in use: somebody still has it, a part "
                                     "of it, an export or a table that shares its memory"));
    }
    of.state = spill_state::spilling;
  }
  const spill_tier to = move_out(of, only);
  if (is_closed(of)) {
    throw closed_handle();
  }
  return to; // a demotion may have moved the body on already
}

void spill_store::close(spill_entry& of) noexcept {
  std::pair<buffer, spilled_pointer> dropped;
  const std::lock_guard held(mutex_);
  of.gone = true;
  if (of.state == spill_state::resident || of.state == spill_state::spilled) {
    dropped = end_move(of, spill_state::resident);
  }
}

bool spill_store::is_closed(const spill_entry& of) const {
  const std::lock_guard held(mutex_);
  return of.gone;
}

spill_tier spill_store::tier_of(const spill_entry& of) const {
  const std::lock_guard held(mutex_);
  if (of.gone) {
    throw closed_handle();
  }
  return settled_tier(of);
}

std::uint64_t spill_store::stored_bytes(const spill_entry& of) const {
  const std::lock_guard held(mutex_);
  if (of.gone) {
    throw closed_handle();
  }
  const bool left = of.state == spill_state::spilled || of.state == spill_state::returning;
  return left ? of.lower->stored_bytes() : of.bytes;
}

spill_compression spill_store::compression_of(const table& kept, const buffer& body) {
  if (!body.present() || body.address() % alignof(std::uint64_t) != 0) {
    return {};
  }
  std::shared_ptr<compressor> by;
  {
    const std::lock_guard held(mutex_);
    by = compressor_.lock();
  }
  if (by == nullptr) {
    try {
      by = std::make_shared<compressor>(root_.shared_from_this());
    } catch (const error& why) {
      if (!is_lack_of_room(why.code())) {
        throw;
      }
      return {};
    }
    const std::lock_guard held(mutex_);
    compressor_ = by;
  }
  return {by, std::make_shared<const compression_plan>(by->plan(kept, body))};
}

spill_statistics spill_store::statistics() const {
  const std::lock_guard held(mutex_);
  spill_statistics now = counted_;
  for (const spill_tier tier :
       {spill_tier::device, spill_tier::pinned, spill_tier::pageable, spill_tier::file}) {
    const budget& of = tier == spill_tier::device ? *root_.memory_budget() : *tiers_.limit_of(tier);
    const budget_statistics charges = of.statistics();
    now.tiers[number_of(tier)].charged = charges.current;
    now.tiers[number_of(tier)].limit = charges.limit;
  }
  for (const spill_entry* entry : entries_) {
    if (!entry->gone) {
      spill_tier_statistics& there = now.tiers[number_of(settled_tier(*entry))];
      ++there.handles;
      there.bytes += entry->bytes;
    }
  }
  return now;
}

void spill_store::keep_below(budget& limit) {
  for (budget* level = &limit; level != nullptr; level = level->parent().get()) {
    if (excess_over(*level, options_.begin) != 0) {
      entries failed;
      move_unused(level, excess_over(*level, options_.end), failed,
                  [&] { return excess_over(*level, options_.end) == 0; });
    }
  }
}

std::uint64_t spill_store::spill_unused(const budget& within, std::uint64_t bytes) {
  entries failed;
  return move_unused(&within, bytes, failed, [] { return false; });
}

std::uint64_t spill_store::make_room(shortage& need) {
  std::uint64_t freed = 0;
  entries failed;
  std::uint64_t seen = changes();
  budget* level = full_level(need.full, need.bytes);
  while (level != nullptr || need.full == nullptr) {
    const auto fits = [&] { return level != nullptr && missing_in(*level, need.bytes) == 0; };
    const std::uint64_t missing = level == nullptr ? need.bytes : missing_in(*level, need.bytes);
    // Makes more room than this request needs, because other requests will follow.
    const std::uint64_t wanted = level == nullptr ? missing : excess_over(*level, options_.end);
    const std::uint64_t moved = move_unused(level, missing, failed, fits);
    freed += moved;
    if (moved < missing && !fits()) {
      if (!wait_for_others() && changes() == seen) {
        break;
      }
      seen = changes(); // a handle that was in use or on the way may have become unused
      level = full_level(need.full, need.bytes);
      continue;
    }
    if (level == nullptr) {
      break;
    }
    if (moved < wanted) {
      freed +=
          move_unused(level, wanted - moved, failed, [&] { return excess_over(*level, options_.end) == 0; });
    }
    budget* const next = full_level(need.full, need.bytes);
    if (next == level) {
      break; // a pending release frees the bytes, or another thread took them
    }
    level = next;
  }
  // Room that is kept for requests in line is not for this one.
  const bool has_room = need.full != nullptr && level == nullptr && need.full->waiting() == 0;
  if ((freed != 0 || has_room) && !std::exchange(need.spilled, true)) {
    const std::lock_guard held(mutex_);
    ++counted_.refusals_avoided;
  }
  return has_room ? std::max<std::uint64_t>(freed, 1) : freed;
}

template <class Enough>
std::uint64_t spill_store::move_unused(const budget* within, std::uint64_t bytes, entries& failed,
                                       const Enough& enough) {
  std::uint64_t moved = 0;
  while (moved < bytes && !enough()) {
    auto chosen = choose(within, failed);
    if (chosen == nullptr) {
      break;
    }
    try {
      move_out(*chosen, std::nullopt);
      moved += chosen->bytes;
    } catch (const error& why) {    // logged and counted; smaller ones may still find room
      if (why.code() == errc::io) { // the refusal of the request would not tell it
        tiers_.report_failed_file(why);
      }
      failed.push_back(std::move(chosen));
    }
  }
  return moved;
}

std::shared_ptr<spill_entry> spill_store::choose(const budget* within, const entries& failed) {
  const auto rank = [](const spill_entry& entry) { return std::tuple(entry.priority, entry.last_used); };
  const auto may_leave = [&](const spill_entry& entry) {
    return frees_memory(entry) && !entry.weak_from_this().expired() &&
           (within == nullptr || entry.body.owner()->ctx()->memory_budget()->is_within(*within)) &&
           std::ranges::none_of(failed, [&](const auto& left_out) { return left_out.get() == &entry; });
  };
  const std::lock_guard held(mutex_);
  for (;;) {
    spill_entry* best = nullptr;
    for (spill_entry* spill_entry : entries_) {
      if ((best == nullptr || rank(*spill_entry) < rank(*best)) && may_leave(*spill_entry)) {
        best = spill_entry;
      }
    }
    if (best == nullptr) {
      return nullptr;
    }
    if (auto chosen = best->weak_from_this().lock()) { // null: the last owner has just released the handle
      chosen->state = spill_state::spilling;
      return chosen;
    }
  }
}

spill_tier spill_store::move_out(spill_entry& of, std::optional<spill_tier> only) {
  spilled_pointer lower;
  try {
    lower = take(of, only);
  } catch (...) {
    log(memory_event::spill, "no tier", of.bytes, "failed: the table stays where it is");
    settle_unmoved(of);
    throw;
  }
  const spill_tier to = lower->tier();
  log(memory_event::spill, to_string(to), of.bytes, "ok");
  of.body = {}; // freed before waiting threads are told that there is room
  settle(of, {}, std::move(lower));
  begin_demotions();
  return to;
}

spilled_pointer spill_store::take(spill_entry& of, std::optional<spill_tier> only) {
  const auto keep = [&](const buffer& bytes) { return tiers_.take(of.ctx, bytes, only); };
  for (;;) {
    const std::uint64_t seen = demotions_done();
    try {
      spilled_pointer smaller;
      if (of.compression.by != nullptr) {
        smaller = of.compression.by->compress(of.ctx, of.body, of.compression.plan, of.pays, keep);
      }
      return smaller != nullptr ? smaller : keep(of.body);
    } catch (const error& why) {
      if (!is_lack_of_room(why.code()) || !wait_for_demotion(seen)) {
        throw;
      }
    }
  }
}

void spill_store::settle(spill_entry& of, buffer body, spilled_pointer lower) noexcept {
  std::pair<buffer, spilled_pointer> dropped;
  const std::lock_guard held(mutex_);
  const bool left = lower != nullptr;
  std::swap(of.body, body);
  std::swap(of.lower, lower);
  spill_tier_statistics& there = counted_.tiers[number_of((left ? of.lower : lower)->tier())];
  ++(left ? there.spills : there.returns);
  (left ? there.spilled_bytes : there.returned_bytes) += of.bytes;
  dropped = end_move(of, left ? spill_state::spilled : spill_state::resident);
}

void spill_store::settle_unmoved(spill_entry& of) noexcept {
  std::pair<buffer, spilled_pointer> dropped;
  const std::lock_guard held(mutex_);
  ++counted_.failures;
  dropped = end_move(of, of.state == spill_state::spilling ? spill_state::resident : spill_state::spilled);
}

std::pair<buffer, spilled_pointer> spill_store::end_move(spill_entry& of, spill_state now) noexcept {
  moves_ += of.state == spill_state::spilling ? 1 : 0;
  of.state = of.gone ? spill_state::resident : now;
  settled_.notify_all();
  if (!of.gone) {
    return {};
  }
  return {std::exchange(of.body, {}), std::exchange(of.lower, nullptr)};
}

bool spill_store::wait_for_others() {
  check_interrupt(); // a request may go round many times without waiting
  lock held(mutex_);
  const std::uint64_t seen = moves_;
  if (!any_spilling()) {
    return false;
  }
  wait_interruptibly(settled_, held, [&] { return moves_ != seen; });
  return true;
}

void spill_store::wait_until_settled(lock& held, const spill_entry& of) {
  wait_interruptibly(settled_, held,
                     [&] { return of.state == spill_state::resident || of.state == spill_state::spilled; });
}

std::uint64_t spill_store::changes() const {
  const std::lock_guard held(mutex_);
  return clock_ + moves_;
}

bool spill_store::any_spilling() const {
  return std::ranges::any_of(entries_,
                             [](const spill_entry* entry) { return entry->state == spill_state::spilling; });
}

void spill_store::log(memory_event event, std::string_view tier, std::uint64_t bytes,
                      const char* outcome) const noexcept {
  root_.reports().log()->write_if_active([&] {
    log_record record;
    record.event = event;
    record.device = root_.device();
    record.bytes = bytes;
    record.label = tag(tier);
    record.outcome = outcome;
    return record;
  });
}

} // namespace saeta
