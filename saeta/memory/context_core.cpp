#include "saeta/memory/detail/context_core.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

namespace saeta {

context_core::context_core(std::shared_ptr<backend> of, context_options chosen)
    : options(std::move(chosen)), device(std::move(of)), events(std::make_shared<event_pool>(device)),
      root_budget(budget::create(to_string(device->device()), options.budget)), work_stream(device),
      release_stream(device), pinned(std::make_shared<pinned_resource>(device)),
      releases(std::make_unique<reaper>(events, options.releases)),
      relief(std::make_unique<pressure>(options.pressure, *releases, *log, device->device(),
                                        [this] { return memory.top->trim() + pinned->trim(); })) {
  stack_parts parts;
  parts.device = device;
  parts.events = events;
  parts.limit = root_budget;
  parts.log = log;
  parts.make_room = [this](shortage& what) { return relief->relieve(what); };
  parts.fence_over = [this](std::uint64_t id) { return fence_over(id); };
  memory = build_stack(options.memory, parts);
}

std::optional<fence> context_core::fence_over(std::uint64_t stream_id) {
  for (const stream* own : {&work_stream, &release_stream}) {
    if (own->ref().id() == stream_id) {
      return events->record(own->ref());
    }
  }
  return events->record_context();
}

std::size_t context_core::trim() {
  drain();
  return memory.top->trim() + pinned->trim();
}

std::size_t context_core::drain() {
  const std::size_t done = releases->drain();
  if (done != 0 && log->active()) {
    log_record seen;
    seen.what = memory_event::drain;
    seen.device = device->device();
    seen.bytes = done;
    seen.outcome = "ok";
    log->write(std::move(seen));
  }
  return done;
}

void context_core::free_now(const block& freed, stream_ref stream) noexcept {
  if (!memory.top->deallocate(freed, stream)) {
    report("context", concat("the driver refused to free ", freed.bytes, " bytes; they stay charged"));
  }
}

traffic_counter& context_core::counter_of(copy_kind kind) noexcept {
  switch (kind) {
  case copy_kind::host_to_device:
    return counted.host_to_device;
  case copy_kind::device_to_host:
    return counted.device_to_host;
  case copy_kind::device_to_device:
    return counted.device_to_device;
  case copy_kind::host_to_host:
    break;
  }
  return counted.host_to_host;
}

} // namespace saeta
