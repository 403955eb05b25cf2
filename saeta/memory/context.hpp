// A context: everything Saeta keeps for one device in one process, seen through one budget.
//
// @code
// const std::shared_ptr<context> ctx = open_context(best_device(), std::uint64_t{1} << 30); // 1 GiB at most
// const std::shared_ptr<context> query = ctx->with_budget("query", std::uint64_t{256} << 20);
// const stream_ref work = query->work_stream();
// const buffer scratch = query->allocate<float>(1024, work, "scratch"); // or error budget_exceeded
// {
//   use_token token(work, {writes(scratch)});
//   query->copies().fill(token.span<float>(scratch).data(), 0, scratch.size(), work);
//   token.finish();
// }
// query->synchronize(work); // blocks the host until the fill has finished
// @endcode
//
// What      Resource stack, budget, streams, events, reaper, ledger, log and counters of one device.
//           `with_budget` and `with_reservation` make further contexts of the same device. They share all of
//           it, but charge a child budget or draw from a reservation. Pass them wherever a context is
//           expected.
// Owner     Shared; buffers keep their context alive. `runtime/` makes one per device and process; tests make
//           their own. A weak_ptr made from the pointer that `create` or `with_...` returns expires with the
//           copies of that pointer. One from `weak_from_this` lives as long as the context.
// Parts     `copies` moves bytes and counts them, `reports` describes the memory, `services` keeps objects of
//           upper layers.
// Thread    Any.
// Fork      A child of fork has its own contexts; the parent's contexts refuse new work there (`inherited`).
// Failure   budget_exceeded (with live bytes by tag: of the context's own budget, and of others if a budget
//           above it has no room), out_of_memory, device, closed, busy. A wait for room or for releases
//           passes on exceptions of the interrupt hook (base/interrupt.hpp).
#pragma once

