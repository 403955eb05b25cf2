// Use tokens and exports on a simulated device that fails, and checks of access to buffers.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/report.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/use_token.hpp"
#include "support/faulty_backend.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace saeta {
namespace {

/// Writes a buffer on the per-thread default stream and ends the token on another thread while the device
/// fails. Then uses the buffer on another stream, and returns the races that the device has detected.
std::vector<sim::race> races_after_an_end_elsewhere(std::uint64_t seed) {
  sim::options chosen;
  chosen.seed = seed;
  chosen.run_percent = 0; // work runs only when a call waits for it
  const auto device = sim::device::create(chosen);
  const auto ctx = context::create(device);
  const buffer used = buffer::allocate(ctx, 64, ctx->work_stream());
  const stream_ref mine(*device, per_thread_stream);
  std::optional<use_token> token(std::in_place, mine, std::array{writes(used)});
  ctx->copies().fill(token->span<std::uint8_t>(used).data(), 1, used.size(), mine);
  device->set_fail_percent(50);
  std::thread([&] { token.reset(); }).join();
  device->set_fail_percent(0);
  use_token next(ctx->work_stream(), {writes(used)});
  ctx->copies().fill(next.span<std::uint8_t>(used).data(), 2, used.size(), ctx->work_stream());
  return device->races();
}

TEST(use_token_of_the_per_thread_default_stream, ended_by_another_thread_stays_ordered_if_the_driver_fails) {
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    EXPECT_TRUE(races_after_an_end_elsewhere(seed).empty()) << "seed " << seed;
  }
  set_report_sink(before);
}

class tokens_whose_end_fails : public ::testing::Test {
protected:
  tokens_whose_end_fails() {
    reports = 0;
    before_ = set_report_sink([](std::string_view, std::string_view) noexcept { ++reports; });
    ctx_->copies().fill(token_->span<char>(used_).data(), 1, used_.size(), foreign_.ref());
  }
  ~tokens_whose_end_fails() override { set_report_sink(before_); }
  [[nodiscard]] handover needed() const {
    return used_.owner()->ordering().find_dependencies(access::write, "used");
  }

  inline static int reports = 0;
  std::shared_ptr<sim::device> device_ = sim::device::create({.seed = 1, .run_percent = 0});
  std::shared_ptr<saeta::testing::faulty_backend> faulty_ =
      std::make_shared<saeta::testing::faulty_backend>(device_);
  std::shared_ptr<context> ctx_ = context::create(faulty_);
  buffer used_ = buffer::allocate(ctx_, 64, ctx_->work_stream());
  stream foreign_{faulty_}; // not owned by the context, so each use records an event
  std::optional<use_token> token_{std::in_place, foreign_.ref(), std::array{writes(used_)}};

private:
  report_sink before_ = nullptr;
};

TEST_F(tokens_whose_end_fails, wait_for_their_work_and_throw) {
  const std::uint64_t waits = ctx_->copies().read_counters().synchronizations;
  faulty_->fail_at(2); // the first call queries the capture state
  EXPECT_THROW(token_->finish(), error);
  EXPECT_TRUE(faulty_->failed());
  EXPECT_EQ(ctx_->copies().read_counters().synchronizations, waits + 1);
  EXPECT_TRUE(needed().points.empty());
  EXPECT_FALSE(needed().unknown);
  EXPECT_EQ(reports, 0);
  EXPECT_NO_THROW(token_->finish()) << "it has ended";
}

TEST_F(tokens_whose_end_fails, leave_unknown_work_if_the_wait_fails_too) {
  device_->set_fail_percent(100);
  EXPECT_THROW(token_->finish(), error);
  device_->set_fail_percent(0);
  EXPECT_EQ(reports, 1);
  EXPECT_TRUE(needed().unknown);
}

TEST_F(tokens_whose_end_fails, report_the_failure_from_the_destructor) {
  faulty_->fail_at(2);
  token_.reset();
  EXPECT_EQ(reports, 1);
  EXPECT_TRUE(needed().points.empty());
  EXPECT_FALSE(needed().unknown);
}

