#include "fuzz/harness.hpp"

#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"
#include "support/ring_options.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

namespace saeta::fuzz {

void require(bool holds, std::string_view promise) {
  if (!holds) {
    std::fprintf(stderr, "broken: %.*s\n", static_cast<int>(promise.size()), promise.data());
    std::abort();
  }
}

void require_input_error(const error& failure) {
  switch (failure.code()) {
  case errc::format:
  case errc::unsupported:
  case errc::overflow:
  case errc::exchange:
  case errc::closed:
    return;
  default:
    require(false, concat("bad input raised an error with an unexpected code: ", failure.what()));
  }
}

void require_input_or_memory_error(const error& failure) {
  if (failure.code() != errc::budget_exceeded && failure.code() != errc::out_of_memory) {
    require_input_error(failure);
  }
}

namespace {

/// Options without background threads, and with a staging ring of 4 KiB, about as large as the arrays.
context_options small_options() {
  return {.staging = support::small_ring(1, 1 << 12), .releases = release_thread::none};
}

} // namespace

std::shared_ptr<context> host_context() {
  static const std::shared_ptr<context> made = context::create(make_host_backend(), small_options());
  return made;
}

const simulation& simulated_device() {
  constexpr unsigned inputs = 100; // inputs before the device is replaced
  static simulation current;
  static unsigned used = 0;
  if (used++ % inputs == 0) {
    current.ctx.reset();
    current.device = sim::device::create({.seed = 1, .total_bytes = std::uint64_t{64} << 20});
    current.ctx = context::create(current.device, small_options());
  }
  return current;
}

void require_clean(const simulation& used) {
  settle(*used.ctx);
  require(used.ctx->reports().statistics().ledger.buffers == 0,
          "a buffer of the simulated device was not freed");
  const auto races = used.device->races();
  require(races.empty(), races.empty() ? "" : races.front().text);
}

buffer bytes_in(const std::shared_ptr<context>& ctx, std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    return {};
  }
  const stream_ref work = ctx->work_stream();
  const buffer made = buffer::allocate(ctx, bytes.size(), work);
  use_token token(work, {writes(made)});
  ctx->copies().copy(token.span<std::byte>(made).data(), bytes.data(), bytes.size(),
                     ctx->on_host() ? copy_kind::host_to_host : copy_kind::host_to_device, work);
  ctx->synchronize(work);
  token.finish();
  return made;
}

bool has_few_rows(const table& read) {
  return std::ranges::all_of(read.batches(), [](const batch& part) { return part.rows < many_rows; });
}

void settle(context& ctx) {
  require(ctx.wait_for_releases(std::chrono::seconds(20)), "a release is pending for ever");
}

namespace {

data_type list_of(const char* format, const data_type& values) {
  return data_type::nested(format, {{"item", values, true, {}}});
}

std::vector<field> draw_fields(input& from, int levels) {
  std::vector<field> fields;
  const auto count = from.ConsumeIntegralInRange<std::size_t>(0, 3);
  for (std::size_t i = 0; i < count; ++i) {
    fields.push_back({concat("c", i), draw_type(from, levels), from.ConsumeBool(), {}});
  }
  return fields;
}

data_type draw_union(input& from, int levels) {
  const std::vector<field> fields = draw_fields(from, levels);
  std::string format = from.ConsumeBool() ? "+ud:" : "+us:";
  for (std::size_t i = 0; i < fields.size(); ++i) {
    format += concat(i == 0 ? "" : ",", 3 * i);
  }
  // A union without children can't have rows.
  return fields.empty() ? data_type() : data_type::nested(format, fields);
}

} // namespace

data_type draw_type(input& from, int levels) {
  const auto& simple = support::carried_types();
  const auto what = from.ConsumeIntegral<std::uint8_t>();
  if (levels == 0 || what < 128) {
    return simple[what % simple.size()];
  }
  switch (what % 8) {
  case 0:
    return list_of(from.PickValueInArray({"+l", "+L", "+vl", "+vL", "+w:0", "+w:1", "+w:3"}),
                   draw_type(from, levels - 1));
  case 1:
    return data_type::nested("+s", draw_fields(from, levels - 1));
  case 2: {
    const data_type key = draw_type(from, 0);
    const data_type entries =
        data_type::nested("+s", {{"key", key, false, {}}, {"value", draw_type(from, levels - 1), true, {}}});
    return data_type::nested("+m", {{"entries", entries, false, {}}});
  }
  case 3:
    return draw_union(from, levels - 1);
  case 4:
    return data_type::nested(
        "+r", {{"run_ends", data_type::parse(from.PickValueInArray({"s", "i", "l"})), false, {}},
               {"values", draw_type(from, levels - 1), true, {}}});
  case 5:
    return draw_type(from, levels - 1).with_extension("test.any", "{}");
  default:
    return data_type::dictionary(
        data_type::parse(from.PickValueInArray({"c", "C", "s", "S", "i", "I", "l", "L"})),
        draw_type(from, levels - 1), from.ConsumeBool());
  }
}

support::shared_array draw_array(input& from, const data_type& type) {
  support::array_shape shape;
  shape.length = from.ConsumeIntegralInRange<std::int64_t>(0, 40);
  shape.offset = from.ConsumeIntegralInRange<std::int64_t>(0, 17);
  shape.pattern = from.PickValueInArray(
      {support::nulls::absent, support::nulls::none, support::nulls::some, support::nulls::all});
  shape.count_known = from.ConsumeBool();
  return support::random_array(type, shape, from.ConsumeIntegral<std::uint16_t>());
}

std::int64_t draw_number(input& from) {
  using limits = std::numeric_limits<std::int64_t>;
  constexpr std::array<std::int64_t, 12> edges{0,
                                               1,
                                               -1,
                                               -2,
                                               limits::min(),
                                               limits::max(),
                                               limits::max() - 1,
                                               1LL << 31,
                                               1LL << 32,
                                               -(1LL << 31),
                                               (1LL << 31) - 1,
                                               1LL << 62};
  return from.ConsumeBool() ? from.PickValueInArray(edges)
                            : from.ConsumeIntegralInRange<std::int64_t>(-3, 70);
}

} // namespace saeta::fuzz
