#include "saeta/memory/use_token.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/order/captures.hpp"

#include <algorithm>

namespace saeta {

use_token::use_token(stream_ref stream, std::span<const use> uses)
    : stream_(stream), holder_(std::this_thread::get_id()) {
  held_.reserve(uses.size());
  for (const use& u : uses) {
    if (!u.used.present()) {
      continue;
    }
    const auto& bytes = u.used.owner();
    if (u.mode != access::read && !bytes->writable()) {
      throw error(
          errc::invalid_argument,
          concat("buffer '", bytes->tag(), "' is read-only: copy=True makes memory of the context from it"));
    }
    if (bytes->ctx()->inherited()) {
      bytes->ctx()->require_readable();
    }
    held_.push_back({bytes, u.mode});
  }
  const auto by_age = [](const held& each) { return order_of(each.bytes); };
  if (!std::ranges::is_sorted(held_, {}, by_age)) { // thousands of columns mostly are
    std::ranges::sort(held_, {}, by_age);
  }
  merge_duplicates();
  require_order();
  begin();
  open_ = true;
}

/// Merges entries of the same storage into one, with all their accesses.
void use_token::merge_duplicates() noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < held_.size(); ++i) {
    if (held_[i].bytes != held_[kept].bytes) {
      ++kept;
      if (kept != i) {
        held_[kept] = std::move(held_[i]);
      }
    } else if (held_[i].mode != held_[kept].mode) {
      held_[kept].mode = access::read_write;
    }
  }
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(std::min(held_.size(), kept + 1)), held_.end());
}

/// Checks that the stream can reach the buffers, and that this thread can mark it.
void use_token::require_order() const {
  if (held_.empty()) {
    return;
  }
  bool reachable = false;
  for (const held& entry : held_) {
    reachable = is_inherited(entry) || entry.bytes->ctx()->make_visible_to(stream_.owner()) || reachable;
  }
  if (!reachable) {
    throw error(errc::invalid_argument,
                concat("a stream of ", to_string(stream_.owner().device()), " can't order buffer '",
                       held_.front().bytes->tag(), "' in another device's context"));
  }
  if (!stream_.usable_here()) {
    throw error(errc::invalid_argument,
                concat("the per-thread default stream of ", to_string(stream_.owner().device()),
                       " belongs to another thread: use it on that thread"));
  }
}

/// Buffers of a parent process need no order: only the caller uses them in this process, and the parent's
/// work on them was finished at the fork.
bool use_token::is_inherited(const held& queried) noexcept { return queried.bytes->ctx()->inherited(); }

captures& use_token::graph_captures() const { return timelines::of(stream_.owner())->graph_captures(); }

void use_token::begin() {
  if (std::ranges::all_of(held_, is_inherited)) {
    return;
  }
  captures_ = !is_ours(stream_) && graph_captures().note(stream_);
  acquire();
}

void use_token::acquire() {
  requirement needed;
  std::size_t begun = 0;
  try {
    for (held& entry : held_) {
      if (!is_inherited(entry)) {
        entry.seen = entry.bytes->ordering().acquire(entry.mode, needed, entry.bytes->tag());
      }
      ++begun;
    }
    point_set everything;
    if (needed.unknown) {
      const context* marked = nullptr; // one point serves consecutive buffers of one context
      for (const held& entry : held_) {
        context& ctx = entry.bytes->ctx()->root();
        if (&ctx != marked && !is_inherited(entry)) {
          everything.add(ctx.mark_unknown_work(entry.bytes->tag()).all());
          marked = &ctx;
        }
      }
      needed.points.add(everything.all());
    }
    if (captures_) { // a capture can't wait for work outside of it
      held_.front().bytes->ctx()->synchronize(needed.points);
    } else {
      wait(stream_, needed.points);
    }
    if (needed.unknown) {
      // A write use needs no points here: its own end comes after all of them.
      for (const held& entry : held_) {
        if (!is_inherited(entry)) {
          entry.bytes->ordering().settle(entry.mode, entry.mode == access::read ? everything : point_set(),
                                         entry.seen);
        }
      }
    }
  } catch (...) {
    for (std::size_t i = 0; i < begun; ++i) {
      if (!is_inherited(held_[i])) {
        held_[i].bytes->ordering().give_up(held_[i].mode, needed);
      }
    }
    throw;
  }
}

use_token::~use_token() {
  try {
    finish();
  } catch (...) {
    report_current_exception("use_token");
  }
}

void* use_token::pointer(const buffer& used, access mode, std::size_t value_bytes,
                         std::size_t alignment) const {
  if (!used.present()) {
    return nullptr;
  }
  const auto& tag = used.owner()->tag();
  if (!open_) {
    throw error(errc::closed, concat("the token over buffer '", tag, "' has ended"));
  }
  const auto position = std::ranges::lower_bound(held_, order_of(used.owner()), {},
                                                 [](const held& each) { return order_of(each.bytes); });
  const bool named = position != held_.end() && position->bytes == used.owner() &&
                     (mode == access::read || position->mode != access::read);
  const bool free = mode == access::read && used.owner()->immutable() && is_immediate(stream_);
  if (!named && !free) {
    throw error(errc::invalid_argument, concat("buffer '", tag, "' was not named in this token for ",
                                               mode == access::read ? "reading" : "writing"));
  }
  if (used.address() % alignment != 0) {
    throw error(errc::invalid_argument, concat("buffer '", tag, "' at offset ", used.offset(),
                                               " is not aligned to ", alignment, " bytes"));
  }
  if (used.size() < value_bytes && used.size() != 0) {
    throw error(errc::out_of_range,
                concat("buffer '", tag, "' has ", used.size(), " bytes, and one value takes ", value_bytes));
  }
  return reinterpret_cast<void*>(used.address());
}

void use_token::finish() {
  if (!open_) {
    return;
  }
  open_ = false;
  if (std::ranges::all_of(held_, is_inherited)) {
    held_.clear();
    return;
  }
  if (!can_wait_here()) {
    return give_back_unknown();
  }
  try {
    if (is_ours(stream_) || !graph_captures().note(stream_)) {
      give_back(mark(stream_));
    } else if (captures_) {
      give_back({}); // captured work has not run
    } else {
      give_back_unknown(); // work queued before the capture began can't be marked during it
    }
  } catch (...) {
    // Without a point the host must wait; then nothing is pending.
    try {
      held_.front().bytes->ctx()->synchronize(stream_);
      give_back({});
    } catch (...) {
      report_current_exception("use_token: can neither record an event nor synchronize");
      give_back_unknown();
    }
    throw;
  }
}

/// False for the per-thread default stream of another thread: its handle means this thread's stream here.
bool use_token::can_wait_here() const noexcept {
  try {
    return stream_.usable_here();
  } catch (...) {
    return false;
  }
}

void use_token::give_back(point done) noexcept {
  for (const held& h : held_) {
    if (!is_inherited(h)) {
      h.bytes->ordering().end(h.mode, holder_, done);
    }
  }
  held_.clear();
}

void use_token::give_back_unknown() noexcept {
  for (const held& h : held_) {
    if (!is_inherited(h)) {
      h.bytes->ordering().end_unknown(h.mode, holder_);
    }
  }
  held_.clear();
}

} // namespace saeta
