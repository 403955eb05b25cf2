// RapidsMPF's spill manager and a context call each other to free memory. The manager is the real one; it
// needs no device.
#include "conformance/spill/spill_test.hpp"
#include "saeta/base/report.hpp"
#include "saeta/rapidsmpf/spill_link.hpp"

#include <array>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>

namespace saeta::conformance {
namespace {

class spill_links : public spill_test {
protected:
  void SetUp() override {
    spill_test::SetUp();
    // If less is spilled than requested, the manager would use its buffer resource, which is null here.
    manager_->add_spill_function(
        [this](std::size_t left) {
          left_ += left;
          return left;
        },
        std::numeric_limits<int>::min());
  }
  /// Returns how many of the requested bytes the spill functions of the manager have spilled.
  [[nodiscard]] std::size_t spilled(std::size_t bytes) {
    left_ = 0;
    return manager_->spill(bytes) - left_;
  }

  std::shared_ptr<rapidsmpf::SpillManager> manager_ = std::make_shared<rapidsmpf::SpillManager>(nullptr);
  std::size_t left_ = 0; ///< bytes that the last function was asked to spill
};

TEST_P(spill_links, spill_unused_tables_for_rapidsmpf) {
  const spill_handle first = handle(1);
  const spill_handle used = handle(2, -1);
  const spill_handle third = handle(3);
  const spill_use open = used.use(ctx());
  const spill_link link(ctx(), manager_);
  EXPECT_EQ(spilled(first.bytes()), first.bytes());
  EXPECT_NE(first.tier(), spill_tier::device) << "the longest unused";
  EXPECT_EQ(third.tier(), spill_tier::device);
  EXPECT_EQ(in_use(), used.bytes() + third.bytes());
  EXPECT_EQ(spilled(room), third.bytes()) << "tables in use are not spilled";
  EXPECT_TRUE(holds(first, 1));
}

TEST_P(spill_links, spill_only_tables_of_their_budget) {
  const auto child = ctx()->with_budget("child");
  const spill_handle outside = handle(1);
  const spill_handle inside = spillable(child, numbers(child, 2));
  const spill_link link(child, manager_);
  EXPECT_EQ(spilled(room), inside.bytes());
  EXPECT_EQ(outside.tier(), spill_tier::device);
}

TEST_P(spill_links, ask_rapidsmpf_to_spill_for_a_request) {
  std::optional<buffer> held = make(room / 2, "held by rapidsmpf");
  const spill_link link(ctx(), manager_);
  manager_->add_spill_function(
      [&](std::size_t) -> std::size_t {
        const std::size_t freed = held ? held->size() : 0;
        held.reset();
        return freed;
      },
      1);
  const buffer large = make(room * 3 / 4);
  EXPECT_FALSE(held.has_value());
  EXPECT_EQ(refused(), 0U);
}

TEST_P(spill_links, respect_the_priorities_of_the_manager) {
  const spill_handle kept = handle(1);
  const spill_link link(ctx(), manager_, 5);
  std::vector<int> order;
  const auto note = [&](int priority) {
    manager_->add_spill_function(
        [&order, priority, &kept](std::size_t) -> std::size_t {
          order.push_back(kept.tier() == spill_tier::device ? priority : -priority);
          return 0;
        },
        priority);
  };
  note(6);
  note(4);
  EXPECT_EQ(spilled(kept.bytes() + 1), kept.bytes());
  EXPECT_EQ(order, (std::vector{6, -4})) << "the function of the link is called in between";
}

TEST_P(spill_links, report_a_spill_function_that_throws) {
  static int reports;
  reports = 0;
  const spill_handle kept = handle(1, 0, rows * 2);
  const spill_link link(ctx(), manager_);
  manager_->add_spill_function(
      [](std::size_t) -> std::size_t { throw std::runtime_error("no room on the host"); }, 1);
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept { ++reports; });
  const buffer large = make(room * 3 / 4);
  set_report_sink(before);
  EXPECT_GT(reports, 0);
  EXPECT_NE(kept.tier(), spill_tier::device) << "the context makes room by itself";
}

TEST_P(spill_links, serve_both_sides_at_the_same_time) {
  constexpr int rounds = 50;
  const std::array kept{handle(1), handle(2), handle(3)};
  const spill_link link(ctx(), manager_);
  std::jthread rapidsmpf([&] {
    for (int round = 0; round < rounds; ++round) {
      manager_->spill(kept.front().bytes());
    }
  });
  for (int round = 0; round < rounds; ++round) {
    { const buffer large = make(room * 3 / 4); }
    for (const spill_handle& each : kept) {
      static_cast<void>(each.use(ctx()));
    }
  }
  rapidsmpf.join();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(holds(kept[i], i + 1));
  }
  EXPECT_EQ(refused(), 0U);
}

TEST_P(spill_links, end_when_they_are_dropped) {
  const spill_handle kept = handle(1);
  {
    spill_link first(ctx(), manager_);
    const spill_link moved(std::move(first));
  }
  EXPECT_EQ(spilled(kept.bytes()), 0U);
  left_ = 0;
  EXPECT_THROW(static_cast<void>(make(room + 1)), error);
  EXPECT_EQ(left_, 0U) << "the hook is gone";
}

TEST_P(spill_links, may_outlive_the_linked_objects) {
  auto other = new_context(options());
  auto there = std::make_shared<rapidsmpf::SpillManager>(nullptr);
  const spill_link without_context(other, manager_);
  other.reset();
  EXPECT_EQ(spilled(1), 0U);
  const spill_link without_manager(ctx(), there);
  there.reset();
  EXPECT_THROW(static_cast<void>(make(room * 2)), error);
}

SAETA_CONFORMANCE_SUITE(spill_links);

} // namespace
} // namespace saeta::conformance
