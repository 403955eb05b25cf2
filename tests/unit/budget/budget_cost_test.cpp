// The cost of budget operations, as the number of shards that they visit: independent of the number of other
// budgets.
#include "saeta/budget/reservation.hpp"
#include "support/budget_probe.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace saeta {
namespace {

/// A root with `siblings` children that have each been charged once, so that each may hold credit.
struct family {
  explicit family(std::size_t siblings) {
    for (std::size_t i = 0; i < siblings; ++i) {
      children.push_back(root->make_child("child", 1 << 30));
      EXPECT_TRUE(children.back()->try_charge(1000));
      children.back()->refund(1000);
    }
  }
  [[nodiscard]] std::uint64_t visits_of(const std::function<void()>& call) const {
    const std::uint64_t before = budget_probe::visits(*root);
    call();
    return budget_probe::visits(*root) - before;
  }

  std::shared_ptr<budget> root = budget::create("root", 1 << 20);
  std::vector<std::shared_ptr<budget>> children;
};

/// Runs `action` on a thread that uses another credit shard than this one.
void on_another_shard(const std::function<void()>& action) {
  const std::size_t here = thread_number() % budget_tree::node::shards;
  for (bool done = false; !done;) {
    std::thread([&] {
      done = thread_number() % budget_tree::node::shards != here;
      if (done) {
        action();
      }
    }).join();
  }
}

class budget_cost : public ::testing::Test {
protected:
  static void expect_no_lock_of_the_tree(const budget& of, const std::function<void()>& call) {
    const std::uint64_t before = budget_probe::locks(of);
    call();
    EXPECT_EQ(budget_probe::locks(of) - before - 1, 0U);
  }
  static void expect_the_same(const std::function<void(family&)>& call) {
    family some(1000);
    family many(5000);
    const std::uint64_t of_some = some.visits_of([&] { call(some); });
    const std::uint64_t of_many = many.visits_of([&] { call(many); });
    EXPECT_GT(of_some, 0U) << "the probe sees the call";
    EXPECT_EQ(of_some, of_many);
  }
};

TEST_F(budget_cost, of_a_new_peak_is_independent_of_the_number_of_siblings) {
  expect_the_same([](family& of) {
    ASSERT_TRUE(of.children.back()->try_charge(500'000));
    of.children.back()->refund(500'000);
  });
}

TEST_F(budget_cost, of_a_refusal_is_independent_of_the_number_of_siblings) {
  expect_the_same([](family& of) { ASSERT_TRUE(of.children.back()->charge_or_refuse((1 << 20) + 1)); });
}

TEST_F(budget_cost, of_statistics_is_independent_of_the_number_of_siblings) {
  expect_the_same([](family& of) {
    ASSERT_EQ(of.root->statistics().current, 0U);
    ASSERT_EQ(of.root->statistics().requests, of.children.size());
    ASSERT_EQ(of.children.front()->statistics().requests, 1U);
  });
}

TEST_F(budget_cost, of_a_reservation_is_independent_of_the_number_of_siblings) {
  expect_the_same([](family& of) {
    reservation promised = reservation::make(of.children.back(), 1 << 20);
    ASSERT_TRUE(promised.try_draw(1 << 20));
    of.children.back()->refund(1 << 20);
  });
}

TEST_F(budget_cost, of_a_window_is_independent_of_the_number_of_siblings) {
  expect_the_same([](family& of) {
    const budget_window window = of.root->open_window();
    of.root->reset_peak();
    ASSERT_EQ(window.read().peak, 0U);
  });
}

TEST_F(budget_cost, of_a_charge_within_the_peak_is_bounded_for_many_alternating_budgets) {
  const family of(1000);
  ASSERT_TRUE(of.root->try_charge(1 << 20));
  of.root->refund(1 << 20);
  constexpr std::uint64_t passes =
      8; // passes over the open shards: search for an idle one, lock, take, unlock
  for (const auto& child : of.children) {
    EXPECT_LE(of.visits_of([&] {
      ASSERT_TRUE(child->try_charge(10));
      child->refund(10);
    }),
              passes * 256);
  }
}

TEST_F(budget_cost, of_a_search_for_an_idle_shard_is_one_pass_over_the_open_ones) {
  family of(0);
  const auto charge_another = [&] {
    of.children.push_back(of.root->make_child("child"));
    ASSERT_TRUE(of.children.back()->try_charge(0)); // opens a shard without credit
  };
  for (std::size_t i = 0; i < budget_tree::most_open; ++i) {
    EXPECT_EQ(of.visits_of(charge_another), 0U);
  }
  EXPECT_EQ(of.visits_of(charge_another), budget_tree::most_open + 1) << "all have been in use";
  EXPECT_EQ(of.visits_of(charge_another), 1U) << "the next one has not been since";
}

TEST_F(budget_cost, unused_budgets_cost_nothing_after_a_while) {
  const family of(1000);
  const auto cost = [&] { return of.visits_of([&] { EXPECT_EQ(of.root->statistics().current, 0U); }); };
  EXPECT_GT(cost(), 0U);
  std::uint64_t latest = 0;
  for (int i = 0; i < 100; ++i) {
    latest = cost();
  }
  EXPECT_EQ(latest, 0U);
  EXPECT_EQ(of.root->statistics().requests, of.children.size());
}

TEST_F(budget_cost, a_budget_in_use_keeps_its_credit_while_others_are_created) {
  const family of(0);
  ASSERT_TRUE(of.root->try_charge(1 << 20));
  of.root->refund(1 << 20);
  const auto busy = of.root->make_child("busy");
  ASSERT_TRUE(busy->try_charge(1000));
  busy->refund(1000);
  for (std::size_t i = 0; i < 1000; ++i) {
    const auto visitor = of.root->make_child("visitor");
    ASSERT_TRUE(visitor->try_charge(1));
    EXPECT_EQ(of.visits_of([&] {
      ASSERT_TRUE(busy->try_charge(10));
      busy->refund(10);
    }),
              0U)
        << "it went to the tree";
    visitor->refund(1);
  }
}

TEST_F(budget_cost, budgets_in_use_keep_their_credit_when_credit_is_scarce) {
  constexpr std::size_t rounds = 3 * budget_tree::most_open;
  const family of(0);
  const auto taking = of.root->make_child("taking");
  const auto giving = of.root->make_child("giving");
  ASSERT_TRUE(taking->try_charge(1 << 20)); // the first open shard
  taking->refund(1 << 20);
  std::vector<std::shared_ptr<budget>> visitors{of.root->make_child("visitor")};
  ASSERT_TRUE(visitors.back()->try_charge(0)); // the second open shard, where the next search begins
  ASSERT_TRUE(giving->try_charge(rounds));
  visitors.back()->refund(0); // marks it as used, so that the first search is a whole pass
  for (std::size_t i = 0; i < rounds; ++i) {
    visitors.push_back(of.root->make_child("visitor"));
    ASSERT_TRUE(visitors.back()->try_charge(1));
    expect_no_lock_of_the_tree(*of.root, [&] {
      ASSERT_TRUE(taking->try_charge(1));
      giving->refund(1);
    });
    visitors.back()->refund(1);
  }
  taking->refund(rounds);
}

TEST_F(budget_cost, an_idle_budget_gets_credit_again_when_it_is_used) {
  const family of(0);
  ASSERT_TRUE(of.root->try_charge(1 << 20));
  of.root->refund(1 << 20);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(of.root->statistics().current, 0U);
  }
  ASSERT_TRUE(of.root->try_charge(1)); // its idle shard was closed
  EXPECT_EQ(of.root->statistics().current, 1U);
  expect_no_lock_of_the_tree(*of.root, [&] { of.root->refund(1); });
  EXPECT_EQ(of.root->statistics().requests, 2U);
}

TEST_F(budget_cost, a_refund_under_the_trees_lock_leaves_credit_to_the_thread) {
  const auto b = budget::create("test", 1000);
  ASSERT_TRUE(b->try_charge(1000));
  on_another_shard([&] {
    b->refund(1000);
    expect_no_lock_of_the_tree(*b, [&] { ASSERT_TRUE(b->try_charge(1000 / 64)); });
    b->refund(1000 / 64);
  });
  EXPECT_EQ(b->statistics(),
            (budget_statistics{.limit = 1000, .remaining = 1000, .peak = 1000, .requests = 2}));
}

} // namespace
} // namespace saeta
