// Requests that need spilling while some bytes belong to others: to waiting requests, to reservations, or to
// pending releases.
#include "conformance/spill/spill_test.hpp"
#include "support/interrupts.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>

namespace saeta::conformance {
namespace {

class room_for_requests : public spill_test {
protected:
  void SetUp() override {
    spill_test::SetUp();
    use_stack("budget, caching");
  }
  void TearDown() override {
    watched_ = {};
    spill_test::TearDown();
  }

  void use_stack(std::string_view stack) {
    watched_ = {};
    context_options chosen = options();
    parse_stack(stack, chosen.memory);
    chosen.spill.begin = chosen.spill.end = 1; // spills only what a request needs
    use_options(chosen);
    // Counts the rounds of a request, to detect requests that repeat endlessly.
    watched_ = ctx()->add_room_maker("watch", 0, [this](const shortage&) -> std::uint64_t {
      if (++rounds_ > 50) {
        throw std::runtime_error("the request goes round and round");
      }
      return 0;
    });
  }
  [[nodiscard]] buffer take(std::size_t bytes) const { return make(bytes, "request"); }
  void expect_refused(std::size_t bytes) {
    rounds_ = 0;
    expect_error(errc::budget_exceeded, "request", [&] { static_cast<void>(take(bytes)); });
    EXPECT_EQ(rounds_, 1);
  }
  [[nodiscard]] std::uint64_t avoided() const { return read_spill_statistics(ctx()).refusals_avoided; }
  /// Requests bytes on another thread, which waits in line and frees them when it has got them.
  [[nodiscard]] std::jthread wait_in_line(std::uint64_t bytes) {
    const auto of = ctx()->memory_budget();
    std::jthread made([this, of, bytes] {
      if (of->charge_by(bytes, std::chrono::steady_clock::now() + std::chrono::minutes(1))) {
        served_ = true;
        EXPECT_TRUE(comes_true([&] { return give_back_.load(); }));
        of->refund(bytes);
      }
    });
    EXPECT_TRUE(comes_true([&] { return of->waiting() == 1; }));
    return made;
  }

  hook_registration watched_;
  int rounds_ = 0;
  std::atomic<bool> served_{false};
  std::atomic<bool> give_back_{false};
};

TEST_P(room_for_requests, is_not_taken_from_a_waiting_request) {
  const spill_handle kept = handle(1, 0, small);
  const spill_use used = kept.use(ctx());
  std::optional<buffer> half = take(room / 2);
  const std::jthread first = wait_in_line(room / 4 * 3);
  expect_refused(room / 4); // enough bytes are free, but they are kept for the waiting request
  EXPECT_EQ(avoided(), 0U);
  EXPECT_EQ(refused(), 1U);
  give_back_ = true;
  half.reset();
  EXPECT_TRUE(comes_true([&] { return served_.load(); }));
}

TEST_P(room_for_requests, is_made_for_the_waiting_request_first) {
  const spill_handle colder = handle(1);
  const spill_handle warmer = handle(2);
  const std::uint64_t bytes = in_use() / 2;
  const buffer rest = take(room - in_use());
  const std::jthread first = wait_in_line(bytes);
  rounds_ = 0;
  const buffer found = take(bytes);
  EXPECT_TRUE(comes_true([&] { return served_.load(); }));
  EXPECT_NE(colder.tier(), spill_tier::device);
  EXPECT_NE(warmer.tier(), spill_tier::device);
  EXPECT_LE(rounds_, 3);
  EXPECT_EQ(avoided(), 1U);
  EXPECT_EQ(refused(), 0U);
  give_back_ = true;
}

TEST_P(room_for_requests, does_not_include_reserved_bytes) {
  const spill_handle kept = handle(1, 0, small);
  const spill_use used = kept.use(ctx());
  const auto reserved = watch(ctx()->with_reservation(room / 2));
  expect_refused(room / 4 * 3);
  EXPECT_EQ(avoided(), 0U);
}

TEST_P(room_for_requests, is_made_by_spilling_although_a_reservation_holds_bytes) {
  const spill_handle kept = handle(1);
  const std::uint64_t bytes = in_use();
  const auto reserved = watch(ctx()->with_reservation(room - 2 * bytes));
  rounds_ = 0;
  EXPECT_EQ(take(2 * bytes - 64).size(), 2 * bytes - 64);
  EXPECT_NE(kept.tier(), spill_tier::device);
  EXPECT_LE(rounds_, 2);
  EXPECT_EQ(avoided(), 1U);
}

TEST_P(room_for_requests, treats_reserved_bytes_as_used_for_new_tables) {
  context_options chosen = options();
  chosen.spill.begin = chosen.spill.end = 0.5;
  watched_ = {};
  use_options(chosen);
  const spill_handle cold = handle(1, 0, small);
  const auto reserved = watch(ctx()->with_reservation(room / 2));
  const spill_handle made = handle(2, 0, small);
  EXPECT_NE(cold.tier(), spill_tier::device);
}

TEST_P(room_for_requests, is_made_by_a_pending_release) {
  use_stack("budget, direct"); // frees memory when the work on it has finished
  const spill_handle kept = handle(1);
  const std::uint64_t bytes = in_use();
  if (!ctx()->on_host()) { // page-locks in advance, because it would hang behind a gate
    std::optional<buffer> warm =
        buffer::allocate(ctx(), kept.bytes(), ctx()->work_stream(), "warm", 0, memory_kind::pinned);
    warm.reset();
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  }
  const buffer copy = take(bytes);
  const buffer rest = take(room - in_use());
  const auto reader = ctx()->borrow_stream();
  std::unique_ptr<gate> held;
  {
    const spill_use used = kept.use(ctx());
    const buffer values = used.value().batches().front().columns.front().values();
    use_token token(reader.ref(), {reads(values), writes(copy)});
    held = close_gate(reader.ref());
    ctx()->copies().copy(token.span<char>(copy).data(), token.span<const char>(values).data(), values.size(),
                         within(), reader.ref());
    token.finish();
  }
  std::atomic<bool> waited{false};
  const support::interrupts hook([&] { // called when the request waits
    if (held) {
      held->open();
    }
    waited = true;
  });
  rounds_ = 0;
  EXPECT_EQ(take(bytes).size(), bytes);
  EXPECT_EQ(waited, held != nullptr);
  EXPECT_NE(kept.tier(), spill_tier::device);
  EXPECT_EQ(refused(), 0U);
  EXPECT_EQ(rounds_, 1);
}

SAETA_CONFORMANCE_SUITE(room_for_requests);

} // namespace
} // namespace saeta::conformance
