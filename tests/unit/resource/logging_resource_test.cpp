// The fields of the records that the logging decorator writes.
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/error.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "saeta/resource/decorators/logging_resource.hpp"
#include "unit/observe/counted_new.hpp"

#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

namespace saeta {
namespace {

/// A resource whose results are set by the test.
class stub final : public resource {
public:
  block given;
  std::exception_ptr failure; ///< thrown by `allocate` if not null
  bool takes_back = true;
  std::size_t trimmed = 0;

  std::size_t trim() override { return trimmed; }
  [[nodiscard]] std::uint64_t held_bytes() const override { return 0; }

private:
  block do_allocate(const allocation_request&, const stream_ref&) override {
    if (failure) {
      std::rethrow_exception(failure);
    }
    return given;
  }
  bool do_deallocate(const block&, std::span<const point>) noexcept override { return takes_back; }
};

class logging_resource_test : public ::testing::Test {
protected:
  static constexpr device_id device_of_trims{device_kind::cuda, 3};

  logging_resource_test() {
    log->attach(sink);
    below->given.bytes = 100;
    below->given.pointer = &below->given;
    below->given.device = device->device();
    below->given.stream_id = one.ref().id();
    below->given.generation = 7;
    below->given.label = "orders";
  }
  [[nodiscard]] log_record last() const { return sink->records().back(); }
  [[nodiscard]] std::size_t count() const { return sink->records().size(); }
  void expect_block(const log_record& seen, memory_event event) const {
    EXPECT_EQ(seen.event, event);
    EXPECT_EQ(seen.device, device->device());
    EXPECT_EQ(seen.bytes, 100U);
    EXPECT_EQ(seen.address, reinterpret_cast<std::uintptr_t>(below->given.pointer));
    EXPECT_EQ(seen.generation, 7U);
    EXPECT_EQ(seen.label, tag("orders"));
  }

