// Random operations on a tree of budgets, compared with a model of plain integers after each step.
#include "saeta/budget/reservation.hpp"
#include "saeta/budget/tree.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <random>
#include <vector>

namespace saeta {
namespace {

using unit::code_raised_by;

constexpr int none = -1;

/// The model: a tree of budgets without threads and credit.
struct model {
  std::vector<int> parents;
  std::vector<budget_statistics> nodes = std::vector<budget_statistics>(parents.size());

  [[nodiscard]] std::uint64_t room(int at) const {
    std::uint64_t least = budget::unlimited;
    for (int n = at; n != none; n = parents[index(n)]) {
      const budget_statistics& of = nodes[index(n)];
      least = std::min(least, of.limit - of.current - of.reserved);
    }
    return least;
  }
  template <class Change>
  void on_path(int at, Change change) {
    for (int n = at; n != none; n = parents[index(n)]) {
      change(nodes[index(n)]);
    }
  }
  void charge(int at, std::uint64_t bytes) {
    on_path(at, [&](budget_statistics& n) {
      n.current += bytes;
      n.peak = std::max(n.peak, n.current);
      ++n.requests;
    });
  }
  void refund(int at, std::uint64_t bytes) {
    on_path(at, [&](budget_statistics& n) { n.current -= bytes; });
  }
  void reserve(int at, std::uint64_t bytes) {
    on_path(at, [&](budget_statistics& n) { n.reserved += bytes; });
  }
  void unreserve(int at, std::uint64_t bytes) {
    on_path(at, [&](budget_statistics& n) { n.reserved -= bytes; });
  }
  /// Counts a refusal. Returns the index of the budget that lacks the bytes.
  int refuse(int at, std::uint64_t bytes) {
    int by = at;
    while (nodes[index(by)].limit - nodes[index(by)].current - nodes[index(by)].reserved >= bytes) {
      by = parents[index(by)];
    }
    ++nodes[index(at)].refused;
    nodes[index(by)].refused += by == at ? 0U : 1U;
    return by;
  }
  [[nodiscard]] budget_statistics of(int at) const {
    budget_statistics s = nodes[index(at)];
    s.remaining = room(at);
    return s;
  }
  static std::size_t index(int at) { return static_cast<std::size_t>(at); }
};

/// A reservation, its bytes in the model, and the index of its budget.
struct promised {
  int at;
  reservation real;
  std::uint64_t firm;
  std::uint64_t overbooked;
};

struct charged {
  int at;
  std::uint64_t bytes;
};

struct shape {
  unsigned seed;
  std::vector<int> parents;
};

void PrintTo(const shape& of, std::ostream* out) {
  *out << of.parents.size() << " budgets, seed " << of.seed;
}

/// Returns a tree with more budgets than may hold credit at the same time.
std::vector<int> many_budgets() {
  std::vector<int> parents{none, 0, 0};
  while (parents.size() < 4 * budget_tree::most_open) {
    parents.push_back(static_cast<int>(parents.size() % 3));
  }
  return parents;
}

class budget_model : public ::testing::TestWithParam<shape> {
protected:
  budget_model() {
    const auto& parents = GetParam().parents;
    for (std::size_t n = 0; n < parents.size(); ++n) {
      const std::uint64_t limit = n == 0 ? 10'000 : 2000 + 1000 * (n % 10);
      budgets_.push_back(parents[n] == none ? budget::create("root", limit)
                                            : budgets_[model::index(parents[n])]->make_child("child", limit));
      model_.nodes[n].limit = limit;
    }
  }

  budget& real(int at) { return *budgets_[model::index(at)]; }
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  int any_node() { return static_cast<int>(below(budgets_.size())); }
  template <class T>
  std::size_t any_of(const std::vector<T>& of) {
    return below(of.size());
  }

  void charge() {
    const int at = any_node();
    const std::uint64_t bytes = below(3000);
    const bool should = bytes <= model_.room(at);
    if (below(2) == 0) {
      ASSERT_EQ(real(at).try_charge(bytes), should);
    } else {
      const std::optional<budget_refusal> refused = real(at).charge_or_refuse(bytes);
      ASSERT_EQ(!refused, should);
      if (refused) {
        expect_numbers(*refused, bytes, model_.refuse(at, bytes));
      }
    }
    if (should) {
      model_.charge(at, bytes);
      charges_.push_back({at, bytes});
    }
  }

