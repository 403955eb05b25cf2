#include "costs/groups.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"

#include <array>

namespace saeta::bench {
namespace {

std::vector<buffer> make_buffers(const std::shared_ptr<context>& ctx, std::size_t count, stream_ref stream) {
  std::vector<buffer> made;
  for (std::size_t i = 0; i < count; ++i) {
    made.push_back(buffer::allocate(ctx, 4096, stream, "bench"));
  }
  return made;
}

std::vector<use> uses_of(const std::vector<buffer>& buffers, access mode) {
  std::vector<use> made;
  for (const buffer& each : buffers) {
    made.push_back({each, mode});
  }
  return made;
}

} // namespace

void measure_tokens(cost_recorder& into, const std::shared_ptr<context>& ctx) {
  const stream_lease first = ctx->borrow_stream();
  const stream_lease second = ctx->borrow_stream();
  for (const std::size_t count : {std::size_t{1}, std::size_t{4}, std::size_t{16}}) {
    const std::vector<buffer> buffers = make_buffers(ctx, count, first.ref());
    const std::vector<use> reading = uses_of(buffers, access::read);
    const std::vector<use> writing = uses_of(buffers, access::write);
    const auto prepare = [&] {
      use_token(first.ref(), writing).finish();
      ctx->synchronize(second.ref());
    };
    const auto measure = [&](std::string_view part, const std::vector<use>& uses,
                             const std::array<stream_ref, 2>& streams) {
      into.measure("use token", concat(part, ", ", count, count == 1 ? " buffer" : " buffers"), prepare,
                   [&](std::size_t i) { use_token(streams[i % 2], uses).finish(); });
    };
    measure("read, same stream", reading, {first.ref(), first.ref()});
    measure("read, other stream", reading, {second.ref(), second.ref()});
    measure("write, same stream", writing, {first.ref(), first.ref()});
    measure("write, streams in turn", writing, {second.ref(), first.ref()});
  }
}

} // namespace saeta::bench
