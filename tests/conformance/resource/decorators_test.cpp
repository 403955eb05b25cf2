// Resource decorators on every backend: the records of logging, the errors found by the guard, and stacks in
// any order.

#include "conformance/harness/backends.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "saeta/resource/stack.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace saeta::conformance {
namespace {

using kind = guard_finding::kind;

class decorators : public backend_test {
protected:
  static constexpr std::uint64_t limit_bytes = 16 << 20;

  void SetUp() override {
    before_ = set_report_sink([](std::string_view, std::string_view) noexcept {}); // failures are expected
  }
  void TearDown() override {
    EXPECT_EQ(limit->statistics().current, 0u) << "every charge was given back";
    set_report_sink(before_);
    backend_test::TearDown();
  }

  [[nodiscard]] resource_stack build(std::string_view text, const guard_options& guard = {},
                                     std::function<std::shared_ptr<resource>()> base = {}) const {
    stack_options options;
    parse_stack(text, options);
    options.guard = guard;
    if (base) {
      options.custom_base = [base](const auto&) { return base(); };
    }
    return build_stack(options, {.device = shared_device(), .limit = limit, .log = log, .make_room = {}});
  }
  void fill(void* target, std::uint8_t value, std::size_t bytes) const {
    device().fill(target, value, bytes, work.ref().native_handle());
  }
  void finish() const { device().synchronize_stream(work.ref().native_handle()); }

  std::shared_ptr<budget> limit = budget::create("root", limit_bytes);
  std::shared_ptr<event_log> log = std::make_shared<event_log>();
  stream work{shared_device()};

private:
  report_sink before_ = nullptr;
};

std::uint8_t* bytes_of(const block& of) { return static_cast<std::uint8_t*>(of.pointer); }

/// The members of a log record that are the same in every run.
struct seen {
  std::uint64_t order;
  memory_event what;
  std::uint64_t bytes;
  std::string label;
  std::string account;
  std::uint64_t limit;
  bool ok;