  std::shared_ptr<sim::device> device = sim::device::create();
  std::shared_ptr<timelines> clocks = timelines::of(*device);
  own_stream one{clocks};
  own_stream two{clocks};
  std::shared_ptr<stub> below = std::make_shared<stub>();
  std::shared_ptr<event_log> log = std::make_shared<event_log>();
  std::shared_ptr<memory_sink> sink = std::make_shared<memory_sink>();
  std::shared_ptr<budget> root = budget::create("root", 1000);
  logging_resource logged{below, log, root, device_of_trims};
};

TEST_F(logging_resource_test, records_the_block_the_stream_and_the_budget) {
  static_cast<void>(logged.allocate({.bytes = 100}, two.ref()));
  expect_block(last(), memory_event::allocate);
  EXPECT_EQ(last().stream, two.ref().id());
  EXPECT_EQ(last().account, tag());
  EXPECT_EQ(last().limit, 1000U);
  EXPECT_EQ(last().outcome, "ok");
  const auto query = root->make_child("query", 50);
  below->given.charged = query.get();
  static_cast<void>(logged.allocate({.bytes = 100}, two.ref()));
  EXPECT_EQ(last().account, tag("query"));
  EXPECT_EQ(last().limit, 50U);
  logging_resource without_limit(below, log);
  below->given.charged = nullptr;
  static_cast<void>(without_limit.allocate({.bytes = 100}, two.ref()));
  EXPECT_EQ(last().limit, 0U);
}

TEST_F(logging_resource_test, records_the_stream_of_the_first_user_of_a_free) {
  block freed = below->given;
  EXPECT_TRUE(logged.deallocate(freed, std::span<const point>()));
  expect_block(last(), memory_event::free);
  EXPECT_EQ(last().stream, one.ref().id());
  EXPECT_EQ(last().outcome, "ok");
  const point user = mark(two.ref());
  EXPECT_TRUE(logged.deallocate(freed, {&user, 1}));
  EXPECT_EQ(last().stream, two.ref().id());
  const point retired{timeline_id{1}, 1};
  EXPECT_TRUE(logged.deallocate(freed, {&retired, 1}));
  EXPECT_EQ(last().stream, one.ref().id()) << "the ended stream is not known any more";
  below->takes_back = false;
  EXPECT_FALSE(logged.deallocate(freed, std::span<const point>()));
  expect_block(last(), memory_event::free_failed);
  EXPECT_EQ(last().outcome, "the block could not be freed");
  EXPECT_EQ(count(), 4U);
}

TEST_F(logging_resource_test, records_failures) {
  struct {
    std::exception_ptr failure;
    std::string outcome;
  } const cases[] = {
      {std::make_exception_ptr(error(errc::out_of_memory, "the device is full")), "the device is full"},
      {std::make_exception_ptr(std::runtime_error("broken")), "broken"},
      {std::make_exception_ptr(5), "unknown exception"}};
  for (const auto& each : cases) {
    below->failure = each.failure;
    EXPECT_ANY_THROW(static_cast<void>(logged.allocate({.bytes = 9, .label = "lines"}, two.ref())));
    EXPECT_EQ(last().event, memory_event::fail);
    EXPECT_EQ(last().device, device->device());
    EXPECT_EQ(last().stream, two.ref().id());
    EXPECT_EQ(last().bytes, 9U);
    EXPECT_EQ(last().label, tag("lines"));
    EXPECT_EQ(last().account, tag());
    EXPECT_EQ(last().limit, 1000U);
    EXPECT_EQ(last().outcome, each.outcome);
  }
  EXPECT_EQ(count(), 3U);
}

TEST_F(logging_resource_test, records_trims_that_freed_bytes) {
  EXPECT_EQ(logged.trim(), 0U);
  EXPECT_EQ(count(), 0U);
  below->trimmed = 1;
  EXPECT_EQ(logged.trim(), 1U);
  ASSERT_EQ(count(), 1U);
  EXPECT_EQ(last().event, memory_event::trim);
  EXPECT_EQ(last().device, device_of_trims);
  EXPECT_EQ(last().stream, 0U);
  EXPECT_EQ(last().bytes, 1U);
  EXPECT_EQ(last().limit, 1000U);
  EXPECT_EQ(last().outcome, "ok");
}

TEST_F(logging_resource_test, makes_no_record_without_a_sink) {
  log->detach(sink);
  below->trimmed = 1;
  EXPECT_TRUE(logged.deallocate(logged.allocate({.bytes = 100}, one.ref()), std::span<const point>()));
  EXPECT_EQ(logged.trim(), 1U);
  below->failure = std::make_exception_ptr(error(errc::device, "a text that needs memory of its own"));
  below->takes_back = false;
  {
    const unit::failing_new no_memory(0);
    EXPECT_THROW(static_cast<void>(logged.allocate({.bytes = 100}, one.ref())), error);
    EXPECT_FALSE(logged.deallocate(below->given, std::span<const point>()));
  }
  log->attach(sink);
  EXPECT_EQ(count(), 0U);
  EXPECT_EQ(log->dropped(), 0U);
}

TEST_F(logging_resource_test, counts_a_lost_record_of_a_free_once) {
  const auto query = root->make_child("a budget whose name no record has had, which takes memory", 50);
  below->given.charged = query.get();
  {
    const unit::failing_new no_memory(0);
    EXPECT_TRUE(logged.deallocate(below->given, std::span<const point>()));
  }
  EXPECT_EQ(log->dropped(), 1U);
  EXPECT_EQ(count(), 0U) << "a record without the block";
}

TEST_F(logging_resource_test, counts_lost_records) {
  below->takes_back = false;
  {
    const unit::failing_new no_memory(0);
    EXPECT_FALSE(logged.deallocate(below->given, std::span<const point>()));
  }
  EXPECT_EQ(log->dropped(), 1U);
  below->failure = std::make_exception_ptr(error(errc::device, "a text that needs memory of its own"));
  {
    const unit::failing_new no_memory(0);
    EXPECT_THROW(static_cast<void>(logged.allocate({.bytes = 100}, one.ref())), error);
  }
  EXPECT_EQ(log->dropped(), 2U);
  EXPECT_EQ(count(), 0U);
}

} // namespace
} // namespace saeta
