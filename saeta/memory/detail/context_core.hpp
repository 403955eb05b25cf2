// What the contexts of one device share. Private to memory/context.cpp and memory/context_release.cpp.
#pragma once

#include "saeta/memory/context.hpp"
#include "saeta/resource/driver/driver_resources.hpp"

#include <map>
#include <mutex>
#include <typeindex>
#include <vector>

namespace saeta {

struct context_core {
  context_core(std::shared_ptr<backend> of, context_options chosen);

  /// A fence over the stream of this id where it is one of ours, over all work of the device's context otherwise.
  std::optional<fence> fence_over(std::uint64_t stream_id);
  std::size_t trim();
  std::size_t drain();
  void free_now(const block& freed, stream_ref stream) noexcept;
  traffic_counter& counter_of(copy_kind kind) noexcept;

  // Destroyed from the last to the first: the stack gives memory back while streams and events are still there.
  context_options options;
  std::shared_ptr<backend> device;
  std::shared_ptr<event_pool> events;
  std::shared_ptr<event_log> log = std::make_shared<event_log>();
  std::shared_ptr<budget> root_budget;
  ledger holders;
  counters counted;
  stream work_stream;
  stream release_stream; ///< frees wait here, so that no work of the caller does
  std::shared_ptr<pinned_resource> pinned;
  std::unique_ptr<reaper> releases;
  std::unique_ptr<pressure> relief;
  resource_stack memory;
  std::mutex streams_mutex;
  std::vector<stream> idle_streams;
  std::size_t lent_streams = 0;
  std::atomic<bool> closed{false};
  std::atomic<int> download_bans{0}; ///< strict modes that are on
  std::mutex services_mutex;
  std::map<std::type_index, std::unique_ptr<context_service>> services;
};

} // namespace saeta