  friend bool operator==(const seen&, const seen&) = default;
  friend void PrintTo(const seen& of, std::ostream* out) {
    *out << of.order << ' ' << to_string(of.what) << ' ' << of.bytes << " '" << of.label << "' '"
         << of.account << "' " << of.limit << (of.ok ? " ok" : " failed");
  }
};

std::vector<seen> summary(const memory_sink& sink) {
  std::vector<seen> all;
  for (const log_record& each : sink.records()) {
    all.push_back({each.order, each.event, each.bytes, each.label.name(), each.account.name(), each.limit,
                   each.outcome == "ok"});
  }
  return all;
}

std::ptrdiff_t count(const memory_sink& sink, memory_event wanted) {
  const auto records = sink.records();
  return std::count_if(records.begin(), records.end(),
                       [&](const log_record& each) { return each.event == wanted; });
}

TEST_P(decorators, log_of_a_full_stack_is_exact) {
  const auto sink = std::make_shared<memory_sink>();
  const auto query = limit->make_child("query", 1 << 20);
  const resource_stack stack = build("logging, statistics, budget, guard, fault, direct");
  log->attach(sink);

  const block first = stack.top->allocate({.bytes = 1000, .label = "orders"}, work.ref());
  const block second =
      stack.top->allocate({.bytes = 2000, .label = "lines", .charge_to = query.get()}, work.ref());
  const block none = stack.top->allocate({.label = "none"}, work.ref());
  EXPECT_THROW(
      static_cast<void>(stack.top->allocate({.bytes = 2 << 20, .charge_to = query.get()}, work.ref())),
      error);
  stack.fault->fail_allocation(1); // the guard repeats the request after freeing its quarantine
  const block retried = stack.top->allocate({.bytes = 10, .label = "retried"}, work.ref());
  EXPECT_THROW(static_cast<void>(stack.top->allocate(limit_bytes * 2, 0, work.ref())), error);
  EXPECT_TRUE(stack.top->deallocate(second, work.ref()));
  EXPECT_TRUE(stack.top->deallocate(first, work.ref()));
  EXPECT_FALSE(stack.top->deallocate(first, work.ref())) << "freed twice";
  EXPECT_TRUE(stack.top->deallocate(none, work.ref()));
  EXPECT_TRUE(stack.top->deallocate(retried, work.ref()));
  log->detach(sink);
  EXPECT_TRUE(stack.top->deallocate(stack.top->allocate(1, 0, work.ref()), work.ref())) << "without a sink";

  using enum memory_event;
  EXPECT_EQ(summary(*sink), (std::vector<seen>{{1, allocate, 1000, "orders", "root", limit_bytes, true},
                                               {2, allocate, 2000, "lines", "query", 1 << 20, true},
                                               {3, allocate, 0, "none", "root", limit_bytes, true},
                                               {4, refuse, 2 << 20, "", "query", 1 << 20, false},
                                               {5, allocate, 10, "retried", "root", limit_bytes, true},
                                               {6, refuse, limit_bytes * 2, "", "root", limit_bytes, false},
                                               {7, free, 2000, "lines", "query", 1 << 20, true},
                                               {8, free, 1000, "orders", "root", limit_bytes, true},
                                               {9, free_failed, 1000, "orders", "root", limit_bytes, false},
                                               {10, free, 0, "none", "root", limit_bytes, true},
                                               {11, free, 10, "retried", "root", limit_bytes, true}}));
  for (const log_record& each : sink->records()) {
    EXPECT_EQ(each.device, device().device());
    EXPECT_EQ(each.stream, work.ref().id());
  }
  EXPECT_EQ(sink->records()[0].address, reinterpret_cast<std::uintptr_t>(first.pointer));
  EXPECT_EQ(sink->records()[7].generation, first.generation);
  ASSERT_EQ(stack.guard->findings().size(), 1u);
  EXPECT_EQ(stack.guard->findings()[0].found, kind::unknown_block);
}

TEST_P(decorators, log_has_failures_below_the_budget_and_trims) {
  const auto sink = std::make_shared<memory_sink>();
  const resource_stack stack = build("logging, budget, fault, caching");
  log->attach(sink);
  stack.fault->fail_allocation(1);
  EXPECT_THROW(static_cast<void>(stack.top->allocate(100, 0, work.ref())), error);
  stack.fault->fail_free(1);
  const block made = stack.top->allocate(100, 0, work.ref());
  EXPECT_FALSE(stack.top->deallocate(made, work.ref()));
  EXPECT_EQ(limit->statistics().current, 100u) << "a failed free keeps its charge";
  EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
  finish();
  const std::size_t trimmed = stack.top->trim();
  EXPECT_GT(trimmed, 0u);

  using enum memory_event;
  EXPECT_EQ(summary(*sink), (std::vector<seen>{{1, fail, 100, "", "", limit_bytes, false},
                                               {2, allocate, 100, "", "root", limit_bytes, true},
                                               {3, free_failed, 100, "", "root", limit_bytes, false},
                                               {4, free, 100, "", "root", limit_bytes, true},
                                               {5, trim, trimmed, "", "", limit_bytes, true}}));
}

TEST_P(decorators, a_failing_sink_only_counts_lost_records) {
  class broken_sink final : public log_sink {
    void write(const log_record&) override { throw std::runtime_error("broken"); }
  };
  log->attach(std::make_shared<broken_sink>());
  const resource_stack stack = build("logging, budget, direct");
  const block made = stack.top->allocate(100, 0, work.ref());
  EXPECT_EQ(limit->statistics().current, 100u);
  EXPECT_THROW(static_cast<void>(stack.top->allocate(limit_bytes, 0, work.ref())), error);
  finish();
  EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
  EXPECT_EQ(log->dropped(), 3u);
}

TEST_P(decorators, guard_has_no_false_positives) {
  for (const std::size_t quarantine : {std::size_t{0}, std::size_t{4096}, std::size_t{64} << 20}) {
    const resource_stack stack = build("budget, guard, async", {.quarantine = quarantine});
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{255}, std::size_t{1000}, std::size_t{3} << 20}) {
      const block made = stack.top->allocate(bytes, 1024, work.ref());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.pointer) % 1024, 0u);
      EXPECT_EQ(made.bytes, bytes);
      fill(made.pointer, 1, bytes);
      EXPECT_EQ(stack.guard->check(), 0u);
      EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
      EXPECT_EQ(stack.guard->check(), 0u);
    }
    stack.top->trim();
    EXPECT_EQ(stack.guard->check(), 0u);
    EXPECT_EQ(stack.top->held_bytes(), 0u);
  }
}

TEST_P(decorators, guard_finds_bytes_written_beside_a_block) {
  const resource_stack stack = build("budget, guard, async");
  const block made = stack.top->allocate({.bytes = 1000, .label = "orders"}, work.ref());
  fill(bytes_of(made) + 1000, 7, 1);
  EXPECT_EQ(stack.guard->check(), 1u) << "found while it is alive";
  fill(bytes_of(made) - 3, 7, 3);
  EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
  stack.top->trim();

  const auto found = stack.guard->findings();
  ASSERT_EQ(found.size(), 2u) << "each is reported once";
  EXPECT_EQ(found[0].found, kind::back_canary);
  EXPECT_EQ(found[0].offset, 1000);
  EXPECT_EQ(found[1].found, kind::front_canary);
  EXPECT_EQ(found[1].offset, -3);
  for (const guard_finding& each : found) {
    EXPECT_EQ(each.label, tag("orders"));
    EXPECT_EQ(each.generation, made.generation);
    EXPECT_EQ(each.bytes, 1000u);
    EXPECT_NE(each.text.find("'orders' of 1000 bytes"), std::string::npos) << each.text;
  }
}

