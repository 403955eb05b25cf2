// A context: everything Saeta keeps for one device in one process, seen through one budget.
//
// What      Resource stack, budget, streams, events, reaper, ledger, log and counters of one device. `with_budget` and
//           `with_reservation` give further contexts of the same device that share all of it but charge a child budget,
//           or draw from a reservation: pass one of them wherever a context is expected.
// Owner     Shared; buffers keep theirs alive. `runtime/` makes one per device and process; tests make their own. A weak
//           pointer that lives as long as the context comes from `weak_from_this`; one that is made from what `create` and
//           its like return lives as long as the copies of that.
// Parts     `copies` moves bytes and counts them, `reports` tells about memory, `services` keeps what layers above need.
// Thread    Any.
// Fork      A child of fork has contexts of its own: those of its parent refuse new work there (`inherited`).
// Failure   budget_exceeded (with the live bytes by tag: of the context's own budget, and of others where a budget above it
//           has no room), out_of_memory, device, closed, busy. A wait for room or for releases passes on what the interrupt
//           hook throws (base/interrupt.hpp).
#pragma once

#include "saeta/base/process.hpp"
#include "saeta/base/spread_pointer.hpp"
#include "saeta/budget/budget.hpp"
#include "saeta/budget/reservation.hpp"
#include "saeta/memory/context_reports.hpp"
#include "saeta/memory/device_copies.hpp"
#include "saeta/memory/pressure.hpp"
#include "saeta/memory/service_registry.hpp"
#include "saeta/memory/staging_options.hpp"
#include "saeta/memory/stream_pool.hpp"
#include "saeta/order/reaper.hpp"
#include "saeta/resource/stack.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace saeta {

class context;
struct context_core; // what the contexts of one device share

struct context_options {
  std::uint64_t budget = budget::unlimited; ///< bytes
  /// The root budget, where it exists before the context; `budget` says nothing then. Null: one is made.
  std::shared_ptr<saeta::budget> root_budget{};
  /// What page-locked memory is charged to: the host's. Null: an unlimited one is made. On the host it is the context's own.
  std::shared_ptr<saeta::budget> pinned_budget{};
  stack_options memory;
  pressure_policy pressure;
  staging_options staging;
  std::size_t recorded = 0;     ///< memory events that are kept from the start, the last ones; 0: none
  std::size_t max_streams = 32; ///< that may be borrowed at once
  release_thread releases = release_thread::background;
};

class context : public std::enable_shared_from_this<context> {
public:
  /// @throws error device; invalid_argument for a stack that can't be built.
  static std::shared_ptr<context> create(std::shared_ptr<backend> device, context_options options = {});
  context(const context&) = delete;
  context& operator=(const context&) = delete;
  ~context();

  /// A context of this device whose allocations are charged to a child of this one's budget.
  [[nodiscard]] std::shared_ptr<context> with_budget(std::string name,
                                                     std::uint64_t limit = budget::unlimited);
  /// A context of this device whose allocations draw from bytes that are set aside now; beyond them it refuses.
  /// @throws error budget_exceeded when they have no room.
  [[nodiscard]] std::shared_ptr<context> with_reservation(std::uint64_t bytes,
                                                          overbooking policy = overbooking::refuse);
  /// Null where nothing is drawn from a reservation.
  [[nodiscard]] reservation* drawn_from() const noexcept { return reservation_.get(); }
  /// The context that this one was derived from in the end; itself, where it was not.
  [[nodiscard]] context& root() noexcept { return base_ ? base_->root() : *this; }
  /// True when both are contexts of one device that share everything but the budget.
  [[nodiscard]] bool shares_with(const context& other) const noexcept { return core_ == other.core_; }

  [[nodiscard]] device_id device() const noexcept { return device_backend()->device(); }
  /// True when device memory is ordinary host memory.
  [[nodiscard]] bool on_host() const noexcept { return device().kind == device_kind::cpu; }
  [[nodiscard]] const std::shared_ptr<backend>& device_backend() const noexcept;
  [[nodiscard]] const kernel_table& kernels() const noexcept { return device_backend()->kernels(); }
  [[nodiscard]] const std::shared_ptr<budget>& memory_budget() const noexcept { return budget_; }
  /// Sets the limit of this context's budget. What the cache of a root holds beyond it goes back to the device.
  /// @throws error invalid_argument when more than `bytes` are live or reserved; the old limit stays.
  void set_budget(std::uint64_t bytes);
  [[nodiscard]] const resource_stack& memory() const noexcept;
  /// What it was made with; the budget may have another limit by now.
  [[nodiscard]] const context_options& options() const noexcept;
  /// Page-locked memory, charged to `pinned_budget`; on the host ordinary memory.
  [[nodiscard]] resource& pinned() const noexcept;
  [[nodiscard]] const std::shared_ptr<budget>& pinned_budget() const noexcept;
  /// Charges ordinary host memory to `pinned_budget` and enters it in the ledger, until the result is dropped, which may be after
  /// the context's end. Makes room and waits as a request for page-locked memory does. @throws error budget_exceeded.
  [[nodiscard]] std::shared_ptr<void> charge_host(std::uint64_t bytes, tag label);
  /// The clocks of the device's streams.
  [[nodiscard]] const std::shared_ptr<timelines>& clocks() const noexcept;
  /// The copies of the device and their counters; strict mode.
  [[nodiscard]] device_copies& copies() const noexcept;
  /// What the context tells about its memory. Must not outlive the context.
  [[nodiscard]] context_reports reports() const noexcept { return context_reports(*this); }
  /// What layers above keep with the contexts of the device. @throws error device when the context is inherited.
  [[nodiscard]] service_registry& services() const;

