#include "costs/groups.hpp"
#include "costs/load.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/export_hold.hpp"

namespace saeta::bench {

void measure_exports(cost_recorder& into, const std::shared_ptr<context>& ctx) {
  const stream_lease used = ctx->borrow_stream();
  const stream_lease consumer = ctx->borrow_stream();
  for (const load kind : loads_of(*ctx)) {
    stream_load work(ctx, used.ref(), kind);
    for (const std::size_t count : {std::size_t{1}, std::size_t{16}}) {
      std::vector<buffer> buffers;
      for (std::size_t i = 0; i < count; ++i) {
        buffers.push_back(buffer::allocate(ctx, 4096, used.ref(), "bench"));
      }
      const std::string suffix =
          concat(", ", count, count == 1 ? " buffer, " : " buffers, ", to_string(kind));
      const auto prepare = [&] {
        work.renew();
        std::vector<use> written;
        for (const buffer& each : buffers) {
          written.push_back(writes(each));
        }
        use_token(used.ref(), written).finish();
      };
      std::vector<export_hold> lent;
      lent.reserve(operations_in_batch);
      into.measure("export", concat("order a hand-over", suffix), prepare,
                   [&](std::size_t) { order_handover(buffers, consumer.ref()); });
      into.measure_both(
          "export", {concat("lend", suffix), concat("take back", suffix)}, prepare,
          [&](std::size_t) { lent.emplace_back(buffers, access::read); },
          [&](std::size_t) { lent.pop_back(); });
    }
  }
}

} // namespace saeta::bench
