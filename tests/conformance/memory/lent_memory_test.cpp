// Memory lent by address to other libraries: it is counted like a buffer, and reused only after the work of
// all streams that use it.
#include "conformance/harness/context_test.hpp"
#include "conformance/harness/graph_capture.hpp"
#include "conformance/harness/pinned_bytes.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/memory/loans/lent_memory.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <latch>
#include <thread>

namespace saeta::conformance {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t lent_bytes = 1 << 20;

std::string& last_lent_report() {
  static std::string text;
  return text;
}

class lent_memory : public context_test {
protected:
  void SetUp() override {
    context_test::SetUp();
    first_.emplace(ctx()->borrow_stream());
    second_.emplace(ctx()->borrow_stream());
    last_lent_report().clear();
    before_ = set_report_sink(
        [](std::string_view, std::string_view message) noexcept { last_lent_report() = message; });
  }
  void TearDown() override {
    set_report_sink(before_);
    EXPECT_EQ(ctx()->memory_budget()->statistics().current, 0u) << "every charge was given back";
    context_test::TearDown();
  }
  [[nodiscard]] stream_ref first() const { return first_->ref(); }
  [[nodiscard]] stream_ref second() const { return second_->ref(); }
  [[nodiscard]] std::uint64_t charged() const {
    ctx()->wait_for_releases(std::chrono::seconds(60));
    return ctx()->memory_budget()->statistics().current;
  }
  /// Writes the memory like a borrower, without a use token.
  void work_on(void* address, std::uint8_t value, stream_ref stream) const {
    device().fill(address, value, lent_bytes, stream.native_handle());
  }
  /// Lends memory until the address `before` is reused, while the borrower's work on it is blocked by a gate.
  /// The next owner's write must be ordered after the borrower's write.
  void expect_reuse_behind(void* before, const std::unique_ptr<gate>& held, stream_ref stream) const {
    constexpr std::size_t most = 32;
    std::vector<void*> next;
    const auto lend = [&] {
      next.push_back(lend_memory(ctx(), lent_bytes, stream, "next"));
      work_on(next.back(), 2, stream);
      return next.back() == before;
    };
    const bool at_once = lend();
    if (held) {
      EXPECT_FALSE(at_once && stream.idle()) << "the next owner did not wait for the borrower's work";
      held->open();
    }
    ctx()->synchronize(first());
    ctx()->synchronize(second());
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(60)));
    while (next.back() != before && next.size() < most) {
      lend();
    }
    EXPECT_EQ(next.back(), before) << "never lent again, so nothing is shown";
    std::vector<std::uint8_t> found(lent_bytes);
    device().copy(found.data(), next.back(), lent_bytes, to_host(), stream.native_handle());
    ctx()->synchronize(stream);
    EXPECT_EQ(found, std::vector<std::uint8_t>(lent_bytes, 2));
    for (void* const each : next) {
      take_back_memory(each, lent_bytes, stream.native_handle());
    }
  }
  [[nodiscard]] std::unique_ptr<gate> hold(stream_ref stream) const {
    return close_gate(stream.native_handle());
  }

  report_sink before_ = nullptr;

private:
  std::optional<stream_lease> first_;
  std::optional<stream_lease> second_;
};

TEST_P(lent_memory, is_counted_in_budget_ledger_and_tag_until_it_is_returned) {
  void* const address = lend_memory(ctx(), lent_bytes, first(), "cudf");
  const std::vector<std::pair<std::string, std::uint64_t>> expected{{"cudf", lent_bytes}};
  EXPECT_EQ(ctx()->reports().live_by_tag(), expected);
  EXPECT_EQ(charged(), lent_bytes);
  take_back_memory(address, lent_bytes, first().native_handle());
  EXPECT_EQ(charged(), 0u);
  EXPECT_TRUE(ctx()->reports().live_by_tag().empty());
  EXPECT_EQ(last_lent_report(), "");
}

TEST_P(lent_memory, is_refused_with_the_numbers_of_the_budget) {
  try {
    static_cast<void>(lend_memory(ctx(), limit + 1, first(), "cudf"));
    FAIL() << "more than the budget";
  } catch (const error& e) {
    ASSERT_NE(e.refusal(), nullptr);
    EXPECT_EQ(e.refusal()->requested, limit + 1);
  }
}

TEST_P(lent_memory, of_zero_bytes_is_null_and_counts_as_a_request) {
  const std::uint64_t before = ctx()->memory_budget()->statistics().requests;
  EXPECT_EQ(lend_memory(ctx(), 0, first(), "cudf"), nullptr);
  EXPECT_EQ(ctx()->memory_budget()->statistics().requests, before + 1);
  take_back_memory(nullptr, 0, first().native_handle());
  EXPECT_EQ(last_lent_report(), "");
}

