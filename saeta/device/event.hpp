// Events: `event_ref` borrows, `event` owns. An event that was never recorded counts as complete.
//
// Owner     `event` destroys its handle. A wait that is queued on it stays in effect.
// Failure   As in backend.hpp.
#pragma once

#include "saeta/base/required.hpp"
#include "saeta/device/stream.hpp"

namespace saeta {

class event_ref {
public:
  event_ref(backend& owner, event_handle handle) noexcept : owner_(&owner), handle_(handle) {}

  [[nodiscard]] event_handle native_handle() const noexcept { return handle_; }
  void record(stream_ref stream) const { owner_->record_event(handle_, stream.native_handle()); }
  [[nodiscard]] bool complete() const { return owner_->event_complete(handle_); }
  /// Blocks the calling thread.
  void synchronize() const { owner_->synchronize_event(handle_); }

private:
  backend* owner_;
  event_handle handle_;
};

inline void stream_ref::wait(event_ref event) const { owner_->wait_event(handle_, event.native_handle()); }

class event {
public:
  explicit event(std::shared_ptr<backend> owner)
      : owner_(required(std::move(owner), "owner")), handle_(owner_->create_event()) {}
  static event from_native_handle(std::shared_ptr<backend> owner, event_handle handle) noexcept {
    return {std::move(owner), handle};
  }
  event(event&& other) noexcept : owner_(std::move(other.owner_)), handle_(other.handle_) {}
  event& operator=(event&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  ~event() {
    if (owner_) {
      owner_->destroy_event(handle_);
    }
  }

  /// @throws error invalid_argument for a moved-from event, or one without a backend.
  [[nodiscard]] event_ref ref() const { return {*required(owner_, "owner"), handle_}; }
  [[nodiscard]] event_handle release() noexcept {
    owner_.reset();
    return handle_;
  }
  [[nodiscard]] bool empty() const noexcept { return owner_ == nullptr; }

private:
  event(std::shared_ptr<backend> owner, event_handle handle) noexcept
      : owner_(std::move(owner)), handle_(handle) {}

  std::shared_ptr<backend> owner_;
  event_handle handle_;
};

} // namespace saeta
