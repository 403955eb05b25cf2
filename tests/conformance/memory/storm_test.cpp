// Many threads use one context, while another thread checks its statistics.
#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"

#include <array>
#include <atomic>
#include <random>
#include <thread>

namespace saeta::conformance {
namespace {

constexpr std::size_t unit = 4096; // all requests are multiples of this
constexpr std::size_t largest = 8 * unit;

/// The bytes that one thread holds, published for others: exactly `bytes`, or all or none of them while it
/// allocates or frees. The atomic word includes a counter of changes, so that two equal readings mean no
/// change in between.
class holding {
public:
  void changing(std::size_t bytes) { publish(bytes, true); }
  void exactly(std::size_t bytes) { publish(bytes, false); }
  [[nodiscard]] std::uint64_t word() const { return word_; }

  static std::uint64_t at_least(std::uint64_t word) { return word & in_change ? 0 : word & amount; }
  static std::uint64_t at_most(std::uint64_t word) { return word & amount; }

private:
  static constexpr std::uint64_t in_change = 1U << 31;
  static constexpr std::uint64_t amount = in_change - 1;

  void publish(std::size_t bytes, bool change) {
    word_ = ((word_ >> 32) + 1) << 32 | (change ? in_change : 0) | bytes;
  }
  alignas(64) std::atomic<std::uint64_t> word_{0};
};

constexpr std::size_t many = 16;
using holdings = std::array<holding, many>;

std::array<std::uint64_t, many> words(const holdings& all) {
  std::array<std::uint64_t, many> seen{};
  for (std::size_t i = 0; i < many; ++i) {
    seen[i] = all[i].word();
  }
  return seen;
}

class storm : public context_test {
protected:
  void SetUp() override {
    context_options options;
    options.budget = many * largest * 6 / 10 / unit * unit;
    options.pressure.wait = std::chrono::minutes(5);
    context_ = new_context(options);
  }

  /// Reads the statistics of the context once, and reports impossible numbers as failures.
  void sample(const holdings& all) const {
    const auto before = words(all);
    const budget_statistics now = ctx()->memory_budget()->statistics();
    const auto after = words(all);
    std::uint64_t at_least = 0;
    std::uint64_t at_most = 0;
    for (std::size_t i = 0; i < many; ++i) {
      const bool still = before[i] == after[i];
      at_least += still ? holding::at_least(after[i]) : 0;
      at_most += still ? holding::at_most(after[i]) : largest;
    }
    EXPECT_GE(now.current, at_least);
    EXPECT_LE(now.current, at_most);
    EXPECT_EQ(now.current % unit, 0U) << "part of a charge";
    EXPECT_LE(now.current, now.limit);
    EXPECT_LE(now.current, now.peak);
    EXPECT_LE(now.peak, now.limit);
    EXPECT_EQ(now.remaining, now.limit - now.current);
    EXPECT_EQ(now.refused, 0U) << "others were going to free";
  }
  /// Allocates, writes, verifies and frees a buffer.
  void live(std::size_t bytes, std::uint8_t pattern, stream_ref own, holding& mine) const {
    mine.changing(bytes);
    {
      const buffer held = buffer::allocate(ctx(), bytes, own, "storm");
      mine.exactly(bytes);
      fill(held, pattern, own);
      std::vector<std::uint8_t> content(bytes);
      queue_read(held, content.data(), own);
      ctx()->synchronize(own);
      EXPECT_EQ(content, std::vector<std::uint8_t>(bytes, pattern));
      mine.changing(bytes);
    }
    mine.exactly(0);
  }
};

TEST_P(storm, sixteen_threads_with_sixty_percent_of_their_demand_are_all_served) {
  constexpr unsigned rounds = 40;
  holdings all;
  std::atomic<std::size_t> running{many};
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < many; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      const auto own = ctx()->borrow_stream();
      for (unsigned round = 0; round < rounds; ++round) {
        live((1 + random() % (largest / unit)) * unit, static_cast<std::uint8_t>(t * rounds + round),
             own.ref(), all[t]);
      }
      --running;
    });
  }
  do {
    sample(all);
  } while (running != 0);
  threads.clear();
  sample(all);
  const budget_statistics after = ctx()->reports().statistics().budget;
  EXPECT_EQ(after.current, 0U);
  EXPECT_EQ(after.requests, std::uint64_t{many} * rounds);
  EXPECT_EQ(ctx()->memory_budget()->waiting(), 0U);
  EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, 0U);
}

TEST_P(storm, a_refused_request_is_never_visible_to_other_threads) {
  context_options options;
  options.budget = 1000;
  const auto ctx = new_context(options);
  const buffer kept = buffer::allocate(ctx, 600, ctx->work_stream(), "kept");
  std::atomic<bool> done{false};
  std::jthread asker([&] {
    for (int round = 0; round < 2000; ++round) {
      EXPECT_THROW(static_cast<void>(buffer::allocate(ctx, 401, ctx->work_stream())), error);
    }
    done = true;
  });
  while (!done) {
    const budget_statistics now = ctx->reports().statistics().budget;
    EXPECT_EQ(now.current, 600U);
    EXPECT_EQ(now.peak, 600U);
    EXPECT_EQ(now.remaining, 400U);
  }
  asker.join();
  EXPECT_EQ(ctx->reports().statistics().budget.refused, 2000U);
}

SAETA_CONFORMANCE_SUITE(storm);

} // namespace
} // namespace saeta::conformance
