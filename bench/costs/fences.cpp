#include "costs/groups.hpp"
#include "costs/load.hpp"
#include "saeta/base/text.hpp"

namespace saeta::bench {
namespace {

constexpr std::size_t merged = 8;

void measure_under(cost_recorder& into, const std::shared_ptr<context>& where, load what) {
  event_pool& events = where->events();
  const stream_lease recorded = where->borrow_stream();
  const stream_lease waiting = where->borrow_stream();
  std::vector<stream_lease> others;
  for (std::size_t i = 0; i < merged; ++i) {
    others.push_back(where->borrow_stream());
  }
  stream_load work(where, recorded.ref(), what);
  const auto prepare = [&] { work.renew(); };
  const auto named = [&](std::string_view operation) { return concat(operation, ", ", to_string(what)); };

  into.measure("fence", named("record"), prepare,
               [&](std::size_t) { static_cast<void>(events.record(recorded.ref())); });

  fence done;
  const auto prepare_fence = [&] {
    work.renew();
    done = events.record(recorded.ref());
  };
  into.measure("fence", named("wait on another stream"), prepare_fence,
               [&](std::size_t) { done.wait(waiting.ref()); });
  into.measure("fence", named("ask"), prepare_fence,
               [&](std::size_t) { static_cast<void>(done.complete()); });

  std::vector<fence> parts;
  const auto prepare_parts = [&] {
    prepare_fence();
    parts.clear();
    for (const stream_lease& each : others) {
      done.wait(each.ref());
      parts.push_back(events.record(each.ref()));
    }
  };
  into.measure("fence", named(concat("merge ", merged)), prepare_parts, [&](std::size_t) {
    for (const fence& each : parts) {
      each.wait(waiting.ref());
    }
    static_cast<void>(events.record(waiting.ref()));
  });
  into.measure("fence", named("all work of the context"), prepare,
               [&](std::size_t) { static_cast<void>(events.record_context()); });
}

} // namespace

void measure_fences(cost_recorder& into, const std::shared_ptr<context>& where) {
  for (const load what : loads_of(*where)) {
    measure_under(into, where, what);
  }
}

} // namespace saeta::bench