  void expect_numbers(const budget_refusal& refused, std::uint64_t bytes, int by) const {
    const budget_statistics& of = model_.nodes[model::index(by)];
    EXPECT_EQ(refused.requested, bytes);
    EXPECT_EQ(refused.current, of.current);
    EXPECT_EQ(refused.reserved, of.reserved);
    EXPECT_EQ(refused.limit, of.limit);
    EXPECT_EQ(refused.peak, of.peak);
    EXPECT_TRUE(refused.required > refused.limit);
  }

  void refund() {
    if (charges_.empty()) {
      return;
    }
    const std::size_t which = any_of(charges_);
    real(charges_[which].at).refund(charges_[which].bytes);
    model_.refund(charges_[which].at, charges_[which].bytes);
    charges_.erase(charges_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void reserve() {
    const int at = any_node();
    const std::uint64_t bytes = below(2000);
    const bool overbook = below(2) == 0;
    const std::uint64_t firm = std::min(bytes, model_.room(at));
    const auto policy = overbook ? overbooking::allow : overbooking::refuse;
    std::optional<reservation> made;
    const auto raised =
        code_raised_by([&] { made.emplace(reservation::make(budgets_[model::index(at)], bytes, policy)); });
    ASSERT_EQ(!raised, overbook || firm == bytes);
    if (raised) {
      model_.refuse(at, bytes);
      return;
    }
    model_.reserve(at, firm);
    promises_.push_back({at, std::move(*made), firm, bytes - firm});
  }

  void draw() {
    if (promises_.empty()) {
      return;
    }
    promised& from = promises_[any_of(promises_)];
    const std::uint64_t bytes = below(1000);
    const std::uint64_t firm = std::min(bytes, from.firm);
    const bool should =
        bytes <= from.firm + from.overbooked && (bytes == firm || bytes - firm <= model_.room(from.at));
    ASSERT_EQ(from.real.try_draw(bytes), should);
    if (!should) {
      return;
    }
    model_.unreserve(from.at, firm);
    model_.charge(from.at, bytes);
    from.firm -= firm;
    from.overbooked -= bytes - firm;
    if (below(3) == 0) {
      from.real.put_back(bytes);
      model_.refund(from.at, bytes);
      model_.reserve(from.at, bytes);
      from.firm += bytes;
    } else {
      charges_.push_back({from.at, bytes});
    }
    ASSERT_EQ(from.real.left(), from.firm + from.overbooked);
    ASSERT_EQ(from.real.overbooked(), from.overbooked);
  }

  void drop() {
    if (promises_.empty()) {
      return;
    }
    const std::size_t which = any_of(promises_);
    model_.unreserve(promises_[which].at, promises_[which].firm);
    promises_.erase(promises_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void set_limit() {
    const int at = any_node();
    budget_statistics& mine = model_.nodes[model::index(at)];
    const std::uint64_t limit = below(10'000);
    const bool should = mine.current + mine.reserved <= limit;
    ASSERT_EQ(!code_raised_by([&] { real(at).set_limit(limit); }), should);
    mine.limit = should ? limit : mine.limit;
  }

  void reset_peak() {
    const int at = any_node();
    real(at).reset_peak();
    model_.nodes[model::index(at)].peak = model_.nodes[model::index(at)].current;
  }

  void check() {
    for (int i = 0; i < 5; ++i) {
      const int at = budgets_.size() <= 5 ? i : any_node();
      ASSERT_EQ(real(at).statistics(), model_.of(at)) << "budget " << at;
    }
  }

  std::mt19937 random_{GetParam().seed};
  std::vector<std::shared_ptr<budget>> budgets_;
  model model_{GetParam().parents};
  std::vector<charged> charges_;
  std::vector<promised> promises_;
};

TEST_P(budget_model, agrees_with_the_model_after_every_step) {
  for (int step = 0; step < 25'000 && !HasFatalFailure(); ++step) {
    SCOPED_TRACE(step);
    switch (below(16)) {
    case 0:
      set_limit();
      break;
    case 1:
      reset_peak();
      break;
    case 2:
      reserve();
      break;
    case 3:
    case 4:
      draw();
      break;
    case 5:
      drop();
      break;
    default:
      below(2) == 0 ? charge() : refund();
    }
    ASSERT_NO_FATAL_FAILURE(check());
  }
}

const std::vector<int> few_budgets{none, 0, 0, 1, 1};

INSTANTIATE_TEST_SUITE_P(few, budget_model,
                         ::testing::Values(shape{1, few_budgets}, shape{2, few_budgets},
                                           shape{3, few_budgets}));
INSTANTIATE_TEST_SUITE_P(many, budget_model, ::testing::Values(shape{4, many_budgets()}));

} // namespace
} // namespace saeta
