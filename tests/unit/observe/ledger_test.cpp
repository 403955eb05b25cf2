#include "saeta/budget/budget.hpp"
#include "saeta/observe/ledger.hpp"
#include "saeta/observe/ledger_shard.hpp"
#include "unit/observe/counted_new.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace saeta {

/// Access to internals of the ledger: the cost of queries, and the entries that it keeps.
struct ledger_probe {
  static std::uint64_t visits(const ledger& of) {
    return sum_over(of, [](const auto& part) { return part.visits; });
  }
  /// Returns the number of sums and accounts.
  static std::uint64_t kept(const ledger& of) {
    return sum_over(of, [](const auto& part) { return part.sums.size() + part.accounts.size(); });
  }
  /// The maximum number of unused sums and accounts.
  static constexpr std::uint64_t most_idle = 2 * ledger::shard::most_idle;

  static std::unique_lock<spin_lock> hold_last(const ledger& of) {
    return std::unique_lock(of.shards_[ledger::shard::count - 1].lock);
  }
  static bool first_is_free(const ledger& of) {
    return std::unique_lock(of.shards_[0].lock, std::try_to_lock).owns_lock();
  }

private:
  template <class Number>
  static std::uint64_t sum_over(const ledger& of, Number number) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < ledger::shard::count; ++i) {
      sum += number(of.shards_[i]);
    }
    return sum;
  }
};

namespace {

/// A ledger whose entries are identified by number.
struct numbered_ledger : ledger {
  void add(std::size_t number, owner_kind kind, tag label, std::uint64_t bytes, const budget* charged) {
    entries[number] = ledger::add(kind, label, bytes, charged);
  }
  void remove(std::size_t number) {
    ledger::remove(entries.at(number));
    entries.erase(number);
  }
  std::map<std::size_t, entry> entries;
};

TEST(ledger, sums_by_kind_by_tag_and_by_budget) {
  const auto root = budget::create("root");
  const auto query = root->make_child("query");
  const auto step = query->make_child("step");
  numbered_ledger held;
  held.add(0, owner_kind::own, "orders", 100, root.get());
  held.add(1, owner_kind::own, "orders", 20, query.get());
  held.add(2, owner_kind::own, "hash table", 300, step.get());
  held.add(3, owner_kind::external, "lent", 7, nullptr);
  held.add(4, owner_kind::own, "", 0, root.get());

  EXPECT_EQ(held.totals(), (ledger_totals{.own = 420, .external = 7, .buffers = 5}));
  EXPECT_EQ(held.by_tag(),
            (bytes_by_name{{"hash table", 300}, {"orders", 120}, {"external:lent", 7}, {"", 0}}));
  EXPECT_EQ(held.by_tag(root.get()), (bytes_by_name{{"hash table", 300}, {"orders", 120}, {"", 0}}));
  EXPECT_EQ(held.by_tag(query.get()), (bytes_by_name{{"hash table", 300}, {"orders", 20}}));
  EXPECT_EQ(held.by_tag(step.get()), (bytes_by_name{{"hash table", 300}}));
  EXPECT_EQ(held.by_budget(), (bytes_by_name{{"step", 300}, {"root", 100}, {"query", 20}}));

  held.remove(1);
  EXPECT_EQ(held.by_tag(query.get()), (bytes_by_name{{"hash table", 300}}));
  EXPECT_EQ(held.by_budget(), (bytes_by_name{{"step", 300}, {"root", 100}}));
  for (const std::size_t rest : {0U, 2U, 3U, 4U}) {
    held.remove(rest);
  }
  EXPECT_EQ(held.totals(), ledger_totals{});
  EXPECT_TRUE(held.by_tag().empty());
}

TEST(ledger, removing_an_entry_keeps_the_other_entries_of_its_budget) {
  const auto root = budget::create("root");
  numbered_ledger held;
  for (std::size_t i = 0; i < 1000; ++i) {
    held.add(i, owner_kind::own, i % 2 == 0 ? "even" : "odd", 1 + i % 3, root.get());
  }
  for (std::size_t i = 0; i < 1000; i += 4) {
    held.remove(i);
  }
  std::uint64_t even = 0;
  std::uint64_t odd = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    (i % 2 == 0 ? even : odd) += i % 4 == 0 ? 0 : 1 + i % 3;
  }
  EXPECT_EQ(held.by_budget(), (bytes_by_name{{"root", even + odd}}));
  EXPECT_EQ(held.by_tag(root.get()), (bytes_by_name{{"odd", odd}, {"even", even}}));
  EXPECT_EQ(held.totals(), (ledger_totals{.own = even + odd, .buffers = 750}));
  while (!held.entries.empty()) {
    held.remove(held.entries.begin()->first);
  }
  EXPECT_TRUE(held.by_budget().empty());
}