  /// The stream that the library's own work of this context uses. Does not synchronise with the legacy default stream.
  [[nodiscard]] stream_ref work_stream() const;
  /// A stream of the context's pool. @throws error busy beyond `max_streams`.
  [[nodiscard]] stream_lease borrow_stream();

  /// The host waits, which is counted once. Returns at once, uncounted, if the set is empty.
  void synchronize(const point_set& awaited);
  void synchronize(stream_ref stream);

  /// Lets streams of `user` touch memory of this context's device. True when they are of this device, or of another GPU that
  /// has peer access; false when no access is needed or possible from there (the host).
  /// @throws error unsupported naming both devices, where the hardware has no peer access.
  bool make_visible_to(backend& user);
  /// Points after all work that may touch the memory of this device: one for each device where it is visible.
  /// @throws error busy naming `user` while a known capture is active.
  [[nodiscard]] point_set mark_unknown_work(std::string_view user);

  /// Says that a graph is being captured on some stream of the device, until the result is dropped. Memory whose users are
  /// unknown is released afterwards, and using it is error busy. docs/captures.md says which captures are known without it.
  [[nodiscard]] std::shared_ptr<void> capturing();

  /// Asked to make room when a request does not fit (memory/pressure.hpp). @param priority  higher is asked earlier.
  [[nodiscard]] hook_registration add_pressure_hook(std::string name, int priority, pressure_hook ask);
  /// Returns memory that is cached or pending and unused to the device, and what is kept for downloads to the system; bytes.
  std::size_t trim();
  /// Does the releases whose work has finished; how many.
  std::size_t drain();
  /// Waits for pending releases; true when none is left.
  bool wait_for_releases(std::chrono::milliseconds timeout);

  /// Refuses new work from now on, also what waits for room in a derived context, and reports what is still alive, by tag in bytes (empty: nothing). What lives stays
  /// valid until its owners drop it. Of a derived context it returns what is left of a reservation, too, and the others
  /// go on.
  bytes_by_name close();
  [[nodiscard]] bool closed() const noexcept;
  /// True in a child of fork, for a context of its parent: it refuses new work, and nothing of it may be waited for.
  /// Buffers that it holds in host memory can still be read.
  [[nodiscard]] bool inherited() const noexcept { return made_in_ != fork_generation(); }
  /// @throws error device when it is inherited and its memory is not the host's.
  void require_readable() const;

private:
  friend class storage;
  friend class context_reports;
  context(std::shared_ptr<context_core> core, std::shared_ptr<context> base, std::shared_ptr<budget> limit,
          std::unique_ptr<reservation> drawn_from);

  /// Where memory of a kind comes from, and whose charge it is.
  struct memory_source; // context_core.hpp
  [[nodiscard]] memory_source own_source() const noexcept;
  /// @param kind  `pinned`, or the device's own kind, for which `device` stands everywhere. @throws error unsupported.
  [[nodiscard]] memory_source source_of(memory_kind kind, std::string_view user) const;
  [[nodiscard]] block allocate(const memory_source& out_of, std::size_t bytes, std::size_t alignment,
                               tag label, const stream_ref& stream);
  /// Frees it once the points have passed, which the host does not wait for.
  void release_later(resource& to, const block& freed, requirement&& after) noexcept;
  /// @throws error device when it is inherited.
  void require_own_process() const;
  void require_open() const;
  /// What callers get of a new context. While a copy of it lives the context keeps itself; then its last storage does.
  static std::shared_ptr<context> hand_out(std::shared_ptr<context> made);
  /// For contexts that are derived from this one.
  [[nodiscard]] std::shared_ptr<context> as_base();
  /// What a storage made with `used` keeps alive. A reservation ends with its context, whatever was drawn from it, so such
  /// storages keep the context below it.
  [[nodiscard]] static std::shared_ptr<context>
  kept_by_storage(const std::shared_ptr<context>& used) noexcept;

  std::shared_ptr<context_core> core_;
  std::shared_ptr<context> base_; ///< what this was derived from; null for the root
  std::shared_ptr<budget> budget_;
  std::unique_ptr<reservation> reservation_;
  std::weak_ptr<context> handed_out_;
  spread_pointer<context> kept_by_storages_; ///< open while `handed_out_` lives
  std::atomic<bool> closed_{false};
  const std::uint64_t made_in_ = fork_generation();
};

} // namespace saeta
