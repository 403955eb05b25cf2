// Two devices in one process: buffers on both, accesses to memory of the other device, and release after the
// last use.
#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/memory/export_hold.hpp"

#include <gtest/gtest.h>

#include <array>

namespace saeta::conformance {
namespace {

constexpr std::size_t shared_bytes = 1 << 16;

class two_devices : public context_test {
protected:
  void SetUp() override {
    const auto second = second_device();
    if (!second) {
      GTEST_SKIP() << one_device_alone;
    }
    context_test::SetUp();
    context_options options;
    options.budget = limit;
    there_ = watch(context::create(second, options));
    here_stream_.emplace(ctx()->borrow_stream());
    there_stream_.emplace(there_->borrow_stream());
  }

  [[nodiscard]] stream_ref here() const { return here_stream_->ref(); }
  [[nodiscard]] stream_ref there() const { return there_stream_->ref(); }
  [[nodiscard]] buffer make_there(std::uint8_t value) const {
    buffer made = buffer::allocate(there_, shared_bytes, there(), "there");
    use_token token(there(), {writes(made)});
    there_->copies().fill(token.span<std::uint8_t>(made).data(), value, shared_bytes, there());
    return made;
  }
  /// Copies between the devices on a stream of the context `on`.
  void copy(const buffer& target, const buffer& source, context& on, stream_ref stream) const {
    use_token token(stream, {writes(target), reads(source)});
    on.copies().copy(token.span<std::uint8_t>(target).data(), token.span<const std::uint8_t>(source).data(),
                     shared_bytes, within(), stream);
  }

  std::shared_ptr<context> there_;
  std::optional<stream_lease> here_stream_;
  std::optional<stream_lease> there_stream_;
};

TEST_P(two_devices, copies_between_them_wait_for_the_writer_from_either_device) {
  const buffer ours = make(shared_bytes);
  fill(ours, 1, here());
  const buffer theirs = make_there(2);
  copy(ours, theirs, *ctx(), here()); // pulled by the first device
  EXPECT_EQ(read(ours), std::vector<std::uint8_t>(shared_bytes, 2));
  fill(ours, 3, here());
  copy(theirs, ours, *ctx(), here()); // pushed by the first device
  fill(ours, 4, here());
  copy(ours, theirs, *there_, there()); // pushed by the second device
  EXPECT_EQ(read(ours), std::vector<std::uint8_t>(shared_bytes, 3));
}

TEST_P(two_devices, memory_is_reused_after_the_work_of_the_other_device) {
  const buffer theirs = make_there(7);
  static_cast<void>(make(shared_bytes)); // fills the cache before the gate closes
  const auto held = close_gate(here().native_handle());
  std::uintptr_t address = 0;
  {
    const buffer gone = make(shared_bytes);
    address = gone.address();
    fill(gone, 1, here());
    copy(gone, theirs, *there_, there()); // its last use is blocked by the gate
  }
  buffer next = make(shared_bytes);
  fill(next, 9, ctx()->work_stream());
  if (held) {
    EXPECT_FALSE(next.address() == address && ctx()->work_stream().idle())
        << "memory went to its next owner while a stream of the other device still used it";
    held->open();
  }
  EXPECT_EQ(read(next), std::vector<std::uint8_t>(shared_bytes, 9));
}

TEST_P(two_devices, a_trim_waits_for_work_of_the_other_device) {
  const buffer theirs = make_there(7);
  for (int round = 0; round < 4; ++round) {
    {
      const buffer gone = make(shared_bytes);
      copy(gone, theirs, *there_, there());
    }
    ctx()->drain();
    ctx()->trim(); // on sim, a missing wait is reported as a race
  }
  there_->synchronize(there());
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(60)));
  ctx()->trim();
  EXPECT_EQ(ctx()->reports().statistics().budget.current, 0U);
}

TEST_P(two_devices, charge_their_own_budgets) {
  const auto before = ctx()->reports().statistics().budget.current;
  const buffer theirs = make_there(1);
  EXPECT_EQ(ctx()->reports().statistics().budget.current, before);
  EXPECT_EQ(there_->reports().statistics().budget.current, shared_bytes);
}

TEST_P(two_devices, a_stream_can_use_memory_of_the_other_device_with_peer_access) {
  const buffer theirs = make_there(1);
  if (ctx()->on_host()) {
    EXPECT_THROW(use_token(here(), {reads(theirs)}), error) << "two backends of the host share nothing";
    return;
  }
  if (!device().can_access_peer(*there_->device_backend())) {
    EXPECT_THROW(use_token(here(), {reads(theirs)}), error);
    GTEST_SKIP() << "the two devices have no peer access";
  }
  {
    use_token token(here(), {updates(theirs)});
    there_->copies().fill(token.span<std::uint8_t>(theirs).data(), 5, shared_bytes, here());
  }
  const buffer ours = make(shared_bytes);
  copy(ours, theirs, *ctx(), ctx()->work_stream());
  EXPECT_EQ(read(ours), std::vector<std::uint8_t>(shared_bytes, 5));
}

TEST_P(two_devices, an_export_may_be_used_on_every_device_that_sees_the_memory) {
  buffer theirs = make_there(1);
  if (ctx()->on_host() || !device().can_access_peer(*there_->device_backend())) {
    GTEST_SKIP() << "the two devices have no peer access";
  }
  { const use_token token(here(), {reads(theirs)}); } // makes the memory visible to this device
  const stream unnamed(shared_device());
  const buffer seen = make(shared_bytes);
  fill(seen, 0, ctx()->work_stream());
  ctx()->synchronize(ctx()->work_stream());
  const auto held = close_gate(unnamed.ref().native_handle());
  const std::array views{theirs};
  {
    const export_hold consumer(views, access::read);
    order_handover(views, unnamed.ref());
    device().copy(reinterpret_cast<void*>(seen.address()), reinterpret_cast<const void*>(theirs.address()),
                  shared_bytes, within(), unnamed.ref().native_handle());
  }
  use_token token(there(), {writes(theirs)});
  there_->copies().fill(token.span<std::uint8_t>(theirs).data(), 9, shared_bytes, there());
  token.finish();
  if (held) {
    EXPECT_FALSE(there().idle()) << "written while a stream of the other device still read it";
    held->open();
  }
  device().synchronize_stream(unnamed.ref().native_handle());
  EXPECT_EQ(read(seen), std::vector<std::uint8_t>(shared_bytes, 1));
}

TEST_P(two_devices, record_one_event_each_over_all_work) {
  EXPECT_TRUE(ctx()->make_visible_to(device()));
  const bool reachable = ctx()->make_visible_to(*second_device());
  EXPECT_EQ(ctx()->make_visible_to(*second_device()), reachable);
  EXPECT_EQ(reachable, !ctx()->on_host());
  ctx()->copies().reset_counters();
  there_->copies().reset_counters();
  const point_set everything = ctx()->mark_unknown_work("test");
  EXPECT_EQ(everything.size(), ctx()->on_host() ? 0U : 2U);
  EXPECT_EQ(ctx()->copies().read_counters().events, ctx()->on_host() ? 0U : 1U);
  EXPECT_EQ(there_->copies().read_counters().events, ctx()->on_host() ? 0U : 1U);
}

SAETA_CONFORMANCE_SUITE(two_devices);

} // namespace
} // namespace saeta::conformance