TEST(ledger, separates_the_holders_of_a_child_budget_from_the_others) {
  const auto root = budget::create("root");
  const auto query = root->make_child("query");
  const auto step = query->make_child("step");
  const auto other = root->make_child("other");
  numbered_ledger held;
  held.add(0, owner_kind::own, "orders", 100, root.get());
  held.add(1, owner_kind::own, "orders", 20, query.get());
  held.add(2, owner_kind::own, "hash table", 300, step.get());
  held.add(3, owner_kind::own, "lines", 500, other.get());
  held.add(4, owner_kind::external, "lent", 7, nullptr);

  ledger::shares of = held.split(*query, *root);
  EXPECT_EQ(of.own, (bytes_by_name{{"hash table", 300}, {"orders", 20}}));
  EXPECT_EQ(of.others, (bytes_by_name{{"lines", 500}, {"orders", 100}})) << "no views: they are not charged";
  of = held.split(*root, *root);
  EXPECT_EQ(of.own, (bytes_by_name{{"lines", 500}, {"hash table", 300}, {"orders", 120}}));
  EXPECT_TRUE(of.others.empty());
}

TEST(ledger, removing_an_empty_entry_has_no_effect) {
  ledger::remove(ledger::entry());
  const auto root = budget::create("root");
  numbered_ledger held;
  held.add(0, owner_kind::own, "only", 10, root.get());
  ledger::remove(ledger::entry());
  EXPECT_EQ(held.by_tag(), (bytes_by_name{{"only", 10}}));
}

TEST(ledger, counts_all_added_bytes_by_kind) {
  const auto root = budget::create("root");
  numbered_ledger held;
  held.add(0, owner_kind::own, "a", 10, root.get());
  held.add(1, owner_kind::external, "b", 20, nullptr);
  held.add(2, owner_kind::own, "a", 30, root.get());
  held.remove(0);
  held.remove(1);
  EXPECT_EQ(held.additions().own, 2U);
  EXPECT_EQ(held.additions().external, 1U);
}

