#include "costs/groups.hpp"
#include "costs/load.hpp"
#include "saeta/base/text.hpp"

namespace saeta::bench {
namespace {

constexpr std::size_t merged = 8;

void measure_under(cost_recorder& into, const std::shared_ptr<context>& ctx, load kind) {
  const stream_lease recorded = ctx->borrow_stream();
  const stream_lease waiting = ctx->borrow_stream();
  const stream foreign(ctx->device_backend());
  std::vector<stream_lease> others;
  for (std::size_t i = 0; i < merged; ++i) {
    others.push_back(ctx->borrow_stream());
  }
  stream_load work(ctx, recorded.ref(), kind);
  const auto prepare = [&] { work.renew(); };
  const auto named = [&](std::string_view operation) { return concat(operation, ", ", to_string(kind)); };

  into.measure("point", named("mark a stream of ours"), prepare,
               [&](std::size_t) { static_cast<void>(mark(recorded.ref())); });
  into.measure("point", named("mark a foreign stream"), prepare,
               [&](std::size_t) { static_cast<void>(mark(foreign.ref())); });
  into.measure("point", named("record"), prepare,
               [&](std::size_t) { static_cast<void>(record(recorded.ref())); });

  point done;
  const auto prepare_point = [&] {
    work.renew();
    done = record(recorded.ref());
  };
  into.measure("point", named("wait on another stream"), prepare_point,
               [&](std::size_t) { wait(waiting.ref(), done); });
  into.measure("point", named("ask"), prepare_point,
               [&](std::size_t) { static_cast<void>(has_passed(done)); });

  point_set parts;
  const auto prepare_parts = [&] {
    prepare_point();
    parts.clear();
    for (const stream_lease& each : others) {
      wait(each.ref(), done);
      parts.add(mark(each.ref()));
    }
  };
  into.measure("point", named(concat("wait for ", merged)), prepare_parts,
               [&](std::size_t) { wait(waiting.ref(), parts); });
  into.measure("point", named("all work of the device"), prepare,
               [&](std::size_t) { static_cast<void>(ctx->clocks()->mark_device()); });
}

} // namespace

void measure_fences(cost_recorder& into, const std::shared_ptr<context>& ctx) {
  for (const load kind : loads_of(*ctx)) {
    measure_under(into, ctx, kind);
  }
}

} // namespace saeta::bench
