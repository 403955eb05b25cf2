#include "costs/groups.hpp"
#include "costs/null_resource.hpp"
#include "saeta/base/text.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "saeta/resource/decorators/logging_resource.hpp"
#include "saeta/resource/driver/driver_resources.hpp"

#include <functional>

namespace saeta::bench {
namespace {

struct decoration {
  std::string name;
  std::function<std::shared_ptr<resource>(std::shared_ptr<resource> upstream)> over;
};

/// A quarantine that is full after a few batches, so that the steady state is measured, in which each free
/// also evicts a block.
guard_options small_quarantine() {
  guard_options options;
  options.quarantine = std::size_t{2} << 20;
  return options;
}

std::vector<decoration> decorations(const std::shared_ptr<backend>& device) {
  const auto logging = [](const std::shared_ptr<log_sink>& sink) {
    return [sink](std::shared_ptr<resource> upstream) -> std::shared_ptr<resource> {
      auto log = std::make_shared<event_log>();
      if (sink) {
        log->attach(sink);
      }
      return std::make_shared<logging_resource>(std::move(upstream), std::move(log));
    };
  };
  return {
      {"none", [](std::shared_ptr<resource> upstream) { return upstream; }},
      {"logging, nobody listens", logging(nullptr)},
      {"logging to memory", logging(std::make_shared<memory_sink>(std::size_t{1} << 16))},
      {"statistics",
       [](std::shared_ptr<resource> upstream) {
         return std::make_shared<statistics_resource>(std::move(upstream));
       }},
      {"budget",
       [](std::shared_ptr<resource> upstream) {
         return std::make_shared<budget_resource>(std::move(upstream),
                                                  budget::create("bench", std::uint64_t{2} << 30));
       }},
      {"guard",
       [device](std::shared_ptr<resource> upstream) {
         return std::make_shared<guard_resource>(std::move(upstream), device, small_quarantine());
       }},
      {"fault, never",
       [](std::shared_ptr<resource> upstream) {
         return std::make_shared<fault_resource>(std::move(upstream));
       }},
  };
}

} // namespace

void measure_decorators(cost_recorder& into, const std::shared_ptr<context>& ctx) {
  const auto& device = ctx->device_backend();
  const stream_lease on = ctx->borrow_stream();
  const stream_ref stream = on.ref();
  for (const bool cached : {false, true}) {
    for (const decoration& each : decorations(device)) {
      std::shared_ptr<resource> base = std::make_shared<null_resource>(device);
      if (cached) {
        base = std::make_shared<caching_resource>(std::make_shared<async_resource>(device), device);
      }
      const std::shared_ptr<resource> memory = each.over(std::move(base));
      into.measure(
          cached ? "decorator over the cache" : "decorator over nothing", each.name,
          [&] { ctx->synchronize(stream); },
          [&](std::size_t) {
            const block made = memory->allocate(4096, 0, stream);
            if (!memory->deallocate(made, stream)) {
              throw error(errc::device, concat(each.name, ": a block could not be freed"));
            }
          });
    }
  }
}

} // namespace saeta::bench