TEST(ledger, the_cost_of_queries_is_independent_of_the_number_of_buffers) {
  const auto root = budget::create("root");
  const auto query = root->make_child("query");
  constexpr std::array<const char*, 3> tags{"a", "b", "c"};
  numbered_ledger held;
  std::size_t added = 0;
  const auto add_up_to = [&](std::size_t count) {
    for (; added < count; ++added) {
      held.add(added, owner_kind::own, tags[added % 3], 1, added % 2 == 0 ? root.get() : query.get());
    }
  };
  const auto cost = [&] {
    const std::uint64_t before = ledger_probe::visits(held);
    EXPECT_EQ(held.totals().buffers, added);
    EXPECT_EQ(held.by_tag().size(), 3U);
    EXPECT_EQ(held.split(*query, *root).own.size(), 3U);
    EXPECT_EQ(held.by_budget().size(), 2U);
    return ledger_probe::visits(held) - before;
  };
  add_up_to(20'000);
  const std::uint64_t of_few = cost();
  add_up_to(100'000);
  EXPECT_EQ(cost(), of_few);
  const std::uint64_t before = ledger_probe::visits(held);
  EXPECT_EQ(held.by_budget().size(), 2U);
  EXPECT_EQ(ledger_probe::visits(held) - before, 3U) << "the budgets, and everything";
}

TEST(ledger, a_query_for_one_budget_does_not_visit_its_siblings) {
  const auto root = budget::create("root");
  numbered_ledger held;
  std::vector<std::shared_ptr<budget>> children;
  for (std::size_t i = 0; i < 1000; ++i) {
    children.push_back(root->make_child("child"));
    held.add(i, owner_kind::own, "rows", 1, children.back().get());
  }
  const std::uint64_t before = ledger_probe::visits(held);
  EXPECT_EQ(held.by_tag(children[500].get()), (bytes_by_name{{"rows", 1}}));
  EXPECT_EQ(ledger_probe::visits(held) - before, 1U);
}

TEST(ledger, keeps_a_bounded_number_of_empty_tags_and_budgets) {
  const auto root = budget::create("root");
  numbered_ledger held;
  held.add(0, owner_kind::own, "stays", 1, root.get());
  const std::uint64_t kept = ledger_probe::kept(held);
  for (std::size_t i = 1; i < 1000; ++i) {
    const auto child = root->make_child("child");
    held.add(i, owner_kind::own, "tag " + std::to_string(i % 10), 1, child.get());
    EXPECT_EQ(held.by_tag(child.get()).size(), 1U);
    held.remove(i);
    EXPECT_TRUE(held.by_tag(child.get()).empty());
    ASSERT_LE(ledger_probe::kept(held), kept + ledger_probe::most_idle);
  }
  EXPECT_EQ(held.by_budget(), (bytes_by_name{{"root", 1}}));
  EXPECT_EQ(held.by_tag(), (bytes_by_name{{"stays", 1}}));
}

TEST(ledger, does_not_confuse_budgets_with_the_same_address) {
  const auto first = budget::create("first");
  const auto second = budget::create("second");
  numbered_ledger held;
  // Consecutive budgets have the same address if the allocator reuses the memory.
  for (std::size_t i = 0; i < 20; ++i) {
    const auto& parent = i % 2 == 0 ? first : second;
    const auto& other = i % 2 == 0 ? second : first;
    const auto child = parent->make_child("child");
    held.add(i, owner_kind::own, "rows", 1, child.get());
    EXPECT_EQ(held.by_tag(parent.get()), (bytes_by_name{{"rows", 1}}));
    EXPECT_TRUE(held.by_tag(other.get()).empty());
    held.remove(i);
  }
}

TEST(ledger, repeated_entries_allocate_no_memory) {
  const auto root = budget::create("root");
  const auto query = root->make_child("query");
  const std::array<tag, 2> tags{"one", "two"};
  ledger held;
  const auto round = [&] {
    for (std::size_t i = 0; i < 200; ++i) {
      ledger::remove(held.add(owner_kind::own, tags[i % 2], 10, query.get()));
    }
  };
  round();
  const std::size_t before = unit::allocations();
  round();
  EXPECT_EQ(unit::allocations(), before);
}

TEST(ledger, a_failed_entry_changes_nothing) {
  const auto root = budget::create("root");
  const auto query = root->make_child("query");
  const tag label("label");
  std::size_t successes = 0;
  for (bool added = false; !added; ++successes) {
    ledger held;
    ledger::entry made;
    try {
      const unit::failing_new fails(successes);
      made = held.add(owner_kind::own, label, 10, query.get());
      added = true;
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(ledger_probe::kept(held), 0U) << successes;
      made = held.add(owner_kind::own, label, 10, query.get());
    }
    EXPECT_EQ(held.by_tag(query.get()), (bytes_by_name{{"label", 10}}));
    EXPECT_EQ(held.by_tag(), (bytes_by_name{{"label", 10}}));
    ledger::remove(made);
    EXPECT_EQ(held.totals(), ledger_totals{});
  }
  EXPECT_GT(successes, 5U) << "three sums and three accounts";
}

TEST(ledger, agrees_with_a_plain_list_after_every_step) {
  struct entry {
    owner_kind kind;
    std::string label;
    std::uint64_t bytes;
    std::size_t charged;
  };
  std::mt19937 random(1);
  const auto root = budget::create("0");
  const auto first = root->make_child("1");
  const std::array budgets{root, first, root->make_child("2"), first->make_child("3")};
  std::map<std::size_t, entry> model;
  numbered_ledger held;
  for (int step = 0; step < 5000; ++step) {
    const std::size_t which = random() % 100;
    if (model.erase(which) != 0) {
      held.remove(which);
    } else {
      const entry made{random() % 4 == 0 ? owner_kind::external : owner_kind::own,
                       "tag " + std::to_string(random() % 5), random() % 1000, random() % budgets.size()};
      model.emplace(which, made);
      held.add(which, made.kind, made.label, made.bytes,
               made.kind == owner_kind::own ? budgets[made.charged].get() : nullptr);
    }
    const auto within = [&](const budget* of) {
      std::map<std::string, std::uint64_t> sums;
      for (const auto& [number, each] : model) {
        const bool external = each.kind == owner_kind::external;
        if (of == nullptr || (!external && budgets[each.charged]->is_within(*of))) {
          sums[(external ? "external:" : "") + each.label] += each.bytes;
        }
      }
      return sums;
    };
    const auto as_map = [](const bytes_by_name& list) {
      EXPECT_TRUE(std::is_sorted(list.begin(), list.end(), [](const auto& a, const auto& b) {
        return std::pair(b.second, a.first) < std::pair(a.second, b.first);
      }));
      return std::map<std::string, std::uint64_t>(list.begin(), list.end());
    };
    ASSERT_EQ(as_map(held.by_tag()), within(nullptr));
    const budget* const of = budgets[random() % budgets.size()].get();
    ASSERT_EQ(as_map(held.by_tag(of)), within(of));
    ASSERT_EQ(held.totals().buffers, model.size());
  }
}

TEST(ledger, every_query_is_consistent) {
  const auto root = budget::create("root");
  const tag label("label");
  numbered_ledger held;
  const auto answers = {
      std::function<void()>([&] { EXPECT_EQ(held.totals().buffers, 1U); }),
      std::function<void()>([&] {
        EXPECT_EQ(held.by_tag(), (bytes_by_name{{"label", 10}}));
      }),
      std::function<void()>([&] {
        EXPECT_EQ(held.by_budget(), (bytes_by_name{{"root", 10}}));
      }),
      std::function<void()>([&] {
        EXPECT_EQ(held.split(*root, *root).own, (bytes_by_name{{"label", 10}}));
      }),
  };
  for (const auto& answer : answers) {
    held.add(0, owner_kind::own, label, 10, root.get());
    {
      // A query that waits for the last shard already holds the first one, so no bytes can move between them
      // unseen. If a query locked the shards one by one, the first would be free, and this loop would not
      // end.
      auto last = ledger_probe::hold_last(held);
      std::jthread asks(answer);
      while (ledger_probe::first_is_free(held)) {
        std::this_thread::yield();
      }
      last.unlock();
    }
    held.remove(0);
  }
}

TEST(ledger, moving_bytes_are_counted_once_in_every_query) {
  constexpr std::size_t count = 3;
  const auto root = budget::create("root");
  const tag label("label");
  ledger held;
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < count; ++t) {
    auto last = held.add(owner_kind::own, label, 10, root.get());
    threads.emplace_back([&, last](const std::stop_token& stop) mutable { // always holds one or two entries
      while (!stop.stop_requested()) {
        const auto next = held.add(owner_kind::own, label, 10, root.get());
        ledger::remove(std::exchange(last, next));
      }
    });
  }
  for (int round = 0; round < 5000; ++round) {
    const ledger_totals all = held.totals();
    ASSERT_GE(all.buffers, count);
    ASSERT_LE(all.buffers, 2 * count);
    ASSERT_EQ(all.own, 10 * all.buffers);
    const bytes_by_name by_tag = held.by_tag();
    ASSERT_EQ(by_tag.size(), 1U);
    ASSERT_GE(by_tag[0].second, 10 * count);
    ASSERT_LE(by_tag[0].second, 20 * count);
  }
}

} // namespace
} // namespace saeta
