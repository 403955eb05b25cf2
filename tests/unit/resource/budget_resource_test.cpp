// The budget decorator: what it charges, and when it calls for memory to be freed.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/budget/reservation.hpp"
#include "saeta/resource/decorators/budget_resource.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace saeta {
namespace {

/// A resource that fails a given number of times.
class failing_resource final : public resource {
public:
  std::size_t failures = 0;
  errc code = errc::out_of_memory;
  bool takes_back = true;

  std::size_t trim() override { return 0; }
  [[nodiscard]] std::uint64_t held_bytes() const override { return 0; }

private:
  block do_allocate(const allocation_request& request, const stream_ref&) override {
    if (failures != 0) {
      --failures;
      throw error(code, "refused");
    }
    block made;
    made.bytes = request.bytes;
    return made;
  }
  bool do_deallocate(const block&, std::span<const point>) noexcept override { return takes_back; }
};

class budget_resource_test : public ::testing::Test {
protected:
  static constexpr std::uint64_t limit = 1000;

  /// The arguments of one call that asks for memory to be freed.
  struct question {
    std::uint64_t bytes;
    budget* full;
    std::size_t attempt;
    friend bool operator==(const question&, const question&) = default;
  };
  block take(std::uint64_t bytes) { return charged.allocate({.bytes = bytes}, work_.ref()); }
  std::optional<errc> refused(const allocation_request& request) {
    return unit::code_raised_by([&] { static_cast<void>(charged.allocate(request, work_.ref())); });
  }
  [[nodiscard]] std::uint64_t current() const { return root->statistics().current; }

  std::shared_ptr<failing_resource> below = std::make_shared<failing_resource>();
  std::shared_ptr<budget> root = budget::create("root", limit);
  std::vector<question> asked;
  budget_resource::relief answer = [](shortage&) { return false; };
  budget_resource charged{below, root, [this](shortage& need) {
                            asked.push_back({need.bytes, need.full, need.attempt});
                            return answer(need);
                          }};

  std::shared_ptr<backend> device_ = make_host_backend();
  stream work_{device_};
};

TEST_F(budget_resource_test, does_not_ask_for_memory_if_the_budget_has_room) {
  const block made = take(limit);
  EXPECT_EQ(made.charged, root.get());
  EXPECT_EQ(current(), limit);
  EXPECT_TRUE(charged.deallocate(made, std::span<const point>()));
  EXPECT_EQ(current(), 0U);
  EXPECT_TRUE(asked.empty());
}

TEST_F(budget_resource_test, asks_for_memory_until_the_request_fits_or_none_is_freed) {
  const block standing = take(limit);
  answer = [](shortage& need) { return need.attempt < 2; };
  EXPECT_EQ(refused({.bytes = 10}), errc::budget_exceeded);
  EXPECT_EQ(asked, (std::vector<question>{{10, root.get(), 0}, {10, root.get(), 1}, {10, root.get(), 2}}));
  EXPECT_EQ(current(), limit);
  asked.clear();
  answer = [&](shortage& need) {
    if (need.attempt == 1) {
      EXPECT_TRUE(charged.deallocate(standing, std::span<const point>()));
    }
    return true;
  };
  take(10);
  EXPECT_EQ(asked.size(), 2U);
  EXPECT_EQ(current(), 10U);
}

TEST_F(budget_resource_test, does_not_charge_again_what_the_callback_charged) {
  const block standing = take(limit);
  answer = [&](shortage& need) {
    EXPECT_TRUE(charged.deallocate(standing, std::span<const point>()));
    need.charged = need.full->try_charge(need.bytes);
    return need.charged;
  };
  take(600);
  EXPECT_EQ(current(), 600U);
}

TEST_F(budget_resource_test, asks_for_memory_if_upstream_fails_and_refunds_its_charge) {
  below->failures = 2;
  answer = [](shortage&) { return true; };
  const block made = take(10);
  EXPECT_EQ(asked, (std::vector<question>{{10, nullptr, 0}, {10, nullptr, 1}}));
  EXPECT_TRUE(charged.deallocate(made, std::span<const point>()));
  below->failures = 1;
  answer = [](shortage&) { return false; };
  EXPECT_EQ(refused({.bytes = 10}), errc::out_of_memory);
  EXPECT_EQ(asked.size(), 3U);
  below->failures = 1;
  below->code = errc::device;
  EXPECT_EQ(refused({.bytes = 10}), errc::device);
  EXPECT_EQ(asked.size(), 3U) << "more memory would not help";
  EXPECT_EQ(current(), 0U);
  budget_resource alone(below, root);
  below->failures = 1;
  below->code = errc::out_of_memory;
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(alone.allocate({.bytes = 10}, work_.ref())); }),
            errc::out_of_memory);
  EXPECT_EQ(current(), 0U);
}

TEST_F(budget_resource_test, draws_from_a_reservation_and_returns_failed_draws) {
  const auto query = root->make_child("query");
  reservation promised = reservation::make(query, 100);
  const block made = charged.allocate({.bytes = 60, .draw_from = &promised}, work_.ref());
  EXPECT_EQ(made.charged, query.get());
  EXPECT_EQ(promised.left(), 40U);
  EXPECT_EQ(refused({.bytes = 41, .draw_from = &promised}), errc::budget_exceeded);
  EXPECT_EQ(promised.left(), 40U);
  below->failures = 1;
  EXPECT_EQ(refused({.bytes = 40, .draw_from = &promised}), errc::out_of_memory);
  EXPECT_EQ(promised.left(), 40U);
  EXPECT_EQ(query->statistics().current, 60U);
  EXPECT_TRUE(charged.deallocate(made, std::span<const point>()));
  EXPECT_EQ(query->statistics().current, 0U);
}

TEST_F(budget_resource_test, keeps_the_charge_of_a_block_whose_free_fails) {
  const auto query = root->make_child("query");
  block made = charged.allocate({.bytes = 60, .charge_to = query.get()}, work_.ref());
  EXPECT_EQ(made.charged, query.get());
  below->takes_back = false;
  EXPECT_FALSE(charged.deallocate(made, std::span<const point>()));
  EXPECT_EQ(query->statistics().current, 60U);
  below->takes_back = true;
  EXPECT_TRUE(charged.deallocate(made, std::span<const point>()));
  EXPECT_EQ(query->statistics().current, 0U);
  made.charged = nullptr; // charged to no budget
  EXPECT_TRUE(charged.deallocate(made, std::span<const point>()));
}

} // namespace
} // namespace saeta
