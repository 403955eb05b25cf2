// A context: everything Saeta keeps for one device in one process.
//
// What      Resource stack, budget, streams, events, reaper, ledger and counters of one device.
// Owner     Shared; buffers keep it alive. `runtime/` makes one per device and process; tests make their own.
// Order     `copy` and `fill` are the only doors to data movement, so the counters miss nothing; ordering is the use
//           token's work, not theirs.
// Thread    Any.
// Failure   budget_exceeded (with the live bytes by tag), out_of_memory, device, closed, busy.
#pragma once

#include "saeta/memory/budget.hpp"
#include "saeta/memory/counters.hpp"
#include "saeta/memory/driver_resources.hpp"
#include "saeta/memory/fence.hpp"
#include "saeta/memory/ledger.hpp"
#include "saeta/memory/reaper.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace saeta {

class context;

enum class resource_kind { async, direct };

struct context_options {
  std::uint64_t budget = budget::unlimited; ///< bytes
  resource_kind resource = resource_kind::async;
  std::size_t max_streams = 32; ///< that may be borrowed at once
  std::chrono::milliseconds release_wait{
      10'000}; ///< how long an allocation waits for pending releases to make room
};

struct memory_statistics {
  budget_statistics budget;
  ledger_totals ledger;
  std::uint64_t pinned = 0;           ///< page-locked bytes held
  std::uint64_t pending_releases = 0; ///< waiting for work to finish
};

/// A borrowed stream; goes back to the context's pool at its end.
class stream_lease {
public:
  stream_lease(std::shared_ptr<context> where, stream lent)
      : where_(std::move(where)), stream_(std::move(lent)) {}
  stream_lease(stream_lease&&) noexcept = default;
  stream_lease& operator=(stream_lease&&) = delete;
  ~stream_lease();

  [[nodiscard]] stream_ref ref() const { return stream_.ref(); }

private:
  std::shared_ptr<context> where_;
  stream stream_;
};

class context : public std::enable_shared_from_this<context> {
public:
  /// @throws error device.
  static std::shared_ptr<context> create(std::shared_ptr<backend> device, context_options options = {});
  context(const context&) = delete;
  context& operator=(const context&) = delete;
  ~context();

  [[nodiscard]] device_id device() const noexcept { return backend_->device(); }
  /// True when device memory is ordinary host memory.
  [[nodiscard]] bool on_host() const noexcept { return backend_->device().kind == device_kind::cpu; }
  [[nodiscard]] const std::shared_ptr<backend>& device_backend() const noexcept { return backend_; }
  [[nodiscard]] const kernel_table& kernels() const noexcept { return backend_->kernels(); }
  [[nodiscard]] const std::shared_ptr<budget>& memory_budget() const noexcept { return budget_; }
  [[nodiscard]] resource& pinned() const noexcept { return *pinned_; }
  [[nodiscard]] counters& count() noexcept { return counters_; }
  [[nodiscard]] event_pool& events() noexcept { return *events_; }
  [[nodiscard]] memory_statistics statistics() const;
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> live_by_tag() const {
    return ledger_.by_tag();
  }

  /// The stream that the library's own work of this context uses. Does not synchronise with the legacy default stream.
  [[nodiscard]] stream_ref work_stream() const { return work_stream_->ref(); }
  /// @throws error busy beyond `max_streams`.
  [[nodiscard]] stream_lease borrow_stream();

  /// Queues a copy and counts it: one driver call. The caller holds a use token over the device side.
  void copy(void* target, const void* source, std::size_t bytes, copy_kind kind, stream_ref stream);
  /// Counts one planned movement, which may take several `copy` calls.
  void count_transfer(copy_kind kind) noexcept;
  void fill(void* target, std::uint8_t value, std::size_t bytes, stream_ref stream);
  /// Reads at most 16 bytes of device memory for metadata, ordered after the work of `stream`: waits for it. Counted
  /// apart from data. The caller holds a use token.
  void read_scalar(void* target, const void* source, std::size_t bytes, stream_ref stream);

  /// The host waits; counted. An empty fence is neither.
  void synchronize(const fence& done);
  void synchronize(stream_ref stream);

  /// The one object that a layer above keeps with its contexts (a staging ring), made on first use under a lock and
  /// destroyed with the context, so it must not own the context. `key` is the address of something of that layer.
  [[nodiscard]] void* attachment(const void* key, const std::function<std::shared_ptr<void>()>& make);

  /// Returns memory that is pooled or pending and unused to the device; bytes.
  std::size_t trim();
  /// Does the releases whose work has finished; how many.
  std::size_t drain() { return reaper_->drain(); }
  /// Waits for pending releases; true when none is left.
  bool wait_for_releases(std::chrono::milliseconds timeout) { return reaper_->wait_idle(timeout); }

  /// Refuses new work from now on and reports what is still alive, by tag in bytes (empty: nothing). What lives stays
  /// valid until its owners drop it.
  std::vector<std::pair<std::string, std::uint64_t>> close();
  [[nodiscard]] bool closed() const noexcept { return closed_; }

private:
  friend class storage;
  friend class stream_lease;
  context(std::shared_ptr<backend> device, context_options options);

  [[nodiscard]] block allocate(std::size_t bytes, std::size_t alignment, stream_ref stream);
  void release(block freed, pending_release how, std::shared_ptr<context> self) noexcept;
  void free_now(const block& freed) noexcept;
  void require_open() const;
  bool relieve(std::size_t attempt);
  [[nodiscard]] traffic_counter& counter_of(copy_kind kind) noexcept;

  context_options options_;
  std::shared_ptr<backend> backend_;
  std::shared_ptr<event_pool> events_;
  std::shared_ptr<budget> budget_;
  std::shared_ptr<pinned_resource> pinned_;
  std::shared_ptr<resource> memory_;
  std::optional<stream> work_stream_;
  std::optional<stream> release_stream_; ///< frees wait here, so that no work of the caller does
  ledger ledger_;
  counters counters_;
  std::mutex streams_mutex_;
  std::vector<stream> idle_streams_;
  std::size_t lent_streams_ = 0;
  std::atomic<bool> closed_{false};
  std::unique_ptr<reaper> reaper_;
  std::mutex attachments_mutex_;
  std::map<const void*, std::shared_ptr<void>> attachments_;
};

} // namespace saeta
