#include "saeta/base/report.hpp"
#include "saeta/base/thread_number.hpp"
#include "saeta/observe/event_log.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "support/child_process.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <thread>

namespace saeta {
namespace {

log_record record_of(std::uint64_t bytes) {
  log_record record;
  record.bytes = bytes;
  record.outcome = "ok";
  return record;
}

/// A sink that throws for records with odd bytes, and for every flush.
class refusing_sink final : public log_sink {
public:
  void write(const log_record& record) override {
    asked.push_back(record.order);
    if (record.bytes % 2 == 1) {
      throw std::runtime_error("no room");
    }
  }
  void flush() override { throw std::runtime_error("no disk"); }

  std::vector<std::uint64_t> asked;
};

TEST(event_log, is_active_only_while_a_sink_listens) {
  event_log log;
  const auto sink = std::make_shared<memory_sink>();
  EXPECT_FALSE(log.active());
  log.write(record_of(1));
  log.attach(sink);
  EXPECT_TRUE(log.active());
  log.write(record_of(2));
  log.detach(sink);
  EXPECT_FALSE(log.active());
  log.write(record_of(3));

  ASSERT_EQ(sink->records().size(), 1u);
  EXPECT_EQ(sink->records()[0].bytes, 2u);
  EXPECT_EQ(sink->records()[0].order, 1u) << "records without a sink are not numbered";
}

TEST(event_log, ignores_the_detaching_of_a_sink_it_does_not_have) {
  event_log log;
  const auto sink = std::make_shared<memory_sink>();
  log.attach(sink);
  log.detach(std::make_shared<memory_sink>());
  EXPECT_TRUE(log.active());
}

TEST(event_log, numbers_records_without_gaps_in_the_order_of_writing) {
  constexpr std::uint64_t each = 2000;
  event_log log;
  const auto first = std::make_shared<memory_sink>();
  const auto second = std::make_shared<memory_sink>();
  log.attach(first);
  log.attach(second);
  std::vector<std::thread> writers;
  std::array<std::uint64_t, 4> numbers{};
  for (std::uint64_t& number : numbers) {
    writers.emplace_back([&] {
      number = thread_number();
      for (std::uint64_t n = 0; n < each; ++n) {
        log.write(record_of(n));
      }
    });
  }
  for (auto& writer : writers) {
    writer.join();
  }

  const auto seen = first->records();
  const auto same = second->records();
  ASSERT_EQ(seen.size(), 4 * each);
  ASSERT_EQ(same.size(), 4 * each);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i].order, i + 1);
    ASSERT_EQ(same[i].order, i + 1);
    ASSERT_EQ(same[i].thread, seen[i].thread);
    ASSERT_EQ(same[i].bytes, seen[i].bytes);
    ASSERT_GE(seen[i].time_ns, i == 0 ? 0 : seen[i - 1].time_ns);
  }
  for (const std::uint64_t number : numbers) {
    EXPECT_EQ(std::ranges::count(seen, number, &log_record::thread), static_cast<std::ptrdiff_t>(each));
  }
}

TEST(event_log, a_sink_that_throws_loses_only_that_record) {
  event_log log;
  const auto refusing = std::make_shared<refusing_sink>();
  const auto keeping = std::make_shared<memory_sink>();
  log.attach(refusing);
  log.attach(keeping);
  for (std::uint64_t bytes = 0; bytes < 5; ++bytes) {
    log.write(record_of(bytes));
  }

  EXPECT_EQ(log.dropped(), 2u);
  EXPECT_EQ(refusing->asked, (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(keeping->records().size(), 5u) << "the other sink misses nothing";
}

TEST(event_log, reports_a_flush_that_fails) {
  static int reports = 0;
  reports = 0;
  event_log log;
  const auto refusing = std::make_shared<refusing_sink>();
  log.attach(refusing);
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept { ++reports; });
  log.flush();
  log.detach(refusing);
  set_report_sink(before);

  EXPECT_EQ(reports, 2);
  EXPECT_FALSE(log.active());
}

TEST(event_log, does_not_use_the_sinks_of_a_parent_process) {
  class flushed_sink final : public log_sink {
  public:
    void write(const log_record&) override {}
    void flush() override { ++flushed; }
    int flushed = 0;
  };
  event_log log;
  const auto sink = std::make_shared<flushed_sink>();
  log.attach(sink);
  support::expect_in_a_child([&] {
    log.detach(sink);
    EXPECT_EQ(sink->flushed, 0) << "what it holds back would be written twice";
    EXPECT_TRUE(log.active());
  });
  log.detach(sink);
  EXPECT_EQ(sink->flushed, 1);
}

TEST(event_log, names_every_event) {
  for (int i = 0; i <= static_cast<int>(memory_event::relief); ++i) {
    EXPECT_NE(to_string(static_cast<memory_event>(i)), "unknown") << i;
  }
  EXPECT_EQ(to_string(memory_event::free_failed), "free_failed");
}

} // namespace
} // namespace saeta
