// A fixture with a new context on each backend, and functions to fill, read and write its buffers.
#pragma once

#include "conformance/harness/backends.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <thread>
#include <vector>

namespace saeta::conformance {

class context_test : public backend_test {
protected:
  /// A small budget, so that tests can fill it.
  static constexpr std::uint64_t limit = 64 << 20;

  void SetUp() override {
    context_options options;
    options.budget = limit;
    context_ = new_context(options);
  }

  [[nodiscard]] const std::shared_ptr<context>& ctx() const { return context_; }
  [[nodiscard]] buffer make(std::size_t bytes, std::string tag = "test") const {
    return buffer::allocate(context_, bytes, context_->work_stream(), std::move(tag));
  }
  template <class T>
  [[nodiscard]] buffer make_of(std::initializer_list<T> values) const {
    const buffer made = make(values.size() * sizeof(T));
    use_token token(context_->work_stream(), {writes(made)});
    context_->copies().send_description(
        token.span<T>(made).data(), std::as_bytes(std::span(values.begin(), values.size())), token.stream());
    token.finish();
    return made;
  }
  void fill(const buffer& used, std::uint8_t value, stream_ref stream) const {
    use_token token(stream, {writes(used)});
    context_->copies().fill(token.span<std::uint8_t>(used).data(), value, used.size(), stream);
    token.finish();
  }
  /// Queues a copy of the whole buffer to `target`, which must live until the copy has finished.
  void queue_read(const buffer& used, std::uint8_t* target, stream_ref stream) const {
    use_token token(stream, {reads(used)});
    context_->copies().copy(target, token.span<const std::uint8_t>(used).data(), used.size(), to_host(),
                            stream);
    token.finish();
  }
  [[nodiscard]] std::vector<std::uint8_t> read(const buffer& used) const {
    std::vector<std::uint8_t> bytes(used.size());
    queue_read(used, bytes.data(), context_->work_stream());
    context_->synchronize(context_->work_stream());
    return bytes;
  }
  [[nodiscard]] copy_kind to_host() const {
    return context_->on_host() ? copy_kind::host_to_host : copy_kind::device_to_host;
  }
  [[nodiscard]] copy_kind within() const {
    return context_->on_host() ? copy_kind::host_to_host : copy_kind::device_to_device;
  }

  /// Calls `action` and expects that it waits for the work behind the gate. The gate opens as soon as the
  /// host waits inside of `action`. On the host the gate is null.
  template <class Action>
  void open_while_the_host_waits(const std::unique_ptr<gate>& held, const Action& action) const {
    const std::uint64_t before = context_->copies().count().read().synchronizations;
    std::atomic<bool> returned{false};
    const std::jthread opener([&] {
      while (!returned && context_->copies().count().read().synchronizations == before) {
        std::this_thread::yield();
      }
      if (held && !returned) {
        held->open();
      }
    });
    action();
    returned = true;
  }

  std::shared_ptr<context> context_;
};

} // namespace saeta::conformance
