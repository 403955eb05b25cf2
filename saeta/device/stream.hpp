// Streams: `stream_ref` borrows, `stream` owns.
//
// @code
// const saeta::stream uploads(ctx->device_backend()); // owns its handle
// const event arrived(ctx->device_backend());
// launch(uploads.ref(), bytes.address());
// const event_ref after = arrived.ref();
// after.record(uploads.ref());
// const stream_ref work = ctx->work_stream(); // borrowed: the context outlives it
// work.wait(after);                           // later work of this stream starts after the kernel
// @endcode
//
// What      A stream orders work on one device. A ref is a backend, a handle and the stream's identity.
// Owner     `stream` destroys its handle (pending work still finishes); `stream_ref` never does. The user of
//           a ref ensures that the stream and the backend outlive it.
// Thread    Refs are values. A ref of the per-thread default stream means the stream of the thread that made
//           the ref.
// Failure   error device from the driver; the destructor reports.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/required.hpp"
#include "saeta/device/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace SAETA_EXPORT saeta {

class event_ref;

class stream_ref {
public:
  stream_ref(backend& owner, stream_handle handle)
      : owner_(&owner), handle_(handle), id_(owner.stream_id(handle)) {}
  stream_ref(backend& owner, int) = delete; // 0 is ambiguous in every protocol: name the stream
  stream_ref(backend& owner, std::nullptr_t) = delete;

  [[nodiscard]] backend& owner() const noexcept { return *owner_; }
  [[nodiscard]] stream_handle native_handle() const noexcept { return handle_; }
  /// Unique among the streams of the device and never reused, unlike the handle. Streams of two devices may
  /// have the same id. If the stream captures a graph when the ref is made, the id is unique to the ref. A
  /// ref does not notice a capture that begins later: make another one for work inside it.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] stream_identity identity() const noexcept { return {owner_->serial(), id_}; }
  [[nodiscard]] bool made_in_capture() const noexcept { return id_ >= first_capture_id; }

  /// Later work on this stream starts after the event.
  void wait(event_ref event) const;
  [[nodiscard]] bool idle() const { return owner_->stream_idle(handle_); }
  [[nodiscard]] bool capturing() const { return owner_->capturing(handle_); }
  /// The legacy or the per-thread default stream.
  [[nodiscard]] bool is_default() const noexcept {
    return handle_ == legacy_stream || handle_ == per_thread_stream;
  }

  /// False for the per-thread default stream of another thread, whose handle means the calling thread's own.
  [[nodiscard]] bool usable_here() const {
    return handle_ != per_thread_stream || made_in_capture() || owner_->stream_id(handle_) == id_;
  }

  [[nodiscard]] bool has_handle(stream_handle handle) const noexcept { return handle_ == handle; }
  /// The stream that the handle means on the calling thread now. It is another one if this stream was
  /// destroyed, or if it is the per-thread default stream of another thread.
  [[nodiscard]] stream_ref look_up_again() const { return {*owner_, handle_}; }

  /// True if two existing streams are the same one, also in a capture, where no two refs are equal.
  [[nodiscard]] bool same_handle(const stream_ref& other) const noexcept {
    return owner_ == other.owner_ && handle_ == other.handle_;
  }
  friend bool operator==(const stream_ref& a, const stream_ref& b) noexcept {
    return a.owner_ == b.owner_ && a.id_ == b.id_;
  }

private:
  backend* owner_;
  stream_handle handle_;
  std::uint64_t id_;
};

/// Whether work has ended when the call that queues it returns, as on streams of the host.
[[nodiscard]] inline bool is_immediate(const stream_ref& stream) noexcept {
  return stream.owner().device().kind == device_kind::cpu;
}

class stream {
public:
  /// Creates a non-blocking stream. @throws error invalid_argument if `owner` is null.
  explicit stream(std::shared_ptr<backend> owner)
      : owner_(required(std::move(owner), "owner")), handle_(owner_->create_stream()) {}
  /// Takes ownership of a handle that `owner` created.
  static stream from_native_handle(std::shared_ptr<backend> owner, stream_handle handle) noexcept {
    return {std::move(owner), handle};
  }
  stream(stream&& other) noexcept : owner_(std::move(other.owner_)), handle_(other.handle_) {}
  stream& operator=(stream&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() {
    if (owner_) {
      owner_->destroy_stream(handle_);
    }
  }

  /// @throws error invalid_argument for a moved-from stream, or one without a backend.
  [[nodiscard]] stream_ref ref() const { return {*required(owner_, "owner"), handle_}; }
  [[nodiscard]] stream_handle native_handle() const noexcept { return handle_; }
  /// Gives up ownership; the caller destroys the handle.
  [[nodiscard]] stream_handle release() noexcept {
    owner_.reset();
    return handle_;
  }
  [[nodiscard]] bool empty() const noexcept { return owner_ == nullptr; }

private:
  stream(std::shared_ptr<backend> owner, stream_handle handle) noexcept
      : owner_(std::move(owner)), handle_(handle) {}

  std::shared_ptr<backend> owner_;
  stream_handle handle_;
};

/// Events: `event_ref` borrows, `event` owns. An event that was never recorded counts as complete.
///
/// Owner     `event` destroys its handle. A wait that is queued on it stays in effect.
/// Failure   As in backend.hpp.
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
