#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/transfer/staging_ring.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>

#include <fcntl.h>
#include <unistd.h>

namespace saeta::conformance {
namespace {

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> made(count);
  std::generate(made.begin(), made.end(), [&] { return static_cast<std::byte>(random()); });
  return made;
}

class staging : public context_test {
protected:
  /// Chunks small enough that a test's bytes need many.
  void SetUp() override {
    context_options options;
    options.budget = limit;
    options.staging = {.threads = 3, .chunk_bytes = 4096, .chunks_per_thread = 2};
    context_ = new_context(options);
    ring_ = staging_ring::of(home());
  }
  void TearDown() override {
    ring_.reset();
    context_test::TearDown();
  }
  [[nodiscard]] traffic sent() const {
    const counter_values now = home()->read_counters();
    return home()->on_host() ? now.host_to_host : now.host_to_device;
  }
  std::shared_ptr<staging_ring> ring_;
};

TEST_P(staging, brings_any_number_of_ranges_in_one_transfer_and_back_in_one) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{63}, std::size_t{4096}, std::size_t{4097}, std::size_t{100'003}}) {
    const auto source = random_bytes(bytes, 1);
    const auto other = random_bytes(bytes / 2 + 1, 2);
    transfer_plan plan;
    const auto a = plan.add(source);
    const auto b = plan.add(other);
    plan.finish();
    home()->reset_counters();
    const buffer slab = ring_->upload(home(), plan, "slab");
    EXPECT_EQ(sent().transfers, 1U);
    EXPECT_EQ(sent().bytes, plan.slab_bytes());
    EXPECT_EQ(home()->read_counters().synchronizations, 0U) << "an upload does not wait for the device";

    std::vector<std::byte> back(bytes);
    std::vector<std::byte> other_back(other.size());
    const std::vector<download_range> ranges{
        {slab.slice(plan.target_of(a), bytes), back.data()},
        {slab.slice(plan.target_of(b), other.size()), other_back.data()}};
    home()->reset_counters();
    ring_->download(ranges);
    const counter_values now = home()->read_counters();
    EXPECT_EQ((home()->on_host() ? now.host_to_host : now.device_to_host).transfers, 1U);
    EXPECT_EQ(now.synchronizations, home()->on_host() ? 0U : 1U);
    EXPECT_EQ(back, source);
    EXPECT_EQ(other_back, other);
  }
}

TEST_P(staging, leaves_zeros_between_the_ranges) {
  const std::vector<std::byte> ones(100, std::byte{1});
  transfer_plan plan;
  plan.add(ones);
  plan.finish();
  const auto bytes = read(ring_->upload(home(), plan, "slab"));
  ASSERT_EQ(bytes.size(), 128U);
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), 0), 100);
}

TEST_P(staging, sees_a_write_that_is_still_pending_when_it_downloads) {
  const auto other = home()->borrow_stream();
  const buffer b = make(50'000);
  for (std::uint8_t round = 1; round < 20; ++round) {
    fill(b, round, other.ref());
    std::vector<std::byte> back(b.size());
    ring_->download(std::vector<download_range>{{b, back.data()}});
    ASSERT_EQ(back, std::vector<std::byte>(b.size(), std::byte{round}));
  }
}

TEST_P(staging, downloads_and_counts_nothing_in_strict_mode) {
  const buffer b = make(300);
  fill(b, 1, home()->work_stream());
  const auto strict = home()->forbid_downloads();
  const counter_values before = home()->read_counters();
  std::vector<std::byte> back(b.size());
  const std::vector<download_range> ranges{{b.slice(0, 100), back.data()},
                                           {b.slice(100, 200), back.data() + 100}};
  if (home()->on_host()) { // there is nothing to download
    EXPECT_NO_THROW(ring_->download(ranges));
    EXPECT_EQ(back, std::vector<std::byte>(b.size(), std::byte{1}));
  } else {
    try {
      ring_->download(ranges);
      FAIL() << "a download in strict mode";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::download_forbidden);
      EXPECT_THAT(e.message(), ::testing::HasSubstr("300 bytes"));
    }
    EXPECT_EQ(back, std::vector<std::byte>(b.size()));
    EXPECT_EQ(home()->read_counters().synchronizations, before.synchronizations);
  }
  EXPECT_EQ(home()->read_counters().device_to_host, before.device_to_host);
}