TEST(export_hold, counts_once_in_each_context) {
  const auto one = context::create(make_host_backend());
  const auto two = context::create(make_host_backend());
  std::vector<buffer> views(100, buffer::allocate(one, 64, one->work_stream())); // all of the same storage
  views.push_back(buffer::allocate(two, 64, two->work_stream()));
  views.push_back(buffer::allocate(one, 64, one->work_stream()));
  views.push_back({});
  const auto unknown = [](const buffer& asked, access mode) {
    return asked.owner()->ordering().find_dependencies(mode, "asked").unknown;
  };
  {
    const export_hold reading(views, access::read);
    EXPECT_EQ(one->copies().count().read().exports, 1U);
    EXPECT_EQ(two->copies().count().read().exports, 1U);
    for (const auto& view : {views[0], views[100], views[101]}) {
      EXPECT_FALSE(unknown(view, access::read));
      EXPECT_TRUE(unknown(view, access::write));
    }
  }
  for (const auto& view : {views[0], views[100], views[101]}) {
    EXPECT_FALSE(unknown(view, access::read));
    EXPECT_TRUE(unknown(view, access::write)) << "the consumer may still read";
    { const use_token token(view.owner()->ctx()->work_stream(), {writes(view)}); }
    EXPECT_FALSE(unknown(view, access::write)) << "once, and a use has waited for it";
  }
  const export_hold nothing({}, access::write);
  EXPECT_EQ(one->copies().count().read().exports, 1U);
}

TEST(export_hold, that_ends_on_a_stream_leaves_a_point_of_that_stream) {
  const auto ctx = context::create(sim::device::create({.seed = 1}));
  const std::array both{buffer::allocate(ctx, 64, ctx->work_stream()),
                        buffer::allocate(ctx, 64, ctx->work_stream())};
  const stream consumer(ctx->device_backend());
  {
    export_hold held(both, access::read);
    held.end_on(consumer.native_handle());
    EXPECT_EQ(held.first(), nullptr) << "it is over";
  }
  for (const buffer& each : both) {
    const handover needed = each.owner()->ordering().find_dependencies(access::write, "each");
    EXPECT_FALSE(needed.unknown);
    EXPECT_FALSE(needed.points.empty());
  }
}

TEST(export_hold, with_a_stream_that_can_not_be_marked_leaves_unknown_work) {
  static int reported;
  reported = 0;
  const auto device = sim::device::create({.seed = 1});
  const auto ctx = context::create(device);
  const buffer used = buffer::allocate(ctx, 64, ctx->work_stream());
  const stream consumer(device);
  export_hold held(std::span(&used, 1), access::read);
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept { ++reported; });
  device->set_fail_percent(100);
  held.end_on(consumer.native_handle());
  device->set_fail_percent(0);
  set_report_sink(before);
  EXPECT_EQ(reported, 1);
  EXPECT_TRUE(used.owner()->ordering().find_dependencies(access::write, "used").unknown);
}

TEST(export_hold, that_ends_on_a_stream_in_a_capture_leaves_unknown_work) {
  const auto device = sim::device::create({.seed = 1});
  const auto ctx = context::create(device);
  const buffer used = buffer::allocate(ctx, 64, ctx->work_stream());
  const stream consumer(device);
  export_hold held(std::span(&used, 1), access::read);
  device->begin_capture(consumer.native_handle());
  held.end_on(consumer.native_handle());
  device->end_capture(consumer.native_handle());
  EXPECT_TRUE(used.owner()->ordering().find_dependencies(access::write, "used").unknown);
}

TEST(use_token, uses_a_repeated_storage_once_with_the_stronger_access) {
  const auto ctx = context::create(make_host_backend());
  const buffer whole = buffer::allocate(ctx, 64, ctx->work_stream());
  const auto stream = ctx->work_stream();
  {
    const use_token token(stream, {reads(whole), reads(whole.slice(8, 8))});
    EXPECT_THROW(static_cast<void>(token.span<char>(whole).data()), error);
    EXPECT_NO_THROW(use_token(stream, {reads(whole)}));
  }
  for (const auto& uses :
       {std::array{reads(whole), writes(whole.slice(8, 8))}, std::array{writes(whole), reads(whole)},
        std::array{writes(whole), writes(whole)}}) {
    use_token token(stream, uses);
    EXPECT_NE(token.span<char>(whole).data(), nullptr);
    EXPECT_THROW(use_token(stream, {reads(whole)}), error) << "one write at a time";
    token.finish();
    EXPECT_NO_THROW(use_token(stream, {reads(whole)}));
    EXPECT_NO_THROW(token.finish());
    EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(token.span<const char>(whole).data()); }),
              errc::closed);
  }
}

