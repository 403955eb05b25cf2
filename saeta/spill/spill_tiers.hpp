// The tiers of a device: their budgets, and which of them takes a body. Private to spill/.
//
// What      Page-locked memory is taken first where the pool has unused blocks. Page-locking is slow, so a
//           body that finds none goes to the next tier, and a thread page-locks as much for later ones. Only
//           a body that no other tier takes waits for page-locking.
// Owner     The spill store of the device. The thread ends with it.
// Thread    Any. Bodies for files go one after the other, because they share a window.
#pragma once

#include "saeta/executor/background_thread.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/spill/spilled_body.hpp"
#include "saeta/staging/host_pool.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

namespace saeta {

inline constexpr std::string_view no_spill_folder =
    "no folder was chosen for the files of spilled tables: set Context.spill_dir, pass spill_dir= to "
    "saeta.context, or set SAETA_SPILL_DIR before the context is opened";

class spill_tiers {
public:
  /// @param root  owns the store
  explicit spill_tiers(context& root);
  spill_tiers(const spill_tiers&) = delete;
  spill_tiers& operator=(const spill_tiers&) = delete;

  /// Copies a body to a tier.
  /// @param only  this tier; nullopt: the first one that takes it
  /// @throws error of the last tier that was tried; unsupported if there is none.
  [[nodiscard]] spilled_pointer take(const std::shared_ptr<context>& ctx, const buffer& body,
                                     std::optional<spill_tier> only);
  /// The first tier after `from` that has room for a body now.
  [[nodiscard]] std::optional<spill_tier> slower_with_room(spill_tier from, std::uint64_t bytes) const;
  /// Copies a body in host memory to a slower tier.
  [[nodiscard]] spilled_pointer move_on(const spilled_body& body, spill_tier to);
  /// Reports that the system refuses files, unless it refused the last one for the same reason: with a full
  /// disk every table fails.
  void report_failed_file(const error& why) noexcept;
  /// The limit of a tier and the bytes in it. Null for the device.
  [[nodiscard]] const std::shared_ptr<budget>& limit_of(spill_tier tier) const noexcept {
    return limits_[static_cast<std::size_t>(tier)];
  }

  [[nodiscard]] spill_folder& folder() noexcept { return folder_; }

private:
  [[nodiscard]] spilled_pointer take_into(spill_tier tier, const std::shared_ptr<context>& ctx,
                                          const buffer& body);
  /// With the window's lock held. Called with the first body, before host memory is full.
  void make_window(const std::shared_ptr<context>& ctx);
  [[nodiscard]] bool has_pinned_for(const buffer& body);
  /// Page-locks memory on a thread, unless it is doing so already.
  void grow(std::vector<std::size_t> sizes);
  void page_lock(const std::vector<std::size_t>& sizes) noexcept;

  context& root_;
  spill_folder folder_;
  std::array<std::shared_ptr<budget>, spill_tiers_count> limits_;
  std::mutex window_mutex_;
  std::size_t window_bytes_;
  landing_block window_;         ///< host memory that the bytes of a device pass on their way to a file
  std::atomic<int> reported_{0}; ///< the errno of the last report
  std::atomic<bool> growing_{false};
  background_thread grower_{"saeta-pages"};
};

} // namespace saeta
