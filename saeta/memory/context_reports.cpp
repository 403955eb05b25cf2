#include "saeta/memory/context_reports.hpp"

#include "saeta/memory/context_core.hpp"

#include <algorithm>

namespace saeta {

memory_statistics context_reports::statistics() const {
  of_.require_own_process();
  const context_core& core = *of_.core_;
  memory_statistics now;
  now.budget = of_.budget_->statistics();
  now.ledger = core.holders->totals();
  now.pinned = core.pinned->held_bytes();
  now.host_held = core.services.host_bytes();
  now.held = core.memory.top->held_bytes();
  now.pending_releases = core.releases->pending();
  return now;
}

bytes_by_name context_reports::live_by_tag() const {
  of_.require_own_process();
  return of_.core_->holders->by_tag(of_.base_ ? of_.budget_.get() : nullptr);
}

bytes_by_name context_reports::live_by_budget() const {
  of_.require_own_process();
  return of_.core_->holders->by_budget();
}

std::uint64_t context_reports::foreign_bytes() const {
  if (of_.on_host()) {
    return 0;
  }
  const context_core& core = *of_.core_;
  const device_properties now = core.device->properties();
  const std::uint64_t used = now.total_bytes - now.free_bytes.value_or(now.total_bytes);
  // Memory that the driver's pool keeps for reuse is ours, too; slabs of the cache lie in it.
  const std::uint64_t own = std::max(core.memory.top->held_bytes(), core.device->pool_bytes());
  return used - std::min(used, own);
}

const std::shared_ptr<event_log>& context_reports::log() const noexcept { return of_.core_->log; }
const std::shared_ptr<memory_sink>& context_reports::recorder() const noexcept { return of_.core_->recorder; }

} // namespace saeta
