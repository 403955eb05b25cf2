#include "saeta/memory/context_parts.hpp"

#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
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

context_service&
service_registry::find_or_make(std::type_index kind,
                               const std::function<std::unique_ptr<context_service>()>& make) {
  const std::lock_guard lock(mutex_);
  auto& kept = services_[kind];
  if (!kept) {
    kept = make();
  }
  return *kept;
}

std::uint64_t service_registry::host_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [kind, service] : services_) {
    sum += service == nullptr ? 0 : service->host_bytes();
  }
  return sum;
}

std::uint64_t service_registry::trim() {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [kind, service] : services_) {
    sum += service == nullptr ? 0 : service->trim();
  }
  return sum;
}

stream_lease stream_pool::borrow(std::shared_ptr<void> keeps) {
  const std::lock_guard lock(mutex_);
  if (lent_ >= most_) {
    throw error(errc::busy, concat("all ", most_, " streams of ", to_string(clocks_->device().device()),
                                   " are borrowed"));
  }
  own_stream lent = [&] {
    if (idle_.empty()) {
      return own_stream(clocks_);
    }
    own_stream reused = std::move(idle_.back());
    idle_.pop_back();
    return reused;
  }();
  ++lent_;
  return {*this, std::move(keeps), std::move(lent)};
}

void stream_pool::take_back(own_stream lent) noexcept {
  const std::lock_guard lock(mutex_);
  --lent_;
  try {
    idle_.push_back(std::move(lent));
  } catch (...) {
    report_current_exception("stream_pool"); // the stream is destroyed; its work still finishes
  }
}

stream_lease::~stream_lease() {
  if (stream_.empty()) {
    return;
  }
  if (made_in_ != fork_generation()) {
    stream_.abandon(); // the stream belongs to the parent process
    return;
  }
  from_->take_back(std::move(stream_));
}

} // namespace saeta