TEST_P(lent_memory, has_the_requested_alignment) {
  constexpr std::size_t page = 4096;
  void* const address = lend_memory(ctx(), 100, first(), "cudf", page);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % page, 0u);
  take_back_memory(address, 100, first().native_handle());
  EXPECT_EQ(last_lent_report(), "");
}

TEST_P(lent_memory, returned_twice_or_never_lent_is_reported) {
  void* const address = lend_memory(ctx(), lent_bytes, first(), "cudf");
  take_back_memory(address, lent_bytes, first().native_handle());
  EXPECT_EQ(last_lent_report(), "");
  take_back_memory(address, lent_bytes, first().native_handle());
  EXPECT_THAT(last_lent_report(), HasSubstr("was not lent, or was already returned"));
  last_lent_report().clear();
  note_lent_use(address, first().native_handle());
  EXPECT_THAT(last_lent_report(), HasSubstr("was not lent"));
}

TEST_P(lent_memory, returned_with_another_size_is_reported_and_freed) {
  void* const address = lend_memory(ctx(), lent_bytes, first(), "cudf");
  take_back_memory(address, 7, first().native_handle());
  EXPECT_THAT(last_lent_report(), HasSubstr("has 1048576 bytes and was returned as 7"));
  EXPECT_EQ(charged(), 0u);
  last_lent_report().clear();
  note_lent_use(nullptr, first().native_handle());
  EXPECT_EQ(last_lent_report(), "") << "nothing was lent as null, so nothing is used";
}

TEST_P(lent_memory, keeps_its_context_alive) {
  const std::weak_ptr<context> alive = context_->weak_from_this();
  const stream_handle stream = ctx()->work_stream().native_handle();
  void* const address = lend_memory(ctx()->with_budget("child"), lent_bytes, first(), "cudf");
  take_back_memory(lend_memory(ctx(), lent_bytes, first(), "cudf"), lent_bytes, stream);
  EXPECT_EQ(charged(), lent_bytes) << "a child is charged, and so is its parent";
  take_back_memory(address, lent_bytes, stream);
  EXPECT_EQ(charged(), 0u);
  EXPECT_FALSE(alive.expired());
}

// If one of these waits is missing, the simulated device also reports a race.

TEST_P(lent_memory, is_reused_on_another_stream_after_the_work_on_its_stream) {
  void* const lent = lend_memory(ctx(), lent_bytes, first(), "cudf");
  const auto held = hold(first());
  work_on(lent, 1, first());
  take_back_memory(lent, lent_bytes, first().native_handle());
  expect_reuse_behind(lent, held, second());
}

TEST_P(lent_memory, is_reused_after_the_work_on_the_stream_of_its_return) {
  void* const lent = lend_memory(ctx(), lent_bytes, first(), "cudf");
  ctx()->synchronize(first());
  const auto held = hold(second());
  work_on(lent, 1, second());
  take_back_memory(lent, lent_bytes, second().native_handle());
  expect_reuse_behind(lent, held, first());
}

TEST_P(lent_memory, is_reused_immediately_on_the_stream_of_its_return) {
  void* const lent = lend_memory(ctx(), lent_bytes, first(), "cudf");
  const auto held = hold(first());
  work_on(lent, 1, first());
  take_back_memory(lent, lent_bytes, first().native_handle());
  void* const next = lend_memory(ctx(), lent_bytes, first(), "cudf");
  EXPECT_EQ(next, lent) << "one stream needs no wait";
  work_on(next, 2, first());
  if (held) {
    held->open();
  }
  take_back_memory(next, lent_bytes, first().native_handle());
}

TEST_P(lent_memory, on_a_single_stream_needs_no_event_and_no_wait) {
  const auto lend_and_return = [&] {
    void* const lent = lend_memory(ctx(), lent_bytes, first(), "cudf");
    work_on(lent, 1, first());
    note_lent_use(lent, first().native_handle());
    take_back_memory(lent, lent_bytes, first().native_handle());
  };
  const auto held = hold(first());
  lend_and_return(); // the first use of a slab waits for its allocation
  lend_and_return();
  ctx()->copies().reset_counters();
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE(round);
    lend_and_return();
    EXPECT_EQ(ctx()->reports().statistics().pending_releases, 0U);
    EXPECT_EQ(ctx()->copies().read_counters().events, 0U);
  }
  EXPECT_EQ(ctx()->copies().read_counters().synchronizations, 0U);
}

