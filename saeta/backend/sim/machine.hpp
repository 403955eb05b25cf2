// The machine behind simulated devices: the devices, and the lock, the scheduler and the clocks that they
// share.
//
// Owner     Shared by the device objects and by the thread of pace::automatic, which ends with the last
//           device.
// Thread    `join`, `leave`, `enter`, `enter_call`, `lock`, `lose` and the static functions take the locks
//           they need. The caller of any other function holds the machine's lock.

#pragma once

#include "saeta/backend/sim/arena.hpp"
#include "saeta/backend/sim/memory_map.hpp"
#include "saeta/backend/sim/scheduler.hpp"
#include "saeta/executor/background_thread.hpp"

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <mutex>
#include <span>

namespace saeta::sim {

/// A pool that a simulated device has imported: the arena of this or another process, mapped at other
/// addresses.
///
/// Owner     Shared by the pool's handle and its open allocations. The last of them unmaps it.
class mapped_pool {
public:
  /// The caller keeps and closes the descriptor. @throws error device.
  explicit mapped_pool(int descriptor);
  mapped_pool(const mapped_pool&) = delete;
  mapped_pool& operator=(const mapped_pool&) = delete;
  ~mapped_pool();

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] unsigned char* at(std::size_t offset) const noexcept { return base_ + offset; }
  [[nodiscard]] bool contains(const void* pointer) const noexcept;
  [[nodiscard]] std::size_t offset(const void* pointer) const noexcept;

private:
  unsigned char* base_ = nullptr;
  std::size_t size_ = 0;
};

/// One device. Several device objects may represent it, as several libraries use one GPU.
struct gpu {
  gpu(const options& chosen, std::uint64_t fault_seed)
      : ordinal(chosen.ordinal), total_bytes(chosen.total_bytes), memory(chosen.total_bytes),
        time_per_mib(chosen.time_per_mib), fail_percent(chosen.fail_percent), faults(fault_seed),
        offers_peers(chosen.peers) {}

  /// Whether an address is memory of the device, own or imported, and its offset in that memory.
  [[nodiscard]] bool contains(const void* pointer) const noexcept;
  [[nodiscard]] std::size_t offset(const void* pointer) const noexcept;

  std::int32_t ordinal;
  std::uint64_t total_bytes;
  arena memory;
  std::unordered_map<std::uintptr_t, std::shared_ptr<mapped_pool>> imported; ///< by handle
  std::uintptr_t imported_count = 0;
  /// Imported pools, and released ones that still have open allocations.
  std::vector<std::weak_ptr<mapped_pool>> mapped;
  stream_state* legacy = nullptr;
  std::unordered_map<std::size_t, stream_state*> per_thread; ///< by thread_number()
  std::uint64_t used_bytes = 0;                              ///< bytes of the arena in live allocations
  std::uint64_t pool_used = 0;                               ///< the part of `used_bytes` from the pool
  std::size_t pool_threshold = std::numeric_limits<std::size_t>::max(); ///< unused bytes that the pool keeps
  std::uint64_t next_stream_id = 3; ///< above the default streams' handles
  stream_state* captured_later = nullptr;
  unsigned calls_before_capture = 0;
  std::chrono::nanoseconds time_per_mib;
  std::mutex link; ///< held for that time: one copy after the other
  unsigned fail_percent;
  /// Separate from the scheduler's, so that faults do not change the schedule of the calls that succeed.
  random_source faults;
  bool lost = false;
  bool offers_peers;
  std::vector<const gpu*> peers; ///< devices whose memory this device's operations may touch
  usage alive;
};

struct event_state {
  gpu* home;
  operations covered; ///< operations that the event still waits for
  vector_clock clock;
  /// Set if the event was recorded inside a graph capture. Then it can't be used outside of that capture.
  std::shared_ptr<capture_state> captured;
};

class machine : public std::enable_shared_from_this<machine> {
public:
  using guard = std::unique_lock<std::mutex>;

  explicit machine(const options& chosen);
  /// The machine of a created stream, of a device address or with a number; null when there is none.
  static std::shared_ptr<machine> of_stream(stream_handle stream);
  static std::shared_ptr<machine> of_address(const void* pointer);
  static std::shared_ptr<machine> of_number(std::uint64_t number);
  [[nodiscard]] std::uint64_t number() const noexcept { return id_; }

