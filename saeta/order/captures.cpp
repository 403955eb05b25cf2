#include "saeta/order/captures.hpp"

#include <algorithm>

namespace saeta {

std::shared_ptr<void> captures::announce() {
  ++announced_;
  std::shared_ptr<void> result(nullptr, [self = shared_from_this()](void*) { --self->announced_; });
  const auto recorded = hold_off();
  return result;
}

bool captures::note(stream_ref named) {
  if (device_->device().kind == device_kind::cpu || !named.capturing()) {
    return false;
  }
  if (!named.is_default()) { // the driver reports captures that involve a default stream
    follow(named);
  }
  return true;
}

bool captures::active() {
  if (announced_.load() != 0) {
    return true;
  }
  if (followed_count_.load() == 0) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  drop_ended();
  return !followed_.empty();
}

void captures::follow(stream_ref capturing) {
  const std::lock_guard lock(mutex_);
  drop_ended();
  const auto known = [&](const followed& each) { return each.named.same_handle(capturing); };
  if (std::any_of(followed_.begin(), followed_.end(), known)) {
    return;
  }
  if (companions_.empty()) {
    companions_.emplace_back(device_);
  }
  followed_.reserve(followed_.size() + 1);
  // Waiting for an event from a capture adds a stream to the capture and nothing to the graph.
  const event here(device_);
  here.ref().record(capturing);
  companions_.back().ref().wait(here.ref());
  followed_.push_back({capturing, std::move(companions_.back())});
  companions_.pop_back();
  followed_count_ = followed_.size();
}

/// The caller holds the lock.
void captures::drop_ended() {
  companions_.reserve(companions_.size() + followed_.size());
  const auto ended = std::partition(followed_.begin(), followed_.end(), [this](const followed& each) {
    return device_->capturing(each.companion.native_handle());
  });
  for (auto stream = ended; stream != followed_.end(); ++stream) {
    companions_.push_back(std::move(stream->companion));
  }
  followed_.erase(ended, followed_.end());
  followed_count_ = followed_.size();
}

} // namespace saeta
