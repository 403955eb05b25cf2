// Views and use tokens on a stream that captures a graph: the capture stays valid, and ordering is complete.
#include "conformance/harness/context_test.hpp"
#include "conformance/harness/graph_capture.hpp"
#include "conformance/harness/pinned_bytes.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/memory/export_hold.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace saeta::conformance {
namespace {

constexpr std::size_t captured_bytes = 1 << 16;

class graph_captures : public context_test {
protected:
  void SetUp() override {
    context_test::SetUp();
    foreign_.emplace(shared_device());
    ours_.emplace(ctx()->borrow_stream());
  }
  void TearDown() override {
    ours_.reset();
    foreign_.reset();
    context_test::TearDown();
  }
  /// Returns a stream of another library.
  [[nodiscard]] stream_ref foreign() const { return foreign_->ref(); }
  [[nodiscard]] stream_ref ours() const { return ours_->ref(); }
  [[nodiscard]] buffer filled(std::uint8_t value) const {
    buffer made = make(captured_bytes);
    fill(made, value, ctx()->work_stream());
    ctx()->synchronize(ctx()->work_stream());
    return made;
  }
  /// Returns whether work can be pending: not on the host.
  [[nodiscard]] bool asynchronous() const { return !ctx()->on_host(); }
  [[nodiscard]] std::uint64_t waits() const { return ctx()->copies().read_counters().synchronizations; }
  [[nodiscard]] std::uint64_t pending() const { return ctx()->reports().statistics().pending_releases; }
  void expect_released() const {
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(ctx()->reports().statistics().budget.current, 0U);
  }
  [[nodiscard]] std::uint8_t* landing() const { return landing_.data(); }

private:
  pinned_bytes landing_{shared_device(), captured_bytes};
  std::optional<stream> foreign_;
  std::optional<stream_lease> ours_;
};

TEST_P(graph_captures, are_reported_only_for_their_stream_and_survive_the_query) {
  EXPECT_FALSE(foreign().capturing());
  graph_capture capture(device(), foreign().native_handle());
  EXPECT_EQ(foreign().capturing(), asynchronous());
  EXPECT_FALSE(ours().capturing());
  EXPECT_TRUE(capture.end());
  EXPECT_FALSE(foreign().capturing());
}

TEST_P(graph_captures, survive_the_release_of_a_view_that_they_use) {
  auto b = std::optional(filled(1));
  graph_capture capture(device(), foreign().native_handle());
  {
    const std::array views{*b};
    const export_hold consumer(views, access::read);
    order_handover(views, foreign());
  }
  b.reset();
  EXPECT_EQ(pending(), asynchronous() ? 1U : 0U) << "released before its consumer was waited for";
  EXPECT_TRUE(capture.end()) << "an event over all work was recorded and has ended the capture";
  expect_released();
}

TEST_P(graph_captures, delay_the_release_of_views_until_they_end) {
  auto b = std::optional(filled(1));
  auto another = std::optional(filled(2));
  graph_capture capture(device(), foreign().native_handle());
  const std::array views{*b};
  order_handover(views, foreign());
  {
    const std::array unannounced{*another};
    const export_hold consumer(unannounced, access::read);
  }
  another.reset();
  EXPECT_EQ(pending(), asynchronous() ? 1U : 0U);
  EXPECT_TRUE(capture.end());
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(ctx()->reports().statistics().budget.current, captured_bytes);
  EXPECT_TRUE(ctx()->clocks()->mark_device().has_value()) << "held although the capture has ended";
}

TEST_P(graph_captures, are_noted_at_a_hand_over_without_waits) {
  const auto memory = filled(1);
  auto another = std::optional(filled(2));
  external_memory lent; // its pending work is unknown to Saeta
  lent.pointer = reinterpret_cast<void*>(memory.address());
  lent.bytes = memory.size();
  lent.device = ctx()->device();
  const std::array views{buffer::adopt(ctx(), std::move(lent))};
  graph_capture capture(device(), foreign().native_handle());
  order_handover(views, device(), foreign().native_handle());
  {
    const std::array unannounced{*another};
    const export_hold consumer(unannounced, access::read);
  }
  another.reset();
  EXPECT_EQ(pending(), asynchronous() ? 1U : 0U);
  EXPECT_TRUE(capture.end()) << "an event over all work was recorded and has ended the capture";
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
}

TEST_P(graph_captures, receive_memory_whose_last_write_has_finished) {
  const buffer b = filled(1);
  const auto gate = close_gate(ours().native_handle());
  fill(b, 2, ours());
  graph_capture capture(device(), foreign().native_handle());
  const std::uint64_t before = waits();
  if (gate) {
    gate->open();
  }
  const std::array views{b};
  order_handover(views, foreign());
  EXPECT_TRUE(ours().idle()) << "the graph would run beside the write";
  EXPECT_LE(waits(), before + 1) << "a wait is counted, and there is one at most";
  EXPECT_TRUE(capture.end());
  EXPECT_EQ(read(b), std::vector<std::uint8_t>(captured_bytes, 2));
}

TEST_P(graph_captures, may_contain_whole_use_tokens) {
  const buffer in = filled(1);
  const buffer out = filled(0);
  fill(in, 3, ours());
  graph_capture capture(device(), foreign().native_handle());
  for (int kernel = 0; kernel < 2; ++kernel) {
    use_token token(foreign(), {reads(in), updates(out)});
    EXPECT_TRUE(ours().idle()) << "the graph would run beside the write";
    device().copy(token.span<char>(out).data(), token.span<const char>(in).data(), captured_bytes, within(),
                  foreign().native_handle());
    token.finish();
  }
  EXPECT_TRUE(capture.end());
  EXPECT_EQ(read(in), std::vector<std::uint8_t>(captured_bytes, 3));
  if (asynchronous()) {
    EXPECT_EQ(read(out), std::vector<std::uint8_t>(captured_bytes, 0)) << "captured work does not run";
  }
}

TEST_P(graph_captures, do_not_hide_work_queued_before_them) {
  auto b = std::optional(filled(5));
  const auto gate = close_gate(foreign().native_handle());
  auto token = std::make_optional<use_token>(foreign(), std::initializer_list<use>{reads(*b)});
  ctx()->copies().copy(landing(), token->span<const char>(*b).data(), captured_bytes, to_host(), foreign());
  graph_capture capture(device(), foreign().native_handle());
  token.reset();
  b.reset();
  EXPECT_TRUE(capture.end());
  std::vector<buffer> next;
  for (int i = 0; i < 4; ++i) {
    next.push_back(buffer::allocate(ctx(), captured_bytes, ours(), "next"));
    fill(next.back(), 0xAA, ours());
  }
  if (gate) {
    EXPECT_EQ(pending(), 1U) << "given to others while it was read";
    gate->open();
  }
  ctx()->synchronize(foreign());
  EXPECT_EQ(std::vector<std::uint8_t>(landing(), landing() + captured_bytes),
            std::vector<std::uint8_t>(captured_bytes, 5));
  next.clear();
  expect_released();
}

TEST_P(graph_captures, give_their_stream_another_identity_until_they_end) {
  const stream_ref outside = foreign();
  graph_capture capture(device(), outside.native_handle());
  EXPECT_EQ(foreign().made_in_capture(), asynchronous());
  EXPECT_EQ(foreign() == outside, !asynchronous()) << "captured work is not ordered after work of the stream";
  EXPECT_EQ(foreign() == foreign(), !asynchronous());
  EXPECT_TRUE(foreign().same_handle(outside));
  EXPECT_FALSE(foreign().same_handle(ours()));
  EXPECT_TRUE(capture.end());
  EXPECT_EQ(foreign(), outside);
}

TEST_P(graph_captures, allow_their_stream_to_be_destroyed_afterwards) {
  for (int round = 0; round < 3; ++round) { // several rounds, because companion streams are reused
    auto b = std::optional(filled(1));
    std::optional<stream> brief(shared_device());
    graph_capture capture(device(), brief->ref().native_handle());
    std::optional<use_token> token(std::in_place, brief->ref(), std::initializer_list<use>{reads(*b)});
    order_handover(std::array{*b}, brief->ref());
    token.reset();
    { const export_hold consumer(std::array{*b}, access::read); }
    b.reset();
    EXPECT_EQ(pending(), asynchronous() ? 1U : 0U);
    EXPECT_TRUE(capture.end());
    brief.reset();
    expect_released();
  }
}

TEST_P(graph_captures, get_no_memory_from_the_context) {
  if (!asynchronous()) {
    GTEST_SKIP() << "the host captures nothing";
  }
  const auto refusal = [&](auto allocate) {
    try {
      static_cast<void>(allocate());
      return std::string("none");
    } catch (const error& e) {
      return std::string(name_of(e.code()));
    }
  };
  graph_capture capture(device(), foreign().native_handle());
  EXPECT_EQ(refusal([&] { return buffer::allocate(ctx(), captured_bytes, foreign(), "captured"); }),
            "invalid_argument");
  EXPECT_EQ(refusal([&] { return device().allocate_async(captured_bytes, foreign().native_handle()); }),
            "device");
  EXPECT_EQ(ctx()->reports().statistics().budget.current, 0U);
  EXPECT_TRUE(capture.end());
}

SAETA_CONFORMANCE_SUITE(graph_captures);

} // namespace
} // namespace saeta::conformance
