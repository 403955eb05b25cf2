#include "saeta/order/fence.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/thread_number.hpp"

#include <algorithm>

namespace saeta {

struct fence::state {
  std::shared_ptr<event_pool> pool;
  event recorded;
  std::uint64_t stream_id;

  state(std::shared_ptr<event_pool> from, event what, std::uint64_t id)
      : pool(std::move(from)), recorded(std::move(what)), stream_id(id) {}
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() { pool->put_back(std::move(recorded)); }
};

fence::fence(std::shared_ptr<event_pool> pool, event recorded, std::uint64_t stream_id)
    : state_(std::make_shared<state>(std::move(pool), std::move(recorded), stream_id)) {}

std::uint64_t fence::stream_id() const noexcept { return state_ ? state_->stream_id : every_stream; }

bool fence::complete() const { return !state_ || state_->recorded.ref().complete(); }

void fence::wait(stream_ref stream) const {
  if (!state_ || state_->stream_id == stream.id()) {
    return;
  }
  if (stream.owner().device().kind == device_kind::cpu) {
    synchronize(); // a host stream runs inline: its next work is the calling thread's
    return;
  }
  stream.wait(state_->recorded.ref());
}

void fence::synchronize() const {
  if (state_) {
    state_->recorded.ref().synchronize();
  }
}

std::optional<event_ref> fence::recorded_event() const {
  return state_ ? std::optional(state_->recorded.ref()) : std::nullopt;
}

fence event_pool::record(stream_ref stream) {
  if (device_->device().kind == device_kind::cpu) {
    return {}; // nothing is ever pending there
  }
  event fresh = take();
  fresh.ref().record(stream);
  return {shared_from_this(), std::move(fresh), stream.id()};
}

std::optional<fence> event_pool::record_context() {
  if (device_->device().kind == device_kind::cpu) {
    return fence{};
  }
  if (held()) {
    return std::nullopt;
  }
  event fresh = take();
  if (device_->record_context(fresh.ref().native_handle()) == fence_outcome::refused) {
    put_back(std::move(fresh));
    return std::nullopt;
  }
  return fence{shared_from_this(), std::move(fresh), fence::every_stream};
}

std::shared_ptr<void> event_pool::hold_context_fences() {
  ++holds_;
  return {nullptr, [pool = shared_from_this()](void*) { --pool->holds_; }};
}

bool event_pool::heed_capture(stream_ref stream) {
  if (device_->device().kind == device_kind::cpu || !stream.capturing()) {
    return false;
  }
  if (!stream.is_default()) { // a capture that those are in is seen by the device beforehand
    follow(stream);
  }
  return true;
}

void event_pool::follow(stream_ref capturing) {
  const std::lock_guard lock(captures_mutex_);
  drop_ended();
  const auto known = [&](const capture& each) { return each.named.same_handle(capturing); };
  if (std::any_of(captures_.begin(), captures_.end(), known)) {
    return;
  }
  if (companions_.empty()) {
    companions_.emplace_back(device_);
  }
  captures_.reserve(captures_.size() + 1);
  // Waiting for an event that was recorded in a capture makes a stream part of it, and leaves no trace in the graph.
  event here = take();
  here.ref().record(capturing);
  device_->wait_event(companions_.back().native_handle(), here.ref().native_handle());
  captures_.push_back({capturing, std::move(companions_.back())});
  companions_.pop_back();
  ++holds_;
  put_back(std::move(here));
}

bool event_pool::held() {
  if (holds_.load() == 0) {
    return false;
  }
  const std::lock_guard lock(captures_mutex_);
  drop_ended();
  return holds_.load() != 0;
}

/// With the lock of the captures.
void event_pool::drop_ended() {
  companions_.reserve(companions_.size() + captures_.size());
  const auto ended = std::partition(captures_.begin(), captures_.end(), [this](const capture& each) {
    return device_->capturing(each.companion.native_handle());
  });
  for (auto each = ended; each != captures_.end(); ++each) {
    companions_.push_back(std::move(each->companion));
    --holds_;
  }
  captures_.erase(ended, captures_.end());
}

event event_pool::take() {
  const std::size_t own = thread_number() % shards_.size();
  // The others' too, for threads that record while another one drops the fences.
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    shard& from = shards_[(own + i) % shards_.size()];
    const std::lock_guard lock(from.mutex);
    if (!from.free.empty()) {
      event reused = std::move(from.free.back());
      from.free.pop_back();
      return reused;
    }
  }
  return event(device_);
}

void event_pool::put_back(event unused) noexcept {
  shard& to = shards_[thread_number() % shards_.size()];
  const std::lock_guard lock(to.mutex);
  try {
    to.free.push_back(std::move(unused));
  } catch (...) {
    report_current_exception("event_pool::put_back"); // the event is destroyed instead of pooled
  }
}

} // namespace saeta
