// What the contexts of one device share. Private to memory/.
#pragma once

#include "saeta/memory/context.hpp"
#include "saeta/resource/driver/driver_resources.hpp"

#include <mutex>
#include <vector>

namespace saeta {

struct context_core : std::enable_shared_from_this<context_core> {
  context_core(std::shared_ptr<backend> of, context_options chosen);

  /// As context::make_visible_to.
  bool make_visible_to(backend& user);
  /// A point after all work of each device where the memory is visible; nothing while a known capture is active on one.
  std::optional<point_set> mark_devices();
  /// Writes an event of the whole device to the log, unless its amount is 0.
  void log_if_any(memory_event kind, std::size_t amount);
  [[nodiscard]] bool on_host() const noexcept { return device->device().kind == device_kind::cpu; }
  /// As the step of pressure that trims.
  std::size_t make_room(const shortage& need);
  std::size_t trim();
  std::size_t drain();
  /// Gives a block back whose reuse is ordered after the points, which may be resolved for it. False when that can't be
  /// done now.
  bool free_in_order(resource& to, const block& freed, requirement& after) noexcept;
  /// @throws error device in a child of fork.
  void require_own_process() const;

  // Destroyed from the last to the first: the stack gives memory back while streams and events are still there.
  context_options options;
  std::shared_ptr<backend> device;
  std::shared_ptr<timelines> clocks;
  std::shared_ptr<event_log> log = std::make_shared<event_log>();
  std::shared_ptr<memory_sink> recorder; ///< null unless the options ask for it
  std::shared_ptr<budget> root_budget;
  std::shared_ptr<budget> pinned_budget;
  std::shared_ptr<ledger> holders =
      std::make_shared<ledger>(); ///< what is charged on the host may outlive the core
  device_copies copies{*this};
  own_stream work_stream;
  std::mutex visible_mutex;
  std::vector<std::shared_ptr<timelines>>
      visible_on; ///< clocks of the devices that can touch the memory; ours first
  std::shared_ptr<pinned_resource> pinned_pool;
  std::shared_ptr<budget_resource> pinned; ///< on top of the pool
  std::unique_ptr<reaper> releases;
  std::unique_ptr<pressure> relief;
  std::unique_ptr<pressure>
      pinned_relief; ///< without the hooks, which free memory of the device; null on the host
  resource_stack memory;
  stream_pool streams{clocks, options.max_streams};
  service_registry services;
  const std::uint64_t made_in = fork_generation();
};

struct context::memory_source {
  resource* from;
  budget* charged;
  reservation* drawn_from; ///< null: nothing was promised
};

} // namespace saeta