#include "saeta/base/checked.hpp"
#include "saeta/base/export.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/spread_pointer.hpp"
#include "saeta/budget/budget.hpp"
#include "saeta/budget/reservation.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context_parts.hpp"
#include "saeta/memory/device_copies.hpp"
#include "saeta/memory/options.hpp"
#include "saeta/memory/pressure.hpp"
#include "saeta/order/reaper.hpp"
#include "saeta/resource/stack.hpp"

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace SAETA_EXPORT saeta {

class context;
struct context_core; // shared by the contexts of one device

struct context_options {
  std::uint64_t budget = budget::unlimited; ///< bytes
  /// An existing root budget; `budget` is ignored then. Null: one is made.
  std::shared_ptr<saeta::budget> root_budget{};
  /// The host's budget, charged for page-locked memory. Null: an unlimited one is made. The host's context
  /// uses its own.
  std::shared_ptr<saeta::budget> pinned_budget{};
  stack_options memory{};
  pressure_policy pressure{};
  staging_options staging{};
  spill_options spill{};
  /// Bytes of host memory that are kept for later downloads; nullopt: an eighth of the machine's memory.
  std::optional<std::uint64_t> host_cache{};
  std::size_t recorded = 0;     ///< how many of the latest memory events to keep; 0: none
  std::size_t max_streams = 32; ///< maximum borrowed at once
  release_thread releases = release_thread::background;
};

class context : public std::enable_shared_from_this<context> {
public:
  /// @throws error device; invalid_argument for a stack that can't be built.
  [[nodiscard]] static std::shared_ptr<context> create(std::shared_ptr<backend> device,
                                                       context_options options = {});
  context(const context&) = delete;
  context& operator=(const context&) = delete;
  ~context();

  /// A context of this device that charges a child of this context's budget.
  [[nodiscard]] std::shared_ptr<context> with_budget(std::string name,
                                                     std::uint64_t limit = budget::unlimited);
  /// A context of this device that draws from bytes reserved now. It refuses allocations beyond them. Where
  /// they have no room, room is made and waited for as for an allocation (pressure.hpp), unless they may be
  /// overbooked. @throws error budget_exceeded when there is none, closed.
  [[nodiscard]] std::shared_ptr<context> with_reservation(std::uint64_t bytes,
                                                          overbooking policy = overbooking::refuse);
  /// Null without a reservation.
  [[nodiscard]] reservation* drawn_from() const noexcept { return reservation_.get(); }
  /// The context at the root of this context's chain; itself if it was not derived.
  [[nodiscard]] context& root() noexcept { return base_ ? base_->root() : *this; }
  /// True when both are contexts of one device that share everything but the budget.
  [[nodiscard]] bool shares_with(const context& other) const noexcept { return core_ == other.core_; }

  [[nodiscard]] device_id device() const noexcept { return device_backend()->device(); }
  /// True when device memory is ordinary host memory.
  [[nodiscard]] bool on_host() const noexcept { return device().kind == device_kind::cpu; }
  [[nodiscard]] const std::shared_ptr<backend>& device_backend() const noexcept;
  [[nodiscard]] const kernel_table& kernels() const noexcept { return device_backend()->kernels(); }
  [[nodiscard]] const std::shared_ptr<budget>& memory_budget() const noexcept { return budget_; }
  /// Sets the limit of this context's budget. A root also returns cached memory beyond it to the device.
  /// @throws error invalid_argument when more than `bytes` are live or reserved; the old limit stays.
  void set_budget(std::uint64_t bytes);
  /// Allocates memory for `count` values of T, charged to this context's budget. Ready on `stream`; without
  /// one, on the work stream. The values are undefined.
  /// @throws error invalid_argument for a negative count, overflow for more bytes than a number holds, and as
  /// `buffer::allocate`.
  template <class T, std::integral Count>
  [[nodiscard]] buffer allocate(Count count, const stream_ref& stream, tag label = {},
                                memory_kind kind = memory_kind::device) {
    static_assert(std::is_trivially_copyable_v<T>, "memory of a device holds plain values");
    return buffer::allocate(as_base(), bytes_of_values<T>(count), stream, label, alignof(T), kind);
  }
  template <class T, std::integral Count>
  [[nodiscard]] buffer allocate(Count count, tag label = {}) {
    return allocate<T>(count, work_stream(), label);
  }
  [[nodiscard]] const resource_stack& memory() const noexcept;
  /// The options it was made with. The budget's limit may have changed since.
  [[nodiscard]] const context_options& options() const noexcept;
  /// Page-locked memory, charged to `pinned_budget`. On the host it is ordinary memory.
  [[nodiscard]] resource& pinned() const noexcept;
  [[nodiscard]] const std::shared_ptr<budget>& pinned_budget() const noexcept;
  /// How many requests for `bytes` of page-locked memory could be served now without page-locking more.
  [[nodiscard]] std::size_t kept_pinned(std::size_t bytes) const;
  /// Charges ordinary host memory to `pinned_budget` and enters it in the ledger until the result is dropped,
  /// which may be after the context ends. It makes room and waits as a request for page-locked memory does.
  /// @throws error budget_exceeded.
  [[nodiscard]] std::shared_ptr<void> charge_host(std::uint64_t bytes, tag label);
  /// A descriptor of the pool of buffers that other processes can open, which the caller closes.
  /// @throws error unsupported if the device has no such pool.
  [[nodiscard]] int export_pool() const;
  /// The timelines of the device's streams.
  [[nodiscard]] const std::shared_ptr<timelines>& clocks() const noexcept;
  /// The copies of the device, their counters, and strict mode.
  [[nodiscard]] device_copies& copies() const noexcept;
  /// Reports about memory. Must not outlive the context.
  [[nodiscard]] context_reports reports() const noexcept { return context_reports(*this); }
  /// Objects that upper layers keep with the contexts of the device. @throws error device when inherited.
  [[nodiscard]] service_registry& services() const;

  /// The stream for the library's own work. It does not synchronise with the legacy default stream.
  [[nodiscard]] stream_ref work_stream() const;
  /// Borrows a stream of the context's pool. @throws error busy beyond `max_streams`.
  [[nodiscard]] stream_lease borrow_stream();

  /// Blocks the host until the points have passed, and counts one synchronization. Returns at once and counts
  /// nothing if the set is empty.
  void synchronize(const point_set& awaited);
  void synchronize(stream_ref stream);

  /// Lets streams of `user` access memory of this context's device. Returns true if `user` is this device, or
  /// another GPU with peer access; false if either is the host, where no access is needed or possible.
  /// @throws error unsupported naming both devices, if the hardware has no peer access.
  bool make_visible_to(backend& user);
  /// Points after all work that may use this device's memory: one for each device that can access it.
  /// @throws error busy naming `user` while a known capture is active.
  [[nodiscard]] point_set mark_unknown_work(std::string_view user);

  /// Announces that some stream of the device captures a graph, until the result is dropped. Meanwhile memory
  /// whose users are unknown is not released, and using it throws error busy. docs/captures.md lists the
  /// captures that are known without it.
  [[nodiscard]] std::shared_ptr<void> capturing();

  /// Adds a hook that is called to make room when a request does not fit (memory/pressure.hpp).
  /// @param priority  hooks with higher numbers are called earlier.
  [[nodiscard]] hook_registration add_pressure_hook(std::string name, int priority, pressure_hook ask);
  /// The same for a hook that gets the whole request and is called again as long as it frees bytes.
  [[nodiscard]] hook_registration add_room_maker(std::string name, int priority, room_maker ask);
  /// Returns unused memory (cached or pending) to the device, and host memory kept for downloads to the
  /// system. Returns the number of bytes.
  std::size_t trim();
  /// Carries out the releases whose work has finished; returns their number.
  std::size_t drain();
  /// Waits for pending releases; true if none is left.
  bool wait_for_releases(std::chrono::milliseconds timeout);

  /// Refuses new work from now on, ends waits for room in derived contexts, and returns the live bytes by tag
  /// (empty: none). Live memory stays valid until its owners drop it. Closing a derived context also returns
  /// the rest of its reservation. Contexts not derived from it are not affected.
  bytes_by_name close();
  [[nodiscard]] bool closed() const noexcept;
  /// True in a child of fork for a context of the parent. It refuses new work, and nothing of it may be
  /// waited for. Its buffers in host memory can still be read.
  [[nodiscard]] bool inherited() const noexcept { return made_in_ != fork_generation(); }
  /// @throws error device when inherited, unless its memory is host memory.
  void require_readable() const;

private:
  friend class storage;
  friend class context_reports;
  context(std::shared_ptr<context_core> core, std::shared_ptr<context> base, std::shared_ptr<budget> limit,
          std::unique_ptr<reservation> drawn_from);

  /// The resource that allocates memory of a kind, and the budget to charge.
  struct memory_source; // context_core.hpp
  [[nodiscard]] memory_source own_source() const noexcept;
  /// @param kind  `pinned`, `device`, or the device's own kind (the same as `device`).
  /// @throws error unsupported.
  [[nodiscard]] memory_source source_of(memory_kind kind, std::string_view user) const;
  [[nodiscard]] memory_source shareable_source() const;
  [[nodiscard]] block allocate_block(const memory_source& out_of, std::size_t bytes, std::size_t alignment,
                                     tag label, const stream_ref& stream);
  /// Frees the block once the points have passed; the host does not wait.
  void release_later(resource& to, const block& freed, requirement&& after) noexcept;
  /// @throws error device when inherited.
  void require_own_process() const;
  void require_open() const;
  /// Wraps a new context for callers. While a copy of the result lives the context keeps itself alive; after
  /// that its last storage does.
  [[nodiscard]] static std::shared_ptr<context> hand_out(std::shared_ptr<context> context);
  /// The pointer that contexts derived from this one keep.
  [[nodiscard]] std::shared_ptr<context> as_base();
  /// The context that a storage made with `used` keeps alive. A reservation must end with its context even if
  /// memory drawn from it lives on, so such storages keep the base context.
  [[nodiscard]] static std::shared_ptr<context>
  kept_by_storage(const std::shared_ptr<context>& used) noexcept;

  std::shared_ptr<context_core> core_;
  std::shared_ptr<context> base_; ///< the context it was derived from; null for the root
  std::shared_ptr<budget> budget_;
  std::unique_ptr<reservation> reservation_;
  std::weak_ptr<context> handed_out_;
  spread_pointer<context> kept_by_storages_; ///< open while `handed_out_` lives
  std::atomic<bool> closed_{false};
  const std::uint64_t made_in_ = fork_generation();
};

} // namespace saeta