  gpu& join(const options& chosen);
  /// The last device to leave stops the thread and drops the queued operations.
  void leave() noexcept;

  /// Locks. With pace::manual, operations may run now.
  [[nodiscard]] guard enter();
  /// `enter` for a call of the contract, with `call`. @throws error device_lost, or device when the call is
  /// chosen to fail.
  [[nodiscard]] guard enter_call(gpu& home, const char* name);
  /// The part of `enter_call` after locking: begins a planned capture, or throws. The caller holds the lock.
  void call(gpu& home, const char* name);
  /// @throws error device_lost. The caller holds the lock.
  void require_device(const gpu& home, const char* name) const;
  /// Marks everything queued on the device as done without running it. Called without the lock.
  void mark_lost(gpu& home);
  [[nodiscard]] guard lock() const { return guard(mutex_); }

  stream_state& create_stream(gpu& home, stream_kind kind);
  /// Adds a default stream of the device.
  stream_state& add_stream(gpu& home, stream_kind kind);
  [[nodiscard]] stream_handle handle(const stream_state& stream) const noexcept;
  /// @throws error device: not a stream of this machine, or destroyed.
  stream_state& stream(gpu& home, stream_handle handle);
  /// The device of a stream of this machine. For a default stream: the device that owns `touched`.
  gpu& home(stream_handle handle, const void* touched);
  event_handle create_event(gpu& home);
  /// @throws error device. Refuses events that were recorded in a capture unless `any` is true.
  event_state& event(event_handle handle, bool any = false);
  void destroy_event(event_handle handle);
  [[nodiscard]] gpu* owner(const void* pointer) const noexcept;

  /// Checks the operation's accesses and queues it. Drops the operation and returns null in a capture.
  std::shared_ptr<operation> submit(stream_state& stream, std::string_view name,
                                    std::span<const access> touched, operation work);
  std::shared_ptr<operation> submit(stream_state& stream, std::string_view name,
                                    std::initializer_list<access> touched, operation work) {
    return submit(stream, name, std::span(touched.begin(), touched.size()), std::move(work));
  }
  /// Checks an access of the host now, against the work that the host has waited for. True when there is no
  /// conflict.
  bool check_host(const access& touched, std::string_view name);
  /// Blocks until `awaited` is done. The host's clock then covers `clock`.
  void wait(guard& held, operations awaited, const vector_clock& clock);
  void join_host_clock(const vector_clock& clock) { host_.join(clock); }

  bool advance(guard& held) { return schedule_.advance(held, journal_); }
  [[nodiscard]] scheduler& schedule() noexcept { return schedule_; }
  [[nodiscard]] memory_map& memory() noexcept { return memory_; }
  [[nodiscard]] const journal& log() const noexcept { return journal_; }
  void add_finding(race race) { journal_.add_finding(std::move(race)); }
  [[nodiscard]] std::uint64_t seed() const noexcept { return chosen_.seed; }
  [[nodiscard]] bool capturing(const gpu& home) const noexcept;
  /// @throws error device when the stream can't be captured.
  void begin_capture(stream_state& stream) const;
  /// Ends the capture: all its streams leave it.
  void end(capture_state& capture) noexcept;
  [[nodiscard]] access_record host_access(std::string_view name);
  /// Keeps page-locked memory that operations may still use until the machine is destroyed.
  void keep_until_end(void* pinned) { buried_.emplace_back(pinned); }

private:
  void run_in_background();
  /// Reports an operation on `running` that touches memory of `touched` without peer access.
  void check_peer(const gpu& running, const gpu& touched, const access& touch, const access_record& by);

  struct free_pinned {
    void operator()(void* pointer) const noexcept;
  };

  const options chosen_;
  const std::uint64_t id_;
  mutable std::mutex mutex_;
  scheduler schedule_;
  journal journal_;
  memory_map memory_;
  vector_clock host_; ///< the work that the host knows to have finished
  std::vector<std::unique_ptr<gpu>> gpus_;
  std::unordered_map<std::uintptr_t, event_state> events_;
  std::uintptr_t event_count_ = 0;
  std::vector<std::unique_ptr<void, free_pinned>> buried_;
  std::size_t devices_ = 0;
  bool stopped_ = false;
  background_thread background_{"saeta-sim"};
};

inline constexpr std::align_val_t pinned_alignment{256};

} // namespace saeta::sim