TEST_P(lent_memory, records_one_event_for_repeated_uses_on_a_stream) {
  const stream foreign(shared_device()); // not an own stream: records an event at once
  const auto events = [&](int notes) {
    void* const lent = lend_memory(ctx(), lent_bytes, first(), "torch");
    for (int i = 0; i < notes; ++i) {
      note_lent_use(lent, foreign.native_handle());
      note_lent_use(lent, second().native_handle());
    }
    ctx()->copies().reset_counters();
    take_back_memory(lent, lent_bytes, first().native_handle());
    EXPECT_EQ(charged(), 0U);
    return ctx()->copies().read_counters().events;
  };
  const std::uint64_t of_one = events(1);
  EXPECT_EQ(of_one == 0, ctx()->on_host());
  EXPECT_EQ(events(5), of_one);
}

TEST_P(lent_memory, is_reused_after_a_noted_use) {
  void* const lent = lend_memory(ctx(), lent_bytes, first(), "torch");
  ctx()->synchronize(first());
  const auto held = hold(second());
  work_on(lent, 1, second());
  note_lent_use(lent, second().native_handle());
  note_lent_use(lent, second().native_handle());
  take_back_memory(lent, lent_bytes, first().native_handle());
  expect_reuse_behind(lent, held, first());
}

TEST_P(lent_memory, is_reused_after_a_use_noted_by_another_thread_on_its_default_stream) {
  void* const lent = lend_memory(ctx(), lent_bytes, first(), "torch");
  ctx()->synchronize(first());
  std::unique_ptr<gate> held;
  std::latch noted(1);
  std::latch over(1);
  std::thread other([&] { // its default stream exists until the thread ends
    const stream_ref mine(device(), per_thread_stream);
    held = hold(mine);
    work_on(lent, 1, mine);
    note_lent_use(lent, per_thread_stream);
    noted.count_down();
    over.wait();
  });
  noted.wait();
  take_back_memory(lent, lent_bytes, first().native_handle());
  expect_reuse_behind(lent, held, first());
  over.count_down();
  other.join();
}

TEST_P(lent_memory, with_unknown_streams_is_reused_after_all_work) {
  void* const lent = lend_memory(ctx(), lent_bytes, first(), "cupy");
  ctx()->synchronize(first());
  const auto held = hold(second());
  work_on(lent, 1, second());
  take_back_memory(lent, lent_bytes, std::nullopt);
  expect_reuse_behind(lent, held, first());
}

TEST_P(lent_memory, returned_on_a_capturing_stream_is_released_after_the_capture) {
  const stream foreign(shared_device());
  for (const bool noted : {false, true}) {
    void* const lent = lend_memory(ctx(), lent_bytes, first(), "rmm");
    graph_capture capture(device(), foreign.ref().native_handle());
    if (noted) {
      note_lent_use(lent, foreign.ref().native_handle());
    }
    take_back_memory(lent, lent_bytes, noted ? first().native_handle() : foreign.ref().native_handle());
    EXPECT_EQ(ctx()->reports().statistics().pending_releases, ctx()->on_host() ? 0U : 1U);
    EXPECT_TRUE(capture.end()) << "an event over all work has ended it";
    EXPECT_EQ(charged(), 0U);
  }
  EXPECT_EQ(last_lent_report(), "");
}

TEST_P(lent_memory, is_kept_alive_by_its_storage) {
  void* const lent = lend_memory(ctx(), lent_bytes, first(), "kept");
  std::shared_ptr<storage> kept = find_lent(lent);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->pointer(), lent);
  ctx()->synchronize(first());
  const auto held = hold(second());
  work_on(lent, 1, second());
  take_back_memory(lent, lent_bytes, second().native_handle());
  EXPECT_EQ(find_lent(lent), nullptr) << "the loan is over";
  EXPECT_EQ(kept.use_count(), 1);
  const buffer own(std::move(kept));
  EXPECT_EQ(ctx()->memory_budget()->statistics().current, lent_bytes);
  const pinned_bytes found(shared_device(), lent_bytes);
  queue_read(own, found.data(), first());
  if (held) {
    EXPECT_FALSE(first().idle()) << "the owner did not wait for the borrower's work";
    held->open();
  }
  ctx()->synchronize(first());
  EXPECT_TRUE(found.all_are(1));
  EXPECT_EQ(find_lent(nullptr), nullptr);
}

TEST_P(lent_memory, can_be_returned_on_any_thread) {
  constexpr int rounds = 200;
  std::array<std::atomic<void*>, rounds> passed{};
  std::thread borrower([&] {
    for (auto& slot : passed) {
      slot = lend_memory(ctx(), 4096, first(), "passed");
    }
  });
  std::thread returner([&] {
    for (auto& slot : passed) {
      void* address = nullptr;
      while ((address = slot.load()) == nullptr) {
        std::this_thread::yield();
      }
      take_back_memory(address, 4096, first().native_handle());
    }
  });
  borrower.join();
  returner.join();
  EXPECT_EQ(charged(), 0u);
  EXPECT_EQ(last_lent_report(), "");
}

SAETA_CONFORMANCE_SUITE(lent_memory);

} // namespace
} // namespace saeta::conformance
