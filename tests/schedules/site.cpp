#include "schedules/site.hpp"

#include "saeta/memory/buffer.hpp"
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
  chosen.pressure.release_wait = std::chrono::milliseconds(0); // no wait for captures of this thread
  constexpr std::array bases{resource_kind::caching, resource_kind::caching, resource_kind::async,
                             resource_kind::direct};
  chosen.spill.pageable = 0; // only copies to page-locked memory are asynchronous
  chosen.memory.base = bases.at(choice.below(bases.size()));
  chosen.memory.caching.slab = 64U << 10U;
  chosen.memory.caching.largest_small = 16U << 10U;
  chosen.memory.caching.largest_cached = 64U << 10U;
  chosen.memory.caching.wait_above = choice.below(2) << 16U;
  made.ctx = context::create(made.device, std::move(chosen));
  constexpr std::size_t tables = 40;
  std::vector<buffer> pinned;
  for (std::size_t i = 0; i < tables; ++i) {
    pinned.push_back(
        buffer::allocate(made.ctx, table_bytes, made.ctx->work_stream(), "pinned", 0, memory_kind::pinned));
  }
  // More streams than an ordering state tracks readers separately.
  for (std::size_t i = 0; i < ordering_state::max_reads + 2; ++i) {
    made.leases.push_back(made.ctx->borrow_stream());
  }
  for (int i = 0; i < 3; ++i) {
    made.foreign.push_back(i == 0 ? made.device->create_blocking_stream() : made.device->create_stream());
  }
  return made;
}

void set_fail_percent(std::vector<site>& sites, unsigned percent) {
  for (site& each : sites) {
    each.device->set_fail_percent(percent);
    each.fail_percent = percent;
  }
}

std::shared_ptr<std::uint8_t> make_landing(const site& of, std::size_t bytes) {
  auto* const memory = static_cast<std::uint8_t*>(of.device->allocate_pinned(bytes));
  return {memory, [device = of.device, bytes](std::uint8_t* gone) {
            static_cast<void>(device->deallocate_pinned(gone, bytes));
          }};
}

} // namespace saeta::schedules