TEST(use_token, gives_no_pointer_to_other_buffers) {
  const auto ctx = context::create(make_host_backend());
  std::vector<buffer> made;
  for (int i = 0; i < 3; ++i) { // in all relative positions of their addresses
    made.push_back(buffer::allocate(ctx, 16, ctx->work_stream(), "b"));
  }
  for (std::size_t absent = 0; absent < made.size(); ++absent) {
    std::vector<use> named;
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (i != absent) {
        named.push_back(reads(made[i]));
      }
    }
    const use_token token(ctx->work_stream(), named);
    EXPECT_THROW(static_cast<void>(token.span<const char>(made[absent]).data()), error) << absent;
  }
}

TEST(use_token, that_is_refused_changes_nothing) {
  const auto ctx = context::create(make_host_backend());
  const auto stream = ctx->work_stream();
  const buffer before = buffer::allocate(ctx, 64, stream);
  const buffer busy = buffer::allocate(ctx, 64, stream);
  const buffer after = buffer::allocate(ctx, 64, stream);
  {
    const use_token open(stream, {writes(busy)});
    EXPECT_THROW(use_token(stream, {writes(before), writes(busy), writes(after)}), error);
    EXPECT_THROW(use_token(stream, {reads(busy)}), error) << "still open";
    EXPECT_NO_THROW(use_token(stream, {writes(before), writes(after)}));
  }
  EXPECT_NO_THROW(use_token(stream, {writes(busy)}));
}

TEST(use_token, releases_its_buffers_at_its_end) {
  const auto device = sim::device::create({.seed = 1, .how = sim::pace::automatic});
  for (const auto& ctx : {context::create(make_host_backend()), context::create(device)}) {
    const stream foreign(ctx->device_backend());
    for (const auto& stream : {ctx->work_stream(), foreign.ref()}) {
      buffer b = buffer::allocate(ctx, 64, stream);
      use_token token(stream, {writes(b)});
      b = {};
      EXPECT_EQ(ctx->reports().statistics().budget.current, 64U);
      token.finish();
      EXPECT_TRUE(ctx->wait_for_releases(std::chrono::minutes(5)));
      EXPECT_EQ(ctx->reports().statistics().budget.current, 0U);
    }
  }
}

TEST(use_token, waits_for_the_unknown_work_of_a_device_once) {
  const auto ctx = context::create(sim::device::create({.seed = 1, .how = sim::pace::automatic}));
  const std::array both{buffer::allocate(ctx, 64, ctx->work_stream()),
                        buffer::allocate(ctx, 64, ctx->work_stream())};
  { const export_hold lent(both, access::write); }
  ctx->copies().reset_counters();
  { const use_token token(ctx->work_stream(), {reads(both[0]), reads(both[1])}); }
  EXPECT_EQ(ctx->copies().read_counters().events, 1U);
  { const use_token token(ctx->work_stream(), {writes(both[0]), writes(both[1])}); }
  EXPECT_EQ(ctx->copies().read_counters().events, 1U) << "it has been waited for";
}

TEST(use_token, requires_a_stream_that_can_order_one_of_its_buffers) {
  const auto device = sim::device::create({.seed = 1, .how = sim::pace::automatic});
  const auto host = context::create(make_host_backend());
  const auto gpu = context::create(device);
  const auto another_host = context::create(make_host_backend());
  EXPECT_TRUE(host->make_visible_to(*host->device_backend()));
  EXPECT_FALSE(host->make_visible_to(*another_host->device_backend()));
  EXPECT_FALSE(host->make_visible_to(*device));
  EXPECT_FALSE(gpu->make_visible_to(*host->device_backend()));
  const buffer here = buffer::allocate(host, 64, host->work_stream());
  const buffer there = buffer::allocate(gpu, 64, gpu->work_stream());
  const auto code = [](const stream_ref& stream, std::initializer_list<use> uses) {
    try {
      const use_token token(stream, uses);
    } catch (const error& e) {
      return std::optional(e.code());
    }
    return std::optional<errc>();
  };
  EXPECT_EQ(code(gpu->work_stream(), {reads(here)}), errc::invalid_argument);
  EXPECT_EQ(code(host->work_stream(), {reads(there)}), errc::invalid_argument);
  EXPECT_EQ(code(gpu->work_stream(), {reads(here), writes(there)}), std::nullopt);
  EXPECT_EQ(code(host->work_stream(), {reads(here), writes(there)}), std::nullopt);
  EXPECT_EQ(code(gpu->work_stream(), {reads(buffer())}), std::nullopt) << "nothing to order";
  std::optional<stream_ref> of_another_thread;
  std::thread([&] { of_another_thread.emplace(*host->device_backend(), per_thread_stream); }).join();
  EXPECT_EQ(code(*of_another_thread, {reads(here)}), errc::invalid_argument);
  EXPECT_EQ(code(stream_ref(*host->device_backend(), per_thread_stream), {reads(here)}), std::nullopt);
}

