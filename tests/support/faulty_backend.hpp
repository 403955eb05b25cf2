// A backend that wraps another one, makes its n-th call fail, and counts live objects.
//
// All calls that may throw are counted. Calls that free or destroy never fail this way; their failures have
// tests of their own (a failed free keeps the block).
#pragma once

#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"
#include "saeta/device/backend.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>

namespace saeta::testing {

class faulty_backend final : public backend {
public:
  explicit faulty_backend(std::shared_ptr<backend> around) : inner_(std::move(around)) {}

  /// Makes the `position`th call from now fail (1: the next one, 0: none).
  /// @param thrown  the exception to throw instead of saeta::error
  void fail_at(std::uint64_t position, std::exception_ptr thrown = nullptr) noexcept {
    const std::lock_guard lock(mutex_);
    fail_at_ = 0; // other threads may call in between
    calls_ = 0;
    thrown_ = std::move(thrown);
    fail_at_ = position;
  }
  /// From now on a failing copy is queued before it throws.
  void fail_behind_copies() noexcept { fails_behind_copies_ = true; }
  /// From now on device() returns `other`, to test decisions that depend only on the kind of a device.
  void pass_for(device_id other) noexcept { passed_for_ = other; }
  /// Returns whether the chosen call has failed.
  [[nodiscard]] bool failed() const noexcept { return fail_at_ != 0 && calls_ >= fail_at_; }
  /// Returns the number of live allocations, streams and events.
  [[nodiscard]] std::int64_t alive() const noexcept { return alive_; }

  [[nodiscard]] device_id device() const noexcept override { return passed_for_.value_or(inner_->device()); }
  [[nodiscard]] device_properties properties() const override { return inner_->properties(); }
  [[nodiscard]] const kernel_table& kernels() const noexcept override { return inner_->kernels(); }

  stream_handle create_stream() override {
    return made([&] { return inner_->create_stream(); });
  }
  void destroy_stream(stream_handle stream) noexcept override {
    --alive_;
    inner_->destroy_stream(stream);
  }
  std::uint64_t stream_id(stream_handle stream) override { return inner_->stream_id(stream); }
  void synchronize_stream(stream_handle stream) override {
    count();
    inner_->synchronize_stream(stream);
  }
  bool stream_idle(stream_handle stream) override { return inner_->stream_idle(stream); }
  bool capturing(stream_handle stream) override {
    count();
    return inner_->capturing(stream);
  }

  event_handle create_event() override {
    return made([&] { return inner_->create_event(); });
  }
  void destroy_event(event_handle event) noexcept override {
    --alive_;
    inner_->destroy_event(event);
  }
  void record_event(event_handle event, stream_handle stream) override {
    count();
    inner_->record_event(event, stream);
  }
  fence_outcome record_context(event_handle event) override {
    count();
    return inner_->record_context(event);
  }
  void wait_event(stream_handle stream, event_handle event) override {
    count();
    inner_->wait_event(stream, event);
  }
  bool event_complete(event_handle event) override {
    count();
    return inner_->event_complete(event);
  }
  void synchronize_event(event_handle event) override {
    count();
    inner_->synchronize_event(event);
  }

  void* allocate(std::size_t bytes, std::size_t alignment) override {
    return made([&] { return inner_->allocate(bytes, alignment); }, errc::out_of_memory);
  }
  bool deallocate(void* pointer, std::size_t bytes, std::size_t alignment) noexcept override {
    return gone(inner_->deallocate(pointer, bytes, alignment));
  }
  void* allocate_async(std::size_t bytes, stream_handle stream) override {
    return made([&] { return inner_->allocate_async(bytes, stream); }, errc::out_of_memory);
  }
  bool deallocate_async(void* pointer, std::size_t bytes, stream_handle stream) noexcept override {
    return gone(inner_->deallocate_async(pointer, bytes, stream));
  }
  [[nodiscard]] std::uint64_t pool_bytes() const override { return inner_->pool_bytes(); }
  std::size_t trim_pool(std::size_t keep) override { return inner_->trim_pool(keep); }
  void set_pool_threshold(std::uint64_t bytes) override { inner_->set_pool_threshold(bytes); }
  [[nodiscard]] std::shared_ptr<backend> another() override { return inner_->another(); }
  void make_pool_exportable() override { inner_->make_pool_exportable(); }
  [[nodiscard]] bool pool_exportable() const override { return inner_->pool_exportable(); }
  int export_pool() override {
    count();
    return inner_->export_pool();
  }
  allocation_name export_allocation(const void* base) override {
    count();
    return inner_->export_allocation(base);
  }
  pool_handle import_pool(int descriptor) override {
    return made([&] { return inner_->import_pool(descriptor); });
  }
  void release_pool(pool_handle imported) noexcept override {
    --alive_;
    inner_->release_pool(imported);
  }
  void* open_allocation(pool_handle imported, const allocation_name& name) override {
    return made([&] { return inner_->open_allocation(imported, name); });
  }
  bool close_allocation(void* pointer, stream_handle stream) noexcept override {
    return gone(inner_->close_allocation(pointer, stream));
  }
  void* allocate_pinned(std::size_t bytes) override {
    return made([&] { return inner_->allocate_pinned(bytes); }, errc::out_of_memory);
  }
  bool deallocate_pinned(void* pointer, std::size_t bytes) noexcept override {
    return gone(inner_->deallocate_pinned(pointer, bytes));
  }

  [[nodiscard]] memory_kind kind_of(const void* pointer) const override { return inner_->kind_of(pointer); }

  [[nodiscard]] bool can_access_peer(const backend& other) const override {
    const auto* const wrapped = dynamic_cast<const faulty_backend*>(&other);
    return inner_->can_access_peer(wrapped == nullptr ? other : *wrapped->inner_);
  }
  void enable_peer_access(backend& other) override {
    count();
    auto* const wrapped = dynamic_cast<faulty_backend*>(&other);
    inner_->enable_peer_access(wrapped == nullptr ? other : *wrapped->inner_);
  }

  void copy(void* target, const void* source, std::size_t bytes, copy_kind kind,
            stream_handle stream) override {
    count();
    inner_->copy(target, source, bytes, kind, stream);
    if (fails_behind_copies_) {
      throw error(errc::device, "a copy was chosen to fail when it was queued");
    }
  }
  void fill(void* target, std::uint8_t value, std::size_t bytes, stream_handle stream) override {
    count();
    inner_->fill(target, value, bytes, stream);
  }
  void write_word(std::uint32_t* target, std::uint32_t value, stream_handle stream) override {
    count();
    inner_->write_word(target, value, stream);
  }

private:
  void count(errc failure = errc::device) {
    const std::uint64_t position = ++calls_;
    if (position == fail_at_) {
      const std::lock_guard lock(mutex_);
      if (thrown_) {
        std::rethrow_exception(thrown_);
      }
      throw error(failure, concat("call ", position, " was chosen to fail"));
    }
  }
  template <class Make>
  std::invoke_result_t<Make> made(Make make, errc failure = errc::device) {
    count(failure);
    auto result = make();
    ++alive_;
    return result;
  }
  bool gone(bool freed) noexcept {
    alive_ -= freed;
    return freed;
  }

  std::shared_ptr<backend> inner_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> fail_at_{0};
  std::optional<device_id> passed_for_;
  bool fails_behind_copies_ = false;
  std::mutex mutex_;
  std::exception_ptr thrown_; ///< guarded by mutex_
  std::atomic<std::int64_t> alive_{0};
};

} // namespace saeta::testing
