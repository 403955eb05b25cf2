// What contexts say of who holds what. tests/conformance/memory has the rest, on every backend.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/error.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace saeta {
namespace {

buffer take(const std::shared_ptr<context>& from, std::size_t bytes, tag label) {
  return buffer::allocate(from, bytes, from->work_stream(), label);
}

budget_refusal refusal_of(const std::function<void()>& request) {
  try {
    request();
  } catch (const error& e) {
    if (e.refusal() != nullptr) {
      return *e.refusal();
    }
  }
  ADD_FAILURE() << "not refused";
  return {};
}

class refusals_of_contexts : public testing::Test {
protected:
  refusals_of_contexts() {
    context_options options;
    options.budget = 10'000;
    home_ = context::create(make_host_backend(), options);
    query_ = home_->with_budget("query", 5000);
    other_ = home_->with_budget("other");
  }

  std::shared_ptr<context> home_;
  std::shared_ptr<context> query_;
  std::shared_ptr<context> other_;
};

TEST_F(refusals_of_contexts, a_child_that_is_full_lists_its_own_holders_alone) {
  const buffer mine = take(query_, 3000, "hash table");
  const auto step = query_->with_budget("step");
  const buffer below = take(step, 1000, "sort");
  const buffer theirs = take(other_, 4000, "orders");
  const budget_refusal refused = refusal_of([&] { static_cast<void>(take(query_, 1001, "more")); });
  EXPECT_EQ(refused.layer, "query");
  EXPECT_EQ(refused.owners, (bytes_by_name{{"hash table", 3000}, {"sort", 1000}}));
  EXPECT_TRUE(refused.others.empty());
}

TEST_F(refusals_of_contexts, a_child_whose_ancestor_is_full_lists_its_own_holders_and_then_the_others) {
  const buffer mine = take(query_, 1000, "hash table");
  const buffer theirs = take(other_, 6000, "orders");
  const buffer above = take(home_, 2000, "hash table");
  const budget_refusal refused = refusal_of([&] { static_cast<void>(take(query_, 1001, "more")); });
  EXPECT_EQ(refused.layer, "host");
  EXPECT_EQ(refused.owners, (bytes_by_name{{"hash table", 1000}}));
  EXPECT_EQ(refused.others, (bytes_by_name{{"orders", 6000}, {"hash table", 2000}}));
}

TEST_F(refusals_of_contexts, the_root_lists_what_is_charged_to_it_and_no_views) {
  const buffer mine = take(query_, 1000, "hash table");
  std::uint8_t lent[16];
  external_memory foreign;
  foreign.pointer = lent;
  foreign.bytes = sizeof lent;
  foreign.device = home_->device();
  foreign.keepalive = std::make_shared<int>();
  foreign.tag = "lent";
  const buffer view = buffer::adopt(home_, std::move(foreign));
  const budget_refusal refused = refusal_of([&] { static_cast<void>(take(home_, 9001, "more")); });
  EXPECT_EQ(refused.owners, (bytes_by_name{{"hash table", 1000}}));
  EXPECT_TRUE(refused.others.empty());
}

TEST_F(refusals_of_contexts, a_reservation_without_room_lists_them_too) {
  const buffer mine = take(query_, 1000, "hash table");
  const buffer theirs = take(other_, 6000, "orders");
  const budget_refusal refused = refusal_of([&] { static_cast<void>(query_->with_reservation(3500)); });
  EXPECT_EQ(refused.owners, (bytes_by_name{{"hash table", 1000}}));
  EXPECT_EQ(refused.others, (bytes_by_name{{"orders", 6000}}));
}

TEST(foreign_bytes, are_those_of_others_and_never_our_own) {
  const auto device = sim::device::create({.seed = 1, .how = sim::pace::automatic});
  const auto home = context::create(device);
  EXPECT_EQ(home->foreign_bytes(), 0U);
  {
    const buffer own = take(home, 40 << 20, "own");
    EXPECT_EQ(home->foreign_bytes(), 0U);
    const auto other_library = sim::device::create({.beside = device});
    void* const taken = other_library->allocate(8 << 20, 0);
    EXPECT_EQ(home->foreign_bytes(), std::uint64_t{8} << 20);
    EXPECT_TRUE(other_library->deallocate(taken, 8 << 20, 0));
  }
  EXPECT_TRUE(home->wait_for_releases(std::chrono::minutes(5)));
  EXPECT_EQ(home->foreign_bytes(), 0U) << "what is cached is ours";
}

} // namespace
} // namespace saeta
