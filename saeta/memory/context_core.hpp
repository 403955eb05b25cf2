// The part that the contexts of one device share. Private to memory/.
#pragma once

#include "saeta/memory/context.hpp"
#include "saeta/resource/driver/driver_resources.hpp"

#include <mutex>
#include <vector>

namespace saeta {

struct SAETA_LOCAL context_core : std::enable_shared_from_this<context_core> {
  context_core(std::shared_ptr<backend> of, context_options chosen);

  /// As context::make_visible_to.
  bool make_visible_to(backend& user);
  /// A point after all work of each device that can access the memory; nullopt while a known capture is
  /// active on one of them.
  std::optional<point_set> mark_devices();
  /// Logs an event of the whole device, unless `amount` is 0.
  void log_if_any(memory_event kind, std::size_t amount);
  [[nodiscard]] bool on_host() const noexcept { return device->device().kind == device_kind::cpu; }
  /// The trim step of `pressure`.
  std::size_t make_room(const shortage& need);
  std::size_t trim();
  std::size_t drain();
  /// Promises bytes, after making room and waiting as a request for memory does, unless they are overbooked.
  reservation reserve(const std::shared_ptr<budget>& from, std::uint64_t bytes, overbooking policy);
  /// Frees a block in stream order after the points; unknown work is resolved to points first. Returns false
  /// if that can't be done now.
  bool free_in_order(resource& to, const block& freed, requirement& after) noexcept;
  /// Memory that other processes can open: that of the stack, or else of a pool of its own.
  /// @throws error unsupported if the device has no such pools.
  [[nodiscard]] resource& shareable_resource();
  /// The device object whose pool a resource of the core allocates from.
  [[nodiscard]] backend& device_of(const resource* from);
  /// @throws error device in a child of fork.
  void require_own_process() const;

  // Destroyed in reverse order: the stack frees memory while streams and events still exist.
  context_options options;
  std::shared_ptr<backend> device;
  std::shared_ptr<timelines> clocks;
  std::shared_ptr<event_log> log = std::make_shared<event_log>();
  std::shared_ptr<memory_sink> recorder; ///< null unless requested by the options
  std::shared_ptr<budget> root_budget;
  std::shared_ptr<budget> pinned_budget;
  /// Shared, because charges of host memory may outlive the core.
  std::shared_ptr<ledger> holders = std::make_shared<ledger>();
  device_copies copies{*this};
  own_stream work_stream;
  std::mutex visible_mutex;
  /// Clocks of the devices that can access the memory; our own is first.
  std::vector<std::shared_ptr<timelines>> visible_on;
  std::shared_ptr<pinned_resource> pinned_pool;
  std::shared_ptr<budget_resource> pinned; ///< on top of `pinned_pool`
  std::unique_ptr<reaper> releases;
  std::unique_ptr<pressure> relief;
  std::unique_ptr<pressure> pinned_relief; ///< without hooks, which free device memory; null on the host
  resource_stack memory;
  /// Memory of a pool that other processes open, beside `memory` whose pool they can't. Made on first use.
  struct shareable_memory {
    std::shared_ptr<backend> device; ///< another device object, with the pool
    resource_stack memory;
  };
  std::unique_ptr<shareable_memory> shareable; ///< guarded by `visible_mutex`; once made it stays
  stream_pool streams{clocks, options.max_streams};
  service_registry services;
  const std::uint64_t made_in = fork_generation();
};

struct SAETA_LOCAL context::memory_source {
  resource* from;
  budget* charged;
  reservation* drawn_from; ///< null: no reservation
};

} // namespace saeta
