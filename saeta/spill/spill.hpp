// Spilling: tables that may leave the device while nobody uses them, and come back when they are used.
//
// @code
// const spill_handle kept = spillable(ctx, orders, 1); // leaves the device after handles of priority 0
// {
//   const spill_use used = kept.use(ctx); // brings the table back if it has left
//   launch(ctx->work_stream(), used.value());
// } // unused again: a request without room may move it
// @endcode
//
// What      A handle keeps a table in the packed form (ipc/packed.hpp). When a request on the device has no
//           room, the bodies of unused handles move to the first tier that has room: page-locked memory,
//           pageable memory, a file. `use` brings a body back. On the host, whose memory all tiers but files
//           share, a body moves to a file.
// Demotion  When more than `spill_options::begin` of a tier is in use, a thread moves its coldest bodies on
//           to slower tiers, until at most `end` is. Nobody waits for it, unless no tier has room.
// Order     Handles of the lowest priority leave first, among them the one whose last use is the longest ago.
//           Copies to and from page-locked memory are queued on the context's work stream. Others have
//           finished when the call returns.
// Smaller   A body may leave compressed: kernels of the device make it smaller, and bring it back equal to the
//           last bit (spill/compressor.hpp). That takes up to 48 MiB of the device's budget while such a
//           handle lives; without room for them bodies travel as they are.
// In use    A body is unused if its handle is the only owner of its memory. A table that somebody still has,
//           an export or an open use token keeps it where it is. External memory is moved on request only,
//           because that frees nothing of the budget.
// Owner     A handle owns its body, wherever it is. Files have no name, so nothing is left of them when the
//           process ends. Many bodies share one. The metadata stays in host memory.
// Budget    Each tier has a limit (memory/options.hpp). Host memory is also charged to the budget of
//           the host, and listed there as "spill". A body that comes back is charged to the context that it
//           is used with.
// Thread    Any. No lock is held while bytes move. A use that finds its table on the way waits for it.
// Failure   A body that can't move stays where it is: budget_exceeded, out_of_memory, io (a full disk),
//           download_forbidden. The call can be repeated. `use` also throws closed.
// Fork      A forked child can't use the handles of its parent: error device.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/required.hpp"
#include "saeta/column/table.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace SAETA_EXPORT saeta {

/// Where the body of a handle is.
enum class spill_tier : std::uint8_t { device, pinned, pageable, file };
inline constexpr std::size_t spill_tiers_count = 4;

[[nodiscard]] std::string_view to_string(spill_tier tier) noexcept;
/// @throws error invalid_argument listing the tiers that a table can be moved to.
[[nodiscard]] spill_tier parse_spill_tier(std::string_view text);

struct spill_entry;

/// A table in use. Its memory stays on the device as long as it is referenced.
class spill_use {
public:
  spill_use(std::shared_ptr<spill_entry> of, table used);
  spill_use(spill_use&&) noexcept = default;
  spill_use& operator=(spill_use&&) = delete;
  /// From now on the handle counts as unused, if nobody else has the table.
  ~spill_use();

  [[nodiscard]] const table& value() const noexcept { return *table_; }

private:
  std::shared_ptr<spill_entry> of_; ///< null after a move
  std::optional<table> table_;
};

class spill_handle {
public:
  explicit spill_handle(std::shared_ptr<spill_entry> of) : of_(std::move(of)) {}
  spill_handle(spill_handle&&) noexcept = default;
  spill_handle& operator=(spill_handle&&) = delete;
  ~spill_handle();

  /// Brings the table back, if it has left, and keeps it on the device until the result is dropped.
  /// @param ctx  shares memory with the handle's context; charged for a body that comes back
  [[nodiscard]] spill_use use(const std::shared_ptr<context>& ctx) const;
  /// Moves the body now, unless it has already left. Returns where it went. A table without bytes stays.
  /// @param only  this tier; nullopt: the first one with room
  /// @throws error busy (the table is in use), unsupported (the device has no such tier).
  spill_tier spill(std::optional<spill_tier> only = std::nullopt) const;
  /// Drops the table. Open uses keep it.
  void close() const noexcept;

  /// For a body on the way: where it comes from. @throws error closed.
  [[nodiscard]] spill_tier tier() const;
  [[nodiscard]] bool closed() const;
  [[nodiscard]] std::uint64_t bytes() const; ///< of the body
  /// The bytes that the body takes where it is: fewer if it left compressed. @throws error closed.
  [[nodiscard]] std::uint64_t stored_bytes() const;
  [[nodiscard]] int priority() const;
  [[nodiscard]] const std::shared_ptr<context>& ctx() const;

private:
  /// @throws error closed for a handle that was moved from.
  [[nodiscard]] spill_entry& entry() const { return held_by(of_, "spill handle"); }

  std::shared_ptr<spill_entry> of_; ///< null after a move
};

/// Keeps a table of `ctx` in the packed form. The table is packed as `ipc::pack` does it. Then other handles
/// make room, if more of the budget is in use than `spill_options::begin`.
/// @param priority  handles with lower ones leave the device earlier
/// @param compress  whether it leaves compressed where that makes it smaller; nullopt: `spill_options::compress`
[[nodiscard]] spill_handle spillable(const std::shared_ptr<context>& ctx, const table& kept, int priority = 0,
                                     std::optional<bool> compress = std::nullopt);

/// Chooses the folder for the files of tables that are spilled from now on; empty: none. Tables in files of
/// another folder stay there.
/// @throws error io unless it is a folder.
void set_spill_folder(const std::shared_ptr<context>& ctx, const std::filesystem::path& folder);
/// Empty if none was chosen.
[[nodiscard]] std::filesystem::path spill_folder_of(const std::shared_ptr<context>& ctx);

/// What a refusal of memory should add: unused handles keep memory of the device because no folder was chosen
/// for their files, and what to do. Empty otherwise.
[[nodiscard]] std::string spill_hint(const std::shared_ptr<context>& ctx);

/// Moves tables that nobody uses off the device, in the order in which a request without room moves them,
/// until at least `bytes` have moved or none is left. Only tables charged to the budget of `ctx`, or to a
/// budget below it, move. Returns the number of bytes that moved.
std::uint64_t spill_unused(const std::shared_ptr<context>& ctx, std::uint64_t bytes);

struct spill_tier_statistics {
  std::uint64_t handles = 0;
  std::uint64_t bytes = 0; ///< of their bodies
  /// Bytes charged to the tier, bodies in transit included; for the device, to its whole budget.
  std::uint64_t charged = 0;
  std::uint64_t limit = spill_options::unlimited;
  std::uint64_t spills = 0;        ///< bodies that came from the device since the context was made
  std::uint64_t spilled_bytes = 0; ///< bytes of these bodies
  std::uint64_t demotions = 0;     ///< bodies that came from a faster tier
  std::uint64_t demoted_bytes = 0;
  std::uint64_t returns = 0; ///< bodies that went back to the device
  std::uint64_t returned_bytes = 0;
};

struct spill_statistics {
  std::array<spill_tier_statistics, spill_tiers_count> tiers; ///< by the number of the tier
  std::uint64_t refusals_avoided = 0; ///< requests that found room because tables were moved
  std::uint64_t failures = 0;         ///< moves that failed
};

/// Returns a consistent snapshot of the handles of a context's device.
[[nodiscard]] spill_statistics read_spill_statistics(const std::shared_ptr<context>& ctx);

} // namespace saeta
