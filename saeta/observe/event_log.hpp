// The event log: records what happens to the memory of a context, and passes the records to sinks.
//
// @code
// struct refusals final : log_sink {
//   std::uint64_t count = 0;
//   void write(const log_record& record) override { count += record.event == memory_event::refuse ? 1 : 0; }
// };
// event_log& log = *ctx->reports().log();
// const auto sink = std::make_shared<refusals>();
// log.attach(sink); // the log shares the sink
// const buffer scratch = buffer::allocate(ctx, 4096, stream, "scratch");
// log.detach(sink);
// @endcode
//
// What      Records are made only while a sink is attached; otherwise `active()` is false, and a check costs
//           one load.
// Order     `order` counts from 1 without gaps, in the order in which sinks see the records. Times are
//           nanoseconds of the steady clock since the log was made.
// Thread    Any. Sinks are called with one record at a time, while the log is locked. A sink must not call
//           the log, nor wait for a thread that may be allocating.
// Failure   When a sink throws, the operation still succeeds. The record counts as dropped, and the sink gets
//           the next one.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/process.hpp"
#include "saeta/device/device_id.hpp"
#include "saeta/observe/tag.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace SAETA_EXPORT saeta {

enum class memory_event {
  allocate,
  free,
  refuse,      ///< a budget had no room
  fail,        ///< upstream had no memory, or another error
  free_failed, ///< the block stays charged and alive
  drain,       ///< finished releases were carried out; `bytes` is their number
  trim,        ///< cached memory was returned to the device
  relief,      ///< a pressure hook was called; `tag` is its name, `bytes` what it freed, by its own count
  adopt,       ///< a view of external memory began; no budget is charged
  release,     ///< a view of external memory ended
  spill,       ///< an unused table left the device; `tag` names the tier that it went to, if one took it
  unspill,     ///< a spilled table came back; `tag` names the tier that it came from
  demote,      ///< a spilled table moved from a full tier to a slower one, which `tag` names
};

[[nodiscard]] std::string_view to_string(memory_event kind) noexcept;

struct log_record {
  std::uint64_t order = 0;
  std::int64_t time_ns = 0;
  memory_event event = memory_event::allocate;
  device_id device;
  std::uint64_t thread = 0; ///< thread_number()
  std::uint64_t stream = 0; ///< id; 0 when the event has no stream
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;
  std::uint64_t generation = 0;
  tag label;
  tag account;             ///< name of the budget that was charged or that refused; empty if none
  std::uint64_t limit = 0; ///< of that budget, or of the root budget; bytes
  std::string outcome;     ///< "ok", or what went wrong
  /// Bytes of the whole device, set after an allocation, a free, a refusal or a trim, else 0. `reserved`:
  /// what reservations may still draw. `held`: what was taken from the device, in use or cached.
  std::uint64_t reserved = 0;
  std::uint64_t held = 0;
};

class log_sink {
public:
  log_sink() = default;
  log_sink(const log_sink&) = delete;
  log_sink& operator=(const log_sink&) = delete;
  virtual ~log_sink() = default;

  /// May throw: the record is then counted as dropped.
  virtual void write(const log_record& record) = 0;
  /// Makes the written records visible to readers of the file.
  virtual void flush() {}
};

class event_log {
public:
  [[nodiscard]] bool active() const noexcept { return active_.load(std::memory_order_relaxed); }
  void attach(std::shared_ptr<log_sink> sink);
  /// Flushes the sink. A sink that is not attached is ignored.
  void detach(const std::shared_ptr<log_sink>& sink) noexcept;
  /// Sets order, time and thread of the record, and passes it to every sink.
  void write(log_record record) noexcept;
  /// Writes the record that `make` returns, if there is a sink. Counts it as dropped if `make` throws.
  template <class Make>
  void write_if_active(const Make& make) noexcept {
    if (!active()) {
      return;
    }
    try {
      write(make());
    } catch (...) {
      drop();
    }
  }
  /// Counts a record that could not be made.
  void drop() noexcept { dropped_.fetch_add(1, std::memory_order_relaxed); }
  void flush() noexcept;
  /// Records lost since the log was made; a record counts once for each sink that failed.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

private:
  std::atomic<bool> active_{false};
  std::atomic<std::uint64_t> dropped_{0};
  const std::uint64_t made_in_ = fork_generation();
  std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<log_sink>> sinks_;
};

} // namespace saeta