TEST_P(decorators, guard_finds_a_write_after_the_free_at_any_position) {
  constexpr std::size_t size = (2 << 20) + 100; // more than the guard reads back at a time
  const resource_stack stack = build("budget, guard, async");
  for (const std::size_t offset : {std::size_t{0}, std::size_t{1} << 20, size - 1}) {
    const std::size_t so_far = stack.guard->findings().size();
    const block made = stack.top->allocate(size, 0, work.ref());
    EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
    EXPECT_EQ(stack.guard->check(), so_far);
    fill(bytes_of(made) + offset, 7, 1);
    finish();
    stack.top->trim();
    ASSERT_EQ(stack.guard->findings().size(), so_far + 1);
    EXPECT_EQ(stack.guard->findings().back().found, kind::written_after_free);
    EXPECT_EQ(stack.guard->findings().back().offset, static_cast<std::int64_t>(offset));
  }
}

TEST_P(decorators, guard_fills_new_memory_and_keeps_freed_memory_from_reuse) {
  const resource_stack stack = build("budget, guard, caching");
  const block first = stack.top->allocate(4096, 0, work.ref());
  std::vector<std::uint8_t> content(4096);
  const bool on_host = device().device().kind == device_kind::cpu;
  device().copy(content.data(), first.pointer, 4096,
                on_host ? copy_kind::host_to_host : copy_kind::device_to_host, work.ref().native_handle());
  finish();
  EXPECT_EQ(content, std::vector<std::uint8_t>(4096, 0xA5));
  EXPECT_TRUE(stack.top->deallocate(first, work.ref()));
  const block second = stack.top->allocate(4096, 0, work.ref());
  EXPECT_NE(second.pointer, first.pointer);
  EXPECT_TRUE(stack.top->deallocate(second, work.ref()));
  stack.top->trim();
  EXPECT_EQ(stack.guard->check(), 0u);
}

/// A broken resource that returns the same memory for every request.
class overlapping_resource final : public decorator {
public:
  overlapping_resource(std::shared_ptr<resource> upstream, const stream_ref& stream)
      : decorator(std::move(upstream)), stream_(stream), all_(this->upstream().allocate(1 << 16, 0, stream)) {
  }
  ~overlapping_resource() override {
    stream_.owner().synchronize_stream(stream_.native_handle());
    EXPECT_TRUE(upstream().deallocate(all_, stream_));
  }

private:
  block do_allocate(const allocation_request& request, const stream_ref&) override {
    block made = all_;
    made.ready = {};
    made.bytes = request.bytes;
    made.label = request.label;
    made.generation = next_generation();
    return made;
  }
  bool do_deallocate(const block&, std::span<const point>) noexcept override { return true; }

  stream_ref stream_;
  block all_;
};

TEST_P(decorators, guard_finds_blocks_that_overlap) {
  const resource_stack stack = build("budget, guard", {}, [this] {
    return std::make_shared<overlapping_resource>(std::make_shared<direct_resource>(shared_device()),
                                                  work.ref());
  });
  const block first = stack.top->allocate({.bytes = 100, .label = "first"}, work.ref());
  const block second = stack.top->allocate({.bytes = 100, .label = "second"}, work.ref());
  ASSERT_EQ(stack.guard->findings().size(), 1u);
  EXPECT_EQ(stack.guard->findings()[0].found, kind::overlap);
  EXPECT_EQ(stack.guard->findings()[0].label, tag("second"));
  EXPECT_TRUE(stack.top->deallocate(first, work.ref()));
  EXPECT_TRUE(stack.top->deallocate(second, work.ref()));
  stack.top->trim();
  const block third = stack.top->allocate(100, 0, work.ref());
  EXPECT_EQ(stack.guard->findings().size(), 1u) << "freed blocks do not overlap";
  EXPECT_TRUE(stack.top->deallocate(third, work.ref()));
}

TEST_P(decorators, guard_checks_after_pending_work_without_blocking_the_free) {
  const resource_stack stack = build("budget, guard, async");
  const block made = stack.top->allocate(1000, 0, work.ref());
  const auto held = close_gate(work.ref().native_handle());
  fill(made.pointer, 7, 1000);
  EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
  if (held) {
    EXPECT_FALSE(work.ref().idle());
    held->open();
  }
  stack.top->trim();
  EXPECT_EQ(stack.guard->check(), 0u);
}

