#include "conformance/harness/context_watch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

namespace saeta::conformance {
namespace {

/// A timeout that only failing tests reach.
constexpr std::chrono::seconds long_enough{20};

std::uint64_t sum(const bytes_by_name& by_name) {
  return std::accumulate(by_name.begin(), by_name.end(), std::uint64_t{0},
                         [](std::uint64_t so_far, const auto& each) { return so_far + each.second; });
}

/// Returns whether decorators above the budget enlarge requests or keep freed blocks, so that the budget is
/// charged more than the ledger counts.
bool charges_more_than_was_asked(const context& of) {
  const auto& layers = of.options().memory.layers;
  const auto guard = std::find(layers.begin(), layers.end(), decorator_kind::guard);
  return std::find(guard, layers.end(), decorator_kind::budget) != layers.end();
}

/// Returns the live page-locked bytes, which are charged to another budget.
std::uint64_t page_locked(context& of) {
  std::uint64_t bytes = 0;
  for (const auto& [name, live] : of.reports().live_by_budget()) {
    bytes += !of.on_host() && name == of.pinned_budget()->name() ? live : 0;
  }
  return bytes;
}

/// Returns the live bytes that are charged to the budget of this context, a root or a derived one.
std::uint64_t answered_for(context& of) {
  return &of.root() == &of ? of.reports().statistics().ledger.own - page_locked(of)
                           : sum(of.reports().live_by_tag());
}

void check_stack(context& of, std::uint64_t live) {
  const resource_stack& stack = of.memory();
  if (stack.guard) {
    EXPECT_EQ(stack.guard->check(), 0U) << "the guard has found errors";
  }
  if (stack.cache) {
    const caching_statistics cached = stack.cache->statistics();
    EXPECT_GE(cached.in_use, live);
    EXPECT_GE(cached.held, cached.in_use);
    EXPECT_TRUE(cached.in_use == 0 || live != 0 || stack.guard) << "the cache and the ledger disagree";
  }
  if (stack.statistics && !stack.guard) {
    EXPECT_EQ(stack.statistics->read().live_bytes(), live) << "statistics and ledger disagree";
  }
}

void check_numbers(context& of) {
  EXPECT_TRUE(of.wait_for_releases(long_enough)) << "releases are pending for ever";
  const memory_statistics now = of.reports().statistics();
  EXPECT_EQ(now.pending_releases, 0U);
  if (!charges_more_than_was_asked(of)) {
    EXPECT_EQ(now.budget.current, answered_for(of)) << "the budget and the live buffers disagree";
    EXPECT_EQ(sum(of.reports().live_by_budget()), now.ledger.own) << "the ledger disagrees with itself";
  }
  EXPECT_EQ(sum(of.root().reports().live_by_tag()), now.ledger.own + now.ledger.external);
  EXPECT_GE(now.budget.peak, now.budget.current);
  EXPECT_LE(now.budget.current + now.budget.reserved, now.budget.limit);
  EXPECT_LE(now.budget.remaining, now.budget.limit - now.budget.current - now.budget.reserved);
  const std::uint64_t elsewhere = of.on_host() ? of.pinned().held_bytes() : page_locked(of);
  check_stack(of, now.ledger.own - std::min(now.ledger.own, elsewhere));
}

} // namespace

bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + long_enough;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

std::shared_ptr<context> context_watch::add(std::shared_ptr<context> made) {
  entries_.push_back({made->weak_from_this(), made->memory_budget(), made->pinned_budget()});
  return made;
}

void context_watch::check() const {
  // A view in one context may hold memory of another one, so a release in one may start a release in another.
  for (std::size_t round = 0; round < entries_.size(); ++round) {
    for (const entry& each : entries_) {
      if (const auto alive = each.made.lock()) {
        static_cast<void>(alive->wait_for_releases(long_enough));
      }
    }
  }
  for (const entry& each : entries_) {
    if (const auto alive = each.made.lock()) {
      SCOPED_TRACE(::testing::Message() << "the context with the budget '" << each.limit->name() << "'");
      check_numbers(*alive);
    }
  }
}

void context_watch::check_gone() const {
  for (const entry& each : entries_) {
    SCOPED_TRACE(::testing::Message() << "the context with the budget '" << each.limit->name() << "'");
    EXPECT_TRUE(comes_true([&] { return each.made.expired(); })) << "the context is still referred to";
    // The context expires as soon as its destructor begins, which may run on its release thread.
    EXPECT_TRUE(comes_true([&] { return each.limit->statistics().current == 0; }))
        << "bytes are charged without an owner";
    EXPECT_TRUE(comes_true([&] { return each.limit->statistics().reserved == 0; }))
        << "bytes are reserved without an owner";
    EXPECT_TRUE(comes_true([&] { return each.pinned->statistics().current == 0; }))
        << "page-locked bytes are charged without an owner";
  }
}

} // namespace saeta::conformance
