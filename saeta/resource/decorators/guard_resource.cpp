#include "saeta/resource/decorators/guard_resource.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/resource/decorators/guard_state.hpp"

#include <algorithm>

namespace saeta {

guard_resource::guard_resource(std::shared_ptr<resource> upstream, const std::shared_ptr<backend>& device,
                               guard_options options)
    : decorator(std::move(upstream)),
      state_(std::make_unique<guard_state>(required(device, "device"), options)) {}

guard_resource::~guard_resource() {
  state_->shrink(0, upstream());
  if (!state_->quarantine.empty()) {
    report("guard_resource", "blocks in quarantine could not be freed");
  }
}

block guard_resource::do_allocate(const allocation_request& request, const stream_ref& stream) {
  if (request.bytes == 0) {
    return upstream().allocate(request, stream);
  }
  const std::size_t alignment = std::max(request.alignment, state_->own_alignment);
  const std::size_t front = round_up(guard_canary, alignment);
  allocation_request around = request;
  around.bytes =
      checked_add(checked_add(front, request.bytes, "guarded block"), guard_canary, "guarded block");

  guarded result;
  try {
    result.inner = upstream().allocate(around, stream);
  } catch (const error& failure) {
    if (failure.code() != errc::out_of_memory) {
      throw;
    }
    state_->shrink(0, upstream());
    result.inner = upstream().allocate(around, stream);
  }
  result.begin = reinterpret_cast<std::uintptr_t>(result.inner.pointer);
  result.outer = result.inner;
  result.outer.pointer = static_cast<std::uint8_t*>(result.inner.pointer) + front;
  result.outer.bytes = request.bytes;
  result.outer.order = release_order::in_stream_order; // the guard itself waits before it frees upstream
  try {
    state_->paint(result, stream);
    result.outer.ready = mark(stream);
    state_->remember(result); // after its canaries are queued: `check` reads all remembered blocks
  } catch (...) {
    state_->abandon(result, stream, upstream());
    throw;
  }
  return result.outer;
}

bool guard_resource::do_deallocate(const block& freed, std::span<const point> after) noexcept {
  if (freed.bytes == 0) {
    return upstream().deallocate(freed, after);
  }
  try {
    return state_->take_back(freed, after, upstream());
  } catch (...) {
    report_current_exception("guard_resource");
    return false;
  }
}

std::size_t guard_resource::empty_quarantine() {
  const std::size_t before = state_->bytes_in_quarantine();
  state_->shrink(0, upstream());
  return before - std::min(before, state_->bytes_in_quarantine());
}

std::size_t guard_resource::trim() {
  const std::uint64_t before = upstream().held_bytes();
  state_->shrink(0, upstream());
  const std::size_t trimmed = upstream().trim();
  // A direct resource returned the quarantined blocks to the device at once: compare the held bytes, too.
  const std::uint64_t after = upstream().held_bytes();
  return std::max<std::size_t>(trimmed, before - std::min(before, after));
}

std::size_t guard_resource::check() {
  state_->check_all();
  const std::lock_guard lock(state_->findings_mutex);
  return state_->findings.size();
}

std::vector<guard_finding> guard_resource::findings() const {
  const std::lock_guard lock(state_->findings_mutex);
  return state_->findings;
}

} // namespace saeta