TEST(use_token, gives_no_write_access_to_read_only_memory) {
  const auto ctx = context::create(make_host_backend());
  std::uint8_t bytes[16];
  for (const auto access : {mutability::read_only, mutability::writable}) {
    external_memory lent;
    lent.pointer = bytes;
    lent.bytes = sizeof bytes;
    lent.device = ctx->device();
    lent.keepalive = std::make_shared<int>();
    lent.access = access;
    lent.tag = "lent";
    const buffer view = buffer::adopt(ctx, std::move(lent));
    EXPECT_EQ(view.owner()->writable(), access == mutability::writable);
    EXPECT_TRUE(view.owner()->external());
    EXPECT_NO_THROW(use_token(ctx->work_stream(), {reads(view)}));
    for (const use& asked : {writes(view), updates(view)}) {
      if (access == mutability::writable) {
        EXPECT_NO_THROW(use_token(ctx->work_stream(), {asked}));
      } else {
        EXPECT_THROW(use_token(ctx->work_stream(), {asked}), error);
      }
    }
  }
}

buffer adopted(const std::shared_ptr<context>& ctx, std::span<std::uint8_t> bytes, mutability access) {
  external_memory lent;
  lent.pointer = bytes.data();
  lent.bytes = bytes.size();
  lent.device = ctx->device();
  lent.kind = memory_kind::host;
  lent.keepalive = std::make_shared<int>();
  lent.access = access;
  return buffer::adopt(ctx, std::move(lent));
}

TEST(immutable_memory, is_read_only_memory_of_others_that_no_work_fills) {
  const auto ctx = context::create(make_host_backend());
  std::array<std::uint8_t, 64> bytes{7};
  EXPECT_TRUE(adopted(ctx, bytes, mutability::read_only).owner()->immutable());
  EXPECT_FALSE(adopted(ctx, bytes, mutability::writable).owner()->immutable());
  EXPECT_FALSE(buffer::allocate(ctx, 64, ctx->work_stream()).owner()->immutable());
  const auto device = context::create(sim::device::create({.seed = 1}));
  EXPECT_FALSE(adopted(device, bytes, mutability::read_only).owner()->immutable()) << "streams may read it";
}

TEST(immutable_memory, is_read_on_the_host_without_being_named) {
  const auto ctx = context::create(make_host_backend());
  std::array<std::uint8_t, 64> bytes{7};
  const buffer shown = adopted(ctx, bytes, mutability::read_only);
  const buffer own = buffer::allocate(ctx, 64, ctx->work_stream());
  storage_reads memory(ctx->work_stream());
  memory.add(shown);
  memory.add(own);
  ASSERT_EQ(memory.uses().size(), 1);
  const use_token token(ctx->work_stream(), memory.uses());
  EXPECT_EQ(token.span<const std::uint8_t>(shown).front(), 7);
  EXPECT_THROW(static_cast<void>(token.span<std::uint8_t>(shown)), error);
}

TEST(immutable_memory, is_named_for_a_stream_of_a_device) {
  const auto ctx = context::create(make_host_backend());
  const auto device = context::create(sim::device::create({.seed = 1, .run_percent = 0}));
  std::array<std::uint8_t, 64> bytes{7};
  const buffer shown = adopted(ctx, bytes, mutability::read_only);
  storage_reads memory(device->work_stream());
  memory.add(shown);
  EXPECT_EQ(memory.uses().size(), 1) << "the device may still read it when the token has ended";
}

TEST(external_memory_of_a_context, may_be_null_only_without_bytes) {
  const auto ctx = context::create(make_host_backend());
  external_memory lent;
  lent.keepalive = std::make_shared<int>();
  lent.bytes = 1;
  EXPECT_THROW(static_cast<void>(buffer::adopt(ctx, lent)), error);
  EXPECT_EQ(lent.keepalive.use_count(), 1);
  lent.bytes = 0;
  {
    const buffer nothing = buffer::adopt(ctx, lent);
    EXPECT_EQ(nothing.size(), 0U);
    EXPECT_EQ(lent.keepalive.use_count(), 2);
  }
  EXPECT_EQ(lent.keepalive.use_count(), 1);
  ctx->close();
  EXPECT_THROW(static_cast<void>(buffer::adopt(ctx, lent)), error);
}

} // namespace
} // namespace saeta
