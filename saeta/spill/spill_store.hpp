// The handles of a device: their states, and who leaves when room is needed. Private to spill/.
//
// What      A handle is resident, spilling, spilled, returning or gone. A thread that sets `spilling` or
//           `returning` alone moves the body, without the lock. Others wait until it has settled.
// Demotion  A thread moves spilled bodies on from full tiers to slower ones. They stay `spilled` meanwhile
//           and can be used or closed: the thread copies the body, and puts the copy in its place only if
//           the handle still has the body. Both tiers are charged until then.
// Owner     The contexts of the device (memory/context_parts.hpp). Entries keep their context, and so the
//           store; the store refers to entries without keeping them.
// Thread    Any. One lock for the states of all handles.
#pragma once

#include "saeta/executor/background_thread.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/spill/compressor.hpp"
#include "saeta/spill/spill_tiers.hpp"

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace saeta {

class spill_store;

inline std::size_t number_of(spill_tier tier) noexcept { return static_cast<std::size_t>(tier); }
/// The bytes of a budget that are in use beyond a share of its limit.
[[nodiscard]] std::uint64_t excess_over(const budget& level, double share) noexcept;

enum class spill_state : std::uint8_t { resident, spilling, spilled, returning };

/// How a body is compressed that leaves. Without a compressor it travels as it is.
struct spill_compression {
  std::shared_ptr<compressor> by;
  std::shared_ptr<const compression_plan> plan;
};

/// The state that a handle and its uses share.
struct SAETA_LOCAL spill_entry : std::enable_shared_from_this<spill_entry> {
  spill_entry(std::shared_ptr<context> in, std::vector<std::byte> described, buffer kept, int rank,
              spill_compression how = {});
  spill_entry(const spill_entry&) = delete;
  spill_entry& operator=(const spill_entry&) = delete;
  ~spill_entry();

  /// Whether this process has a handle.
  [[nodiscard]] static bool any() noexcept;

  const std::shared_ptr<context> ctx;
  const std::vector<std::byte> metadata;
  const std::uint64_t bytes;
  const int priority;
  const spill_compression compression;
  spill_store& store;
  // Guarded by the lock of the store. While the body is on the way, they belong to the thread that moves it.
  spill_state state = spill_state::resident;
  bool gone = false;           ///< closed; a body on the way is dropped when it settles
  std::uint64_t last_used = 0; ///< by the clock of the store
  buffer body;                 ///< while resident
  spilled_pointer lower;       ///< while spilled
  std::optional<bool> pays;    ///< whether compression does, once that is known
};

class spill_store final : public context_service {
public:
  static spill_store& of(const std::shared_ptr<context>& ctx);

  void add(spill_entry& entry);
  void forget(spill_entry& gone) noexcept;
  /// The body of an entry, brought back into `into` if it has left.
  [[nodiscard]] buffer acquire(spill_entry& of, const std::shared_ptr<context>& into);
  /// A use ended: the entry counts as used until now.
  void note_use(spill_entry& of) noexcept;
  spill_tier spill(spill_entry& of, std::optional<spill_tier> only);
  void close(spill_entry& of) noexcept;
  [[nodiscard]] bool is_closed(const spill_entry& of) const;
  [[nodiscard]] spill_tier tier_of(const spill_entry& of) const;
  /// The bytes that the body takes where it is.
  [[nodiscard]] std::uint64_t stored_bytes(const spill_entry& of) const;
  /// How a table will be compressed. By nobody if the device has no room for the windows.
  [[nodiscard]] spill_compression compression_of(const table& kept, const buffer& body);
  [[nodiscard]] spill_statistics statistics() const;
  [[nodiscard]] spill_folder& folder() noexcept { return tiers_.folder(); }
  /// As `spill_hint`.
  [[nodiscard]] std::string hint();
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
  /// Moves the body of an entry that this thread has set to `spilling`. Returns where it went.
  spill_tier move_out(spill_entry& of, std::optional<spill_tier> only);
  /// Copies a body to a tier. If none has room, waits for a demotion that is under way.
  [[nodiscard]] spilled_pointer take(spill_entry& of, std::optional<spill_tier> only);
  /// Ends a move with the body in its new place.
  void settle(spill_entry& of, buffer body, spilled_pointer lower) noexcept;
  /// Ends a move that failed.
  void settle_unmoved(spill_entry& of) noexcept;
  /// Call with the lock held. Returns objects that the caller has to drop without the lock.
  std::pair<buffer, spilled_pointer> end_move(spill_entry& of, spill_state now) noexcept;
  /// Waits until another thread has moved a body out. False if none is doing so. Can be interrupted.
  bool wait_for_others();
  void wait_until_settled(lock& held, const spill_entry& of);
  [[nodiscard]] bool any_spilling() const;
  /// A number that grows with every use that begins or ends, and every move out that ends.
  [[nodiscard]] std::uint64_t changes() const;
  void log(memory_event event, std::string_view tier, std::uint64_t bytes,
           const char* outcome) const noexcept;

  // Demotion (demotion.cpp).
  struct demotion {
    std::weak_ptr<spill_entry> of;
    spilled_pointer body;
    std::uint64_t bytes;
    spill_tier to;
  };
  /// By the number of a tier: whether it has passed `spill_options::begin` and not yet come down to `end`.
  using full_tiers = std::array<bool, spill_tiers_count>;

  /// Starts the thread if a tier is full and a body can move on from it.
  void begin_demotions() noexcept;
  void demote() noexcept;
  /// With the lock held.
  [[nodiscard]] std::optional<demotion> choose_demotion(full_tiers& full) const;
  [[nodiscard]] std::optional<demotion> coldest_in(spill_tier tier) const;
  /// Returns false if the demotion failed.
  bool carry_out(demotion next) noexcept;
  void end_demotion(demotion& done, spilled_pointer& lower) noexcept;
  /// The number of demotions that have ended, with or without success.
  [[nodiscard]] std::uint64_t demotions_done() const;
  /// Waits until one more has ended. False if none is under way.
  bool wait_for_demotion(std::uint64_t seen);

  context& root_;
  spill_options options_;
  mutable std::mutex mutex_;
  std::condition_variable settled_;
  std::set<spill_entry*> entries_;
  std::uint64_t clock_ = 0;
  std::uint64_t moves_ = 0; ///< attempts to move a body out that have settled
  bool demoting_ = false;   ///< the thread is running, and will look at the tiers once more
  std::uint64_t demotions_ = 0;
  spill_statistics counted_;
  spill_tiers tiers_;
  std::weak_ptr<compressor> compressor_; ///< of all handles that have one
  background_thread demoter_{"saeta-spill"};
  hook_registration hook_; ///< removed before the rest is destroyed
};

} // namespace saeta
