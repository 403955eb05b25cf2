// Failures of the simulated device: random errors of its calls, and a lost device.
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/error.hpp"

#include <gmock/gmock.h>

#include <functional>
#include <optional>
#include <thread>

namespace saeta::sim {
namespace {

constexpr std::size_t call_bytes = 4096;

class simulated_driver : public ::testing::Test {
protected:
  static options with(std::uint64_t seed, pace how = pace::manual) {
    options chosen;
    chosen.seed = seed;
    chosen.total_bytes = std::uint64_t{1} << 20;
    chosen.how = how;
    return chosen;
  }
  /// Returns the code that the call throws, or nullopt if it succeeds.
  static std::optional<errc> code_of(const std::function<void()>& call) {
    try {
      call();
      return std::nullopt;
    } catch (const error& e) {
      return e.code();
    }
  }
  /// Returns every backend call that may throw, by name.
  std::vector<std::pair<const char*, std::function<void()>>> calls() {
    return {
        {"properties", [this] { static_cast<void>(on->properties()); }},
        {"create_stream", [this] { on->create_stream(); }},
        {"stream_id", [this] { on->stream_id(a); }},
        {"synchronize_stream", [this] { on->synchronize_stream(a); }},
        {"stream_idle", [this] { on->stream_idle(a); }},
        {"capturing", [this] { on->capturing(a); }},
        {"create_event", [this] { on->create_event(); }},
        {"record_event", [this] { on->record_event(event, a); }},
        {"record_context", [this] { on->record_context(event); }},
        {"wait_event", [this] { on->wait_event(a, event); }},
        {"event_complete", [this] { on->event_complete(event); }},
        {"synchronize_event", [this] { on->synchronize_event(event); }},
        {"allocate", [this] { on->allocate(call_bytes, 0); }},
        {"allocate_async", [this] { on->allocate_async(call_bytes, a); }},
        {"trim_pool", [this] { on->trim_pool(0); }},
        {"set_pool_threshold", [this] { on->set_pool_threshold(0); }},
        {"allocate_pinned",
         [this] {
           void* const made = on->allocate_pinned(call_bytes);
           EXPECT_TRUE(on->deallocate_pinned(made, call_bytes));
         }},
        {"enable_peer_access", [this] { on->enable_peer_access(*on); }},
        {"copy", [this] { on->copy(memory, pinned, call_bytes, copy_kind::host_to_device, a); }},
        {"fill", [this] { on->fill(memory, 1, call_bytes, a); }},
        {"kernel",
         [this] {
           auto* const first = static_cast<std::uint8_t*>(memory);
           on->kernels().pack_bool(a, first, 8, first + 512);
         }},
    };
  }

  void TearDown() override {
    if (!lost && on->live().pinned != 0) {
      EXPECT_TRUE(on->deallocate_pinned(pinned, call_bytes));
    }
  }
  void mark_lost() {
    on->mark_lost();
    lost = true;
  }

  bool lost = false;
  std::shared_ptr<device> on = device::create(with(7));
  stream_handle a = on->create_stream();
  event_handle event = on->create_event();
  void* memory = on->allocate(call_bytes, 0);
  void* pooled = on->allocate_async(call_bytes, a);
  void* pinned = on->allocate_pinned(call_bytes);
};

TEST_F(simulated_driver, fails_every_backend_call_on_request_without_side_effects) {
  const usage before = on->live();
  on->set_fail_percent(100);
  for (const auto& [name, call] : calls()) {
    EXPECT_EQ(code_of(call), errc::device) << name;
  }
  EXPECT_EQ(on->live(), before);
  on->set_fail_percent(0);
  EXPECT_TRUE(on->races().empty());
  for (const auto& [name, call] : calls()) {
    EXPECT_EQ(code_of(call), std::nullopt) << name;
  }
}

TEST_F(simulated_driver, fails_at_about_the_requested_rate) {
  on->set_fail_percent(30);
  int failed = 0;
  for (int i = 0; i < 1000; ++i) {
    failed += code_of([this] { on->stream_idle(a); }).has_value() ? 1 : 0;
  }
  EXPECT_GT(failed, 220);
  EXPECT_LT(failed, 380);
}

TEST_F(simulated_driver, fails_the_same_calls_with_the_same_seed) {
  const auto failures = [](std::uint64_t seed) {
    options chosen = with(seed);
    chosen.fail_percent = 50;
    const auto one = device::create(chosen);
    std::string found;
    for (int i = 0; i < 64; ++i) {
      found += code_of([&] { one->trim_pool(0); }) ? 'x' : '.';
    }
    return found;
  };
  EXPECT_EQ(failures(1), failures(1));
  EXPECT_NE(failures(1), failures(2));
}

TEST_F(simulated_driver, never_fails_to_free_or_to_run_work_of_other_libraries) {
  on->set_fail_percent(100);
  on->launch(a, "kernel", {}, {{memory, call_bytes}}, [] {});
  on->run();
  EXPECT_TRUE(on->deallocate_async(pooled, call_bytes, a));
  EXPECT_TRUE(on->deallocate_pinned(pinned, call_bytes));
  on->destroy_event(event);
  on->destroy_stream(a);
  EXPECT_EQ(on->live().streams + on->live().events + on->live().pinned, 0U);
}

TEST_F(simulated_driver, reports_a_lost_device) {
  bool ran = false;
  on->launch(a, "kernel", {}, {}, [&ran] { ran = true; });
  mark_lost();
  for (const auto& [name, call] : calls()) {
    EXPECT_EQ(code_of(call), errc::device_lost) << name;
  }
  on->run();
  EXPECT_FALSE(ran) << "work that was queued never runs";
}

TEST_F(simulated_driver, keeps_the_memory_of_a_lost_device) {
  mark_lost();
  EXPECT_FALSE(on->deallocate(memory, call_bytes, 0));
  EXPECT_FALSE(on->deallocate_async(pooled, call_bytes, a));
  EXPECT_FALSE(on->deallocate_pinned(pinned, call_bytes));
  on->destroy_event(event);
  on->destroy_stream(a);
  EXPECT_EQ(on->live().allocations, 2U);
  EXPECT_EQ(on->live().streams + on->live().events, 0U);
}

TEST_F(simulated_driver, loses_one_device_and_no_other) {
  options beside = with(7);
  beside.beside = on;
  const auto library = device::create(beside);
  beside.ordinal = 1;
  const auto other = device::create(beside);
  const stream_handle theirs = other->create_stream();
  const auto held = on->close_gate(a);
  on->record_event(event, a);
  other->wait_event(theirs, event);
  mark_lost();
  EXPECT_EQ(code_of([&] { library->create_stream(); }), errc::device_lost);
  other->synchronize_stream(theirs); // must not wait for the lost device
}

TEST_F(simulated_driver, wakes_a_thread_that_waits_for_a_lost_device) {
  const auto busy = device::create(with(7, pace::automatic));
  const stream_handle stream = busy->create_stream();
  const event_handle done = busy->create_event();
  const auto held = busy->close_gate(stream);
  busy->record_event(done, stream);
  std::optional<errc> found;
  std::thread waiting([&] { found = code_of([&] { busy->synchronize_event(done); }); });
  busy->mark_lost();
  waiting.join();
  EXPECT_EQ(found, errc::device_lost);
}

TEST_F(simulated_driver, ends_the_captures_of_a_lost_device) {
  on->begin_capture(a);
  mark_lost();
  EXPECT_FALSE(on->end_capture(a));
}

} // namespace
} // namespace saeta::sim