TEST_P(staging, reads_a_mapped_region_through_its_descriptor) {
  const auto content = random_bytes(20'000, 3);
  char name[] = "/tmp/saeta-staging-XXXXXX";
  const int descriptor = ::mkstemp(name);
  ASSERT_GE(descriptor, 0);
  ::unlink(name);
  ASSERT_EQ(::write(descriptor, content.data(), content.size()), static_cast<ssize_t>(content.size()));
  // Addresses stand for file offsets; what lies there must come from the file.
  const std::vector<std::byte> stand_in(content.size());
  transfer_plan plan(stand_in);
  const auto part = plan.add(std::span(stand_in).subspan(5000, 10'000));
  plan.finish();
  const file_region file{stand_in.data(), stand_in.size(), descriptor, 0};
  const buffer slab = ring_->upload(home(), plan, "file", file);
  const auto bytes = read(slab.slice(plan.target_of(part), 10'000));
  EXPECT_EQ(std::memcmp(bytes.data(), content.data() + 5000, bytes.size()), 0);

  ASSERT_EQ(::ftruncate(descriptor, 9000), 0);
  const std::uint64_t live = home()->statistics().budget.current;
  try {
    static_cast<void>(ring_->upload(home(), plan, "cut", file));
    FAIL() << "bytes past the end of the file";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::io) << e.what();
  }
  EXPECT_EQ(home()->statistics().budget.current, live) << "the slab of the failed upload went back";
  ::close(descriptor);
  EXPECT_EQ(read(ring_->upload(home(), plan, "again")).size(), plan.slab_bytes()) << "the ring still works";
}

TEST_P(staging, reads_from_memory_what_lies_only_partly_in_the_mapped_region) {
  const auto content = random_bytes(3000, 5);
  char name[] = "/tmp/saeta-staging-XXXXXX";
  const int descriptor = ::mkstemp(name);
  ASSERT_GE(descriptor, 0);
  ::unlink(name);
  const std::vector<std::byte> other(content.size()); // what the file holds is not what lies in memory
  ASSERT_EQ(::write(descriptor, other.data(), other.size()), static_cast<ssize_t>(other.size()));
  transfer_plan plan(content);
  const auto part = plan.add(content);
  plan.finish();
  for (const auto& [first, bytes] : {std::pair{0, 2999}, std::pair{1, 2999}, std::pair{1000, 1000}}) {
    const file_region file{content.data() + first, static_cast<std::size_t>(bytes), descriptor, 0};
    const buffer slab = ring_->upload(home(), plan, "beside", file);
    const auto found = read(slab.slice(plan.target_of(part), content.size()));
    EXPECT_EQ(std::memcmp(found.data(), content.data(), content.size()), 0) << first;
  }
  ::close(descriptor);
}

TEST_P(staging, leaves_nothing_behind_when_its_context_ends) {
  static std::atomic<int> reports;
  reports = 0;
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept { ++reports; });
  {
    const auto home = watch(context::create(shared_device()));
    const auto source = random_bytes(100'000, 6);
    transfer_plan plan;
    plan.add(source);
    plan.finish();
    static_cast<void>(staging_ring::of(home)->upload(home, plan, "brief"));
  }
  EXPECT_EQ(reports, 0);
  set_report_sink(before);
}

TEST_P(staging, copies_within_the_device_in_one_call) {
  const buffer a = make(10'000);
  const buffer b = make(10'000);
  fill(a, 42, home()->work_stream());
  home()->reset_counters();
  ring_->copy(b, a, home()->work_stream());
  const counter_values now = home()->read_counters();
  const traffic expected{1, 1, 10'000};
  EXPECT_EQ(home()->on_host() ? now.host_to_host : now.device_to_device, expected);
  EXPECT_EQ(read(b), std::vector<std::uint8_t>(10'000, 42));
  EXPECT_THROW(ring_->copy(b.slice(0, 5), a, home()->work_stream()), error);
}

TEST_P(staging, is_refused_by_the_budget_before_anything_moves) {
  const auto source = random_bytes(limit + 1, 4);
  transfer_plan plan;
  plan.add(source);
  plan.finish();
  EXPECT_THROW(static_cast<void>(ring_->upload(home(), plan, "too large")), error);
  EXPECT_EQ(sent(), traffic{});
}

SAETA_CONFORMANCE_SUITE(staging);

} // namespace
} // namespace saeta::conformance
