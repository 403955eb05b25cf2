#include "schedules/site.hpp"

#include "saeta/order/ordering.hpp"

#include <array>
#include <chrono>

namespace saeta::schedules {

site make_site(std::uint64_t seed, std::int32_t ordinal, const std::shared_ptr<sim::device>& beside,
               std::uint64_t budget, draw& choice) {
  sim::options device;
  device.seed = seed;
  device.total_bytes = 8U << 20U;
  device.ordinal = ordinal;
  device.beside = beside;
  site made;
  made.device = sim::device::create(device);
  made.before = made.device->live();
  context_options chosen;
  chosen.budget = budget;
  chosen.releases = release_thread::none;
  chosen.pressure.release_wait = std::chrono::milliseconds(0); // a capture by this thread would be waited for
  constexpr std::array bases{resource_kind::caching, resource_kind::caching, resource_kind::async,
                             resource_kind::direct};
  chosen.memory.base = bases.at(choice.below(bases.size()));
  chosen.memory.caching.slab = 64U << 10U;
  chosen.memory.caching.largest_small = 16U << 10U;
  chosen.memory.caching.largest_cached = 64U << 10U;
  made.ctx = context::create(made.device, std::move(chosen));
  // More streams than a buffer remembers readers apart.
  for (std::size_t i = 0; i < ordering_state::max_reads + 2; ++i) {
    made.leases.push_back(made.ctx->borrow_stream());
  }
  for (int i = 0; i < 3; ++i) {
    made.foreign.push_back(i == 0 ? made.device->create_blocking_stream() : made.device->create_stream());
  }
  return made;
}

} // namespace saeta::schedules
