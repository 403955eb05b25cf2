#include "saeta/memory/context_core.hpp"

#include "saeta/base/pages.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"

#include <algorithm>

namespace saeta {

namespace {

std::shared_ptr<budget> root_of(const context_options& options, device_id device) {
  return options.root_budget ? options.root_budget : budget::create(to_string(device), options.budget);
}

/// Page-locked memory belongs to the host's budget, whichever device it serves.
std::shared_ptr<budget> pinned_of(const context_options& options, device_id device,
                                  const std::shared_ptr<budget>& root) {
  if (device.kind == device_kind::cpu) {
    return root;
  }
  return options.pinned_budget ? options.pinned_budget
                               : budget::create(concat("page-locked for ", to_string(device)));
}

} // namespace

context_core::context_core(std::shared_ptr<backend> of, context_options chosen)
    : options(std::move(chosen)), device(std::move(of)), clocks(timelines::of(*device)),
      root_budget(root_of(options, device->device())),
      pinned_budget(pinned_of(options, device->device(), root_budget)),
      work_stream(clocks), visible_on{clocks},
      pinned_pool(std::make_shared<pinned_resource>(device, pinned_budget)),
      pinned(std::make_shared<budget_resource>(
          pinned_pool, pinned_budget,
          [this](shortage& need) { return (pinned_relief ? pinned_relief : relief)->relieve(need); })),
      releases(std::make_unique<reaper>([this] { return mark_devices(); }, options.releases)),
      relief(std::make_unique<pressure>(options.pressure, *releases, *log, device->device(),
                                        [this](const shortage& need) { return make_room(need); })) {
  if (!on_host()) {
    pinned_relief = std::make_unique<pressure>(
        options.pressure, *releases, *log, device->device(), [this](const shortage& need) {
          return need.full == nullptr ? pinned_pool->trim() + services.trim() : 0;
        });
  }
  if (!options.host_cache) {
    options.host_cache = machine_bytes() / 8;
  }
  if (!options.spill.pinned) {
    options.spill.pinned = machine_bytes() / 8;
  }
  stack_parts parts;
  parts.device = device;
  parts.limit = root_budget;
  parts.log = log;
  if (options.recorded != 0) {
    recorder = std::make_shared<memory_sink>(options.recorded);
    log->attach(recorder);
  }
  parts.make_room = [this](shortage& need) { return relief->relieve(need); };
  memory = build_stack(options.memory, parts);
}

resource& context_core::shareable_resource() {
  const std::lock_guard lock(visible_mutex);
  if (device->pool_exportable()) {
    return *memory.top;
  }
  if (shareable == nullptr) {
    auto made = std::make_unique<shareable_memory>();
    made->device = device->another();
    stack_options chosen;
    chosen.base = resource_kind::async; // a process that opens an allocation maps the whole of it
    chosen.pool_threshold = 0;
    chosen.exportable_pool = true;
    made->memory = build_stack(
        chosen,
        {.device = made->device, .limit = root_budget, .log = log, .make_room = [this](shortage& need) {
           return relief->relieve(need);
         }});
    for (const auto& known : visible_on) {
      if (&known->device() != device.get()) {
        known->device().enable_peer_access(*made->device);
      }
    }
    shareable = std::move(made);
  }
  return *shareable->memory.top;
}

backend& context_core::device_of(const resource* from) {
  const std::lock_guard lock(visible_mutex);
  return shareable != nullptr && from == shareable->memory.top.get() ? *shareable->device : *device;
}

reservation context_core::reserve(const std::shared_ptr<budget>& from, std::uint64_t bytes,
                                  overbooking policy) {
  if (policy == overbooking::refuse) {
    std::optional<reservation> result;
    const auto attempt = [&](budget::time_point deadline) {
      result = reservation::make_by(from, bytes, deadline);
      return result.has_value();
    };
    constexpr budget::time_point now{};
    shortage missing(bytes, from.get());
    missing.wait_in_line = attempt;
    if (attempt(now) || budget_resource::obtain(
                            missing, [this](shortage& need) { return relief->relieve(need); },
                            [&] { return attempt(now); })) {
      return std::move(*result);
    }
  }
  return reservation::make(from, bytes, policy); // throws the numbers of the moment
}

bool context_core::make_visible_to(backend& user) {
  if (&user == device.get()) {
    return true;
  }
  const bool gpus = user.device().kind != device_kind::cpu && device->device().kind != device_kind::cpu;
  if (!gpus) {
    return false;
  }
  const std::lock_guard lock(visible_mutex);
  const auto known = [&](const auto& each) { return &each->device() == &user; };
  if (std::none_of(visible_on.begin(), visible_on.end(), known)) {
    visible_on.reserve(visible_on.size() + 1);
    auto there = timelines::of(user);
    user.enable_peer_access(*device);
    if (shareable != nullptr) {
      user.enable_peer_access(*shareable->device);
    }
    visible_on.push_back(std::move(there));
  }
  return true;
}

std::optional<point_set> context_core::mark_devices() {
  const std::lock_guard lock(visible_mutex);
  point_set all;
  for (const auto& known : visible_on) {
    const std::optional<point> everything = known->mark_device();
    if (!everything) {
      return std::nullopt;
    }
    all.add(*everything);
  }
  return all;
}

void context_core::log_if_any(memory_event kind, std::size_t amount) {
  if (amount != 0 && log->active()) {
    log_record seen;
    seen.event = kind;
    seen.device = device->device();
    seen.bytes = amount;
    seen.outcome = "ok";
    log->write(std::move(seen));
  }
}

std::size_t context_core::make_room(const shortage& need) {
  if (need.full == nullptr) {
    return memory.top->trim() + pinned->trim();
  }
  const std::size_t freed = memory.guard ? memory.guard->empty_quarantine() : 0;
  log_if_any(memory_event::trim, freed);
  return freed;
}

std::size_t context_core::trim() {
  drain();
  const std::uint64_t on_the_host = services.trim();
  return memory.top->trim() + pinned->trim() + on_the_host;
}

std::size_t context_core::drain() {
  const std::size_t done = releases->drain();
  log_if_any(memory_event::drain, done);
  return done;
}

void context_core::require_own_process() const {
  if (made_in != fork_generation()) {
    throw error(errc::device,
                on_host()
                    ? std::string("this context belongs to the parent of this forked process: open one in "
                                  "this process (open_context, saeta.context)")
                    : concat("CUDA can't be used in a forked process: ", to_string(device->device()),
                             " was opened by its parent; start the process with spawn instead of fork"));
  }
}

} // namespace saeta