TEST_P(decorators, a_failed_free_upstream_can_be_repeated) {
  const resource_stack at_once = build("budget, guard, fault, direct", {.quarantine = 0});
  const block made = at_once.top->allocate(1000, 0, work.ref());
  at_once.fault->fail_free(1);
  EXPECT_FALSE(at_once.top->deallocate(made, work.ref()));
  EXPECT_EQ(limit->statistics().current, 1000u);
  EXPECT_TRUE(at_once.top->deallocate(made, work.ref()));
  EXPECT_EQ(at_once.top->held_bytes(), 0u);

  const resource_stack later = build("budget, guard, fault, direct");
  EXPECT_TRUE(later.top->deallocate(later.top->allocate(1000, 0, work.ref()), work.ref()));
  later.fault->fail_free(1);
  later.top->trim();
  EXPECT_GT(later.top->held_bytes(), 0u);
  later.top->trim();
  EXPECT_EQ(later.top->held_bytes(), 0u);
  EXPECT_EQ(later.guard->check() + at_once.guard->check(), 0u);
}

TEST_P(decorators, every_fault_position_leaves_exact_counters) {
  for (const std::string_view text :
       {"budget, statistics, guard, fault, direct", "statistics, budget, fault, async",
        "budget, statistics, fault, caching"}) {
    for (std::uint64_t position = 1; position <= 4; ++position) {
      const resource_stack stack = build(text, {.quarantine = 0});
      stack.fault->fail_allocation(position);
      std::vector<block> made;
      for (std::size_t i = 1; i <= 4; ++i) {
        try {
          made.push_back(stack.top->allocate(i * 1000, 0, work.ref()));
        } catch (const error& failure) {
          EXPECT_EQ(failure.code(), errc::out_of_memory) << failure.what();
        }
      }
      std::uint64_t live = 0;
      for (const block& each : made) {
        live += each.bytes;
      }
      EXPECT_EQ(made.size(), stack.guard ? 4u : 3u) << text << ": the guard asks again";
      EXPECT_EQ(stack.fault->failures(), 1u) << text;
      EXPECT_EQ(limit->statistics().current, live) << text;
      EXPECT_EQ(stack.statistics->read().live_bytes(), live) << text;
      finish();
      for (const block& each : made) {
        EXPECT_TRUE(stack.top->deallocate(each, work.ref()));
      }
      EXPECT_EQ(stack.statistics->read().live(), 0u) << text;
      EXPECT_EQ(limit->statistics().current, 0u) << text;
    }
  }
}

TEST_P(decorators, can_be_stacked_in_any_order_over_any_base) {
  std::vector<std::string> words{"budget", "fault", "guard", "logging", "statistics"}; // sorted
  do {
    std::string layers;
    for (const std::string& word : words) {
      layers += word + ", ";
    }
    for (const std::string base : {"direct", "async", "caching"}) {
      SCOPED_TRACE(layers + base);
      const auto sink = std::make_shared<memory_sink>();
      const resource_stack stack = build(layers + base);
      log->attach(sink);
      const block made = stack.top->allocate({.bytes = 100, .label = "block"}, work.ref());
      fill(made.pointer, 1, 100);
      EXPECT_GE(limit->statistics().current, 100u);
      finish();
      EXPECT_TRUE(stack.top->deallocate(made, work.ref()));
      stack.top->trim(); // below a guard with a quarantine, frees are logged only now
      log->detach(sink);
      EXPECT_EQ(limit->statistics().current, 0u);
      EXPECT_EQ(stack.statistics->read().live(), 0u);
      EXPECT_EQ(stack.guard->check(), 0u);
      EXPECT_EQ(stack.top->held_bytes(), 0u);
      EXPECT_EQ(count(*sink, memory_event::allocate), 1);
      EXPECT_EQ(count(*sink, memory_event::free), 1);
    }
  } while (std::next_permutation(words.begin(), words.end()));
}

TEST_P(decorators, a_full_stack_can_be_used_by_many_threads) {
  const resource_stack stack = build("logging, statistics, budget, guard, direct", {.quarantine = 64 << 10});
  const auto sink = std::make_shared<memory_sink>();
  log->attach(sink);
  std::vector<std::thread> threads;
  for (std::uint8_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const stream mine(shared_device());
      for (std::size_t round = 0; round < 50; ++round) {
        const block made = stack.top->allocate(100 + 97 * round, 0, mine.ref());
        device().fill(made.pointer, i, made.bytes, mine.ref().native_handle());
        EXPECT_TRUE(stack.top->deallocate(made, mine.ref()));
        if (round % 20 == 0) {
          EXPECT_EQ(stack.guard->check(), 0u);
        }
      }
      device().synchronize_stream(mine.ref().native_handle());
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  stack.top->trim();
  EXPECT_EQ(stack.guard->check(), 0u);
  EXPECT_EQ(count(*sink, memory_event::allocate), 200);
  EXPECT_EQ(count(*sink, memory_event::free), 200);
  EXPECT_EQ(stack.statistics->read().live(), 0u);
}

SAETA_CONFORMANCE_SUITE(decorators);

} // namespace
} // namespace saeta::conformance
