// The handles of a device: their states, and who leaves when room is needed. Private to share/.
//
// What      A handle is resident, spilling, spilled, returning or gone. A thread that sets `spilling` or
//           `returning` alone moves the body, without the lock. Others wait until it has settled.
// Owner     The contexts of the device (memory/service_registry.hpp). Entries keep their context, and so the
//           store; the store refers to entries without keeping them.
// Thread    Any. One lock for the states of all handles.
#pragma once

#include "saeta/memory/context.hpp"
#include "saeta/share/spill_tiers.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace saeta {

class spill_store;

enum class spill_state : std::uint8_t { resident, spilling, spilled, returning };

/// What a handle and its uses share.
struct spill_entry : std::enable_shared_from_this<spill_entry> {
  spill_entry(std::shared_ptr<context> in, std::vector<std::byte> described, buffer kept, int rank);
  spill_entry(const spill_entry&) = delete;
  spill_entry& operator=(const spill_entry&) = delete;
  ~spill_entry();

  const std::shared_ptr<context> ctx;
  const std::vector<std::byte> metadata;
  const std::uint64_t bytes;
  const int priority;
  spill_store& store;
  // Guarded by the lock of the store. While the body is on the way, they belong to the thread that moves it.
  spill_state state = spill_state::resident;
  bool gone = false;           ///< closed; a body on the way is dropped when it settles
  std::uint64_t last_used = 0; ///< by the clock of the store
  buffer body;                 ///< while resident
  spilled lower;               ///< while spilled
};

class spill_store final : public context_service {
public:
  static spill_store& of(const std::shared_ptr<context>& ctx);

  void add(spill_entry& made);
  void forget(spill_entry& gone) noexcept;
  /// The body of an entry, brought back into `into` if it has left.
  [[nodiscard]] buffer acquire(spill_entry& of, const std::shared_ptr<context>& into);
  /// A use ended: the entry counts as used until now.
  void note_use(spill_entry& of) noexcept;
  spill_tier spill(spill_entry& of, std::optional<spill_tier> only);
  void close(spill_entry& of) noexcept;
  [[nodiscard]] bool is_closed(const spill_entry& of) const;
  [[nodiscard]] spill_tier tier_of(const spill_entry& of) const;
  [[nodiscard]] spill_statistics statistics() const;
  /// Moves unused bodies of a budget until at most the share `spill_options::end` of it is in use, if more
  /// than `begin` is.
  void keep_below(budget& limit);
  /// Moves unused bodies of a budget until at least `bytes` have moved or none is left. Returns the bytes.
  std::uint64_t spill_unused(const budget& within, std::uint64_t bytes);

private:
  using lock = std::unique_lock<std::mutex>;
  using entries = std::vector<std::shared_ptr<spill_entry>>;

  explicit spill_store(context& root);
  /// The hook: returns the bytes that moved, or more than 0 if others made room meanwhile.
  std::uint64_t make_room(shortage& need);
  /// Moves unused bodies of a budget until at least `bytes` have moved, `enough()`, or none is left. Returns
  /// the bytes that have moved.
  /// @param within  null: any budget
  /// @param failed  entries that are left out; those that can't move are added
  template <class Enough>
  std::uint64_t move_unused(const budget* within, std::uint64_t bytes, entries& failed, const Enough& enough);
  [[nodiscard]] std::shared_ptr<spill_entry> choose(const budget* within, const entries& failed);
  /// Moves the body of an entry that this thread has set to `spilling`.
  void move_out(spill_entry& of, std::optional<spill_tier> only);
  /// Ends a move with the body in its new place.
  void settle(spill_entry& of, buffer body, spilled lower) noexcept;
  /// Ends a move that failed.
  void settle_unmoved(spill_entry& of) noexcept;
  /// With the lock held. Returns what has to be dropped without it.
  std::pair<buffer, spilled> end_move(spill_entry& of, spill_state now) noexcept;
  /// Waits until another thread has moved a body out. False if none is doing so.
  bool wait_for_others();
  void wait_until_settled(lock& held, const spill_entry& of);
  [[nodiscard]] bool any_spilling() const;
  /// A number that grows with every use that begins or ends, and every move out that ends.
  [[nodiscard]] std::uint64_t changes() const;
  void log(memory_event event, std::string_view tier, const spill_entry& of,
           const char* outcome) const noexcept;

  context& root_;
  spill_options options_;
  mutable std::mutex mutex_;
  std::condition_variable settled_;
  std::set<spill_entry*> entries_;
  std::uint64_t clock_ = 0;
  std::uint64_t moves_ = 0; ///< attempts to move a body out that have settled
  spill_statistics counted_;
  spill_tiers tiers_;
  hook_registration hook_; ///< removed before the rest is destroyed
};

} // namespace saeta
