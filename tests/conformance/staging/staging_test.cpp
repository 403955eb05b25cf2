#include "conformance/harness/context_test.hpp"
#include "conformance/harness/device_memory.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "support/fail_each_call.hpp"
#include "support/faulty_backend.hpp"
#include "support/random_bytes.hpp"
#include "support/ring_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>

#include <fcntl.h>
#include <unistd.h>

namespace saeta::conformance {
namespace {

using support::random_bytes;
using support::ring_options;

class staging : public context_test {
protected:
  /// Uses chunks so small that the transfers of the tests need many.
  void SetUp() override { use(0); }
  void TearDown() override {
    ring_.reset();
    context_test::TearDown();
  }
  /// @param slots  number of shared chunks that fit into the host's budget; 0: all chunks fit
  void use(std::size_t slots) {
    context_options options = ring_options(3, chunk, slots);
    options.budget = limit;
    ring_.reset();
    context_ = new_context(options);
    ring_ = staging_ring::of(ctx());
  }
  static constexpr std::size_t chunk = 4096;
  /// Uploads and downloads ranges of various sizes. @param smallest  bytes of the smallest range
  void expect_round_trips(std::size_t smallest = 1);
  [[nodiscard]] traffic sent() const {
    const counter_values now = ctx()->copies().read_counters();
    return ctx()->on_host() ? now.host_to_host : now.host_to_device;
  }
  std::shared_ptr<staging_ring> ring_;
};

void staging::expect_round_trips(std::size_t smallest) {
  const std::size_t piece = ctx()->on_host() ? chunk / 2 : chunk; // bytes of one copy
  const auto calls = [&](std::size_t bytes) { return (bytes + piece - 1) / piece; };
  for (const std::size_t bytes : {smallest, smallest + 62, chunk, chunk + 1, std::size_t{100'003}}) {
    const auto source = random_bytes(bytes, 1);
    const auto other = random_bytes(bytes / 2 + 1, 2);
    transfer_plan plan;
    const auto a = plan.add(source);
    const auto b = plan.add(other);
    plan.finish();
    ctx()->copies().reset_counters();
    const buffer slab = ring_->upload(ctx(), plan, "slab");
    EXPECT_EQ(sent().transfers, 1U);
    EXPECT_EQ(sent().bytes, plan.slab_bytes());
    EXPECT_EQ(sent().calls, calls(plan.slab_bytes())) << "one a chunk";
    EXPECT_EQ(ctx()->copies().read_counters().synchronizations, 0U)
        << "an upload does not wait for the device";

    std::vector<std::byte> back(bytes);
    std::vector<std::byte> other_back(other.size());
    const std::vector<download_range> ranges{
        {slab.slice(plan.target_of(a), bytes), back.data()},
        {slab.slice(plan.target_of(b), other.size()), other_back.data()}};
    ctx()->copies().reset_counters();
    ring_->download(ranges);
    const counter_values now = ctx()->copies().read_counters();
    EXPECT_EQ((ctx()->on_host() ? now.host_to_host : now.device_to_host).transfers, 1U);
    EXPECT_EQ(now.synchronizations, ctx()->on_host() ? 0U : 1U);
    EXPECT_EQ((ctx()->on_host() ? now.host_to_host : now.device_to_host).calls,
              calls(bytes) + calls(other.size()));
    EXPECT_EQ(back, source);
    EXPECT_EQ(other_back, other);
  }
}

TEST_P(staging, uploads_and_downloads_any_number_of_ranges_in_one_transfer) { expect_round_trips(); }

TEST_P(staging, uploads_and_downloads_through_shared_chunks) {
  for (const std::size_t shared : {1U, 2U, 8U}) {
    use(shared);
    expect_round_trips(3000); // smaller ranges would use chunks of single threads
    EXPECT_EQ(ctx()->reports().statistics().pinned, ctx()->on_host() ? 0 : shared * chunk);
  }
}

TEST_P(staging, sends_a_single_chunk_without_events) {
  const auto counted = std::make_shared<saeta::testing::faulty_backend>(shared_device());
  const auto ctx = watch(context::create(counted, ring_options(3, chunk)));
  const auto ring = staging_ring::of(ctx);
  const auto source = random_bytes(chunk / 2, 3);
  transfer_plan plan;
  plan.add(source);
  plan.finish();
  for (int i = 0; i < 20; ++i) { // more rounds than chunks, so that all chunks are allocated
    static_cast<void>(ring->upload(ctx, plan, "first"));
    ctx->synchronize(ctx->work_stream());
  }
  counted->fail_at(3); // fails if there are more calls than the copy and the word after it
  const buffer slab = ring->upload(ctx, plan, "slab");
  EXPECT_FALSE(counted->failed());
  counted->fail_at(0);
}

TEST_P(staging, uses_no_more_pinned_memory_than_its_limit) {
  for (const std::size_t threads : {1U, 3U}) {
    const context_options options = ring_options(threads, 2 * chunk); // per-thread chunks are whole pages
    const auto ctx = new_context(options);
    const auto ring = staging_ring::of(ctx);
    const auto source = random_bytes(100'000, 3);
    transfer_plan plan;
    plan.add(source);
    plan.finish();
    const buffer slab = ring->upload(ctx, plan, "slab");
    EXPECT_EQ(ctx->reports().statistics().pinned, ctx->on_host() ? 0 : 12 * 2 * chunk);
    std::vector<std::byte> back(slab.size());
    for (const std::size_t part :
         {slab.size(), std::size_t{1000}}) { // through shared chunks, and through chunks of single threads
      std::vector<download_range> ranges;
      for (std::size_t at = 0; at < slab.size(); at += part) {
        const std::size_t bytes = std::min(part, slab.size() - at);
        ranges.push_back({slab.slice(at, bytes), back.data() + at});
      }
      ring->download(ranges);
      EXPECT_EQ(std::memcmp(back.data(), source.data(), source.size()), 0);
    }
    EXPECT_LE(ctx->reports().statistics().pinned, options.staging.pinned_bytes);
  }
}

TEST_P(staging, fills_large_chunks_with_several_threads) {
  for (const std::size_t bytes : {200'000U, 1'000'000U, 1'300'001U}) { // one chunk, and several
    const auto ctx = new_context(ring_options(4, 256u << 10, 2));
    const auto ring = staging_ring::of(ctx);
    const auto source = random_bytes(bytes, 17);
    transfer_plan plan;
    const auto part = plan.add(source);
    plan.finish();
    const buffer slab = ring->upload(ctx, plan, "slab");
    std::vector<std::byte> back(bytes);
    ring->download(std::vector<download_range>{{slab.slice(plan.target_of(part), bytes), back.data()}});
    EXPECT_TRUE(back == source) << bytes;
    if (!ctx->on_host()) {
      EXPECT_EQ(ctx->reports().statistics().pinned, bytes < (256u << 10) ? 256u << 10 : 512u << 10);
    }
  }
}

TEST_P(staging, cuts_small_transfers_into_small_chunks) {
  struct movement {
    std::size_t bytes;
    std::size_t chunk;
  };
  for (const movement each :
       {movement{3'000'000, 1u << 20}, {20'000'000, 2u << 20}, {40'000'001, 4u << 20}}) {
    context_options options;
    options.staging = {.threads = 3}; // default chunk size
    const auto ctx = new_context(options);
    const auto ring = staging_ring::of(ctx);
    const auto source = random_bytes(each.bytes, 19);
    transfer_plan plan;
    const auto part = plan.add(source);
    plan.finish();
    ctx->copies().reset_counters();
    const buffer slab = ring->upload(ctx, plan, "slab");
    const auto calls = (each.bytes + each.chunk - 1) / each.chunk;
    if (!ctx->on_host()) {
      EXPECT_EQ(ctx->copies().read_counters().host_to_device.calls, calls);
    }
    std::vector<std::byte> back(each.bytes);
    ring->download(std::vector<download_range>{{slab.slice(plan.target_of(part), each.bytes), back.data()}});
    EXPECT_TRUE(back == source) << each.bytes;
    if (!ctx->on_host()) {
      EXPECT_EQ(ctx->copies().read_counters().device_to_host.calls, calls);
    }
  }
}

TEST_P(staging, downloads_into_untouched_memory_by_whole_pages) {
  for (const std::size_t large : {std::size_t{256} << 10, std::size_t{4} << 20}) {
    const auto ctx = new_context(ring_options(3, large, 2));
    const auto ring = staging_ring::of(ctx);
    const auto source = random_bytes(11'000'001, 18);
    transfer_plan plan;
    const auto part = plan.add(source);
    plan.finish();
    const buffer slab = ring->upload(ctx, plan, "slab");
    for (const std::size_t bytes :
         {source.size(), std::size_t{3'000'000}}) { // more chunks than slots, and a single chunk
      std::vector<std::byte> back(bytes);
      const buffer whole = slab.slice(plan.target_of(part), bytes);
      ring->download(std::vector<download_range>{{whole, back.data()}}, true);
      EXPECT_TRUE(std::ranges::equal(back, std::span(source).first(bytes))) << large << ", " << bytes;
    }
  }
}

TEST_P(staging, fills_the_space_between_ranges_with_zeros) {
  // Uses the chunks and the slab before, because new memory is zero anyway.
  constexpr std::size_t ranges = 1000;
  const std::vector<std::byte> used(ranges * 128, std::byte{0xFF});
  transfer_plan before;
  before.add(used);
  before.finish();
  static_cast<void>(read(ring_->upload(ctx(), before, "used")));
  const std::vector<std::vector<std::byte>> ones(ranges, std::vector<std::byte>(100, std::byte{1}));
  transfer_plan plan;
  for (const auto& each : ones) {
    plan.add(each);
  }
  plan.finish();
  const auto bytes = read(ring_->upload(ctx(), plan, "slab"));
  ASSERT_EQ(bytes.size(), plan.slab_bytes());
  ASSERT_GE(bytes.size(), ranges * 100 + 28) << "there are gaps";
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}), ranges * 100);
}

TEST_P(staging, frees_the_slab_of_a_failed_upload_after_its_pending_copies) {
  for (const std::size_t shared : {1U, 8U}) {
    const auto ctx = new_context(ring_options(1, chunk, shared));
    char name[] = "/tmp/saeta-staging-XXXXXX";
    const int descriptor = ::mkstemp(name);
    ASSERT_GE(descriptor, 0);
    ::unlink(name);
    ASSERT_EQ(::ftruncate(descriptor, 5 * 4096), 0); // the sixth chunk can't be read
    const std::vector<std::byte> stand_in(10 * std::size_t{4096});
    transfer_plan plan;
    plan.add(stand_in);
    plan.finish();
    EXPECT_THROW(static_cast<void>(staging_ring::of(ctx)->upload(
                     ctx, plan, "fails", {stand_in.data(), stand_in.size(), descriptor, 0})),
                 error);
    ::close(descriptor);
    if (const auto* const simulated = dynamic_cast<const sim::simulated_device*>(&device())) {
      EXPECT_TRUE(simulated->idle()) << "five copies were queued";
    }
    EXPECT_EQ(ctx->reports().statistics().ledger.own, 0U);
  }
}

TEST_P(staging, downloads_after_pending_writes) {
  const auto other = ctx()->borrow_stream();
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
  fill(b, 1, ctx()->work_stream());
  const auto strict = ctx()->copies().forbid_downloads();
  const counter_values before = ctx()->copies().read_counters();
  std::vector<std::byte> back(b.size());
  const std::vector<download_range> ranges{{b.slice(0, 100), back.data()},
                                           {b.slice(100, 200), back.data() + 100}};
  if (ctx()->on_host()) { // the host needs no downloads
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
    EXPECT_EQ(ctx()->copies().read_counters().synchronizations, before.synchronizations);
  }
  EXPECT_EQ(ctx()->copies().read_counters().device_to_host, before.device_to_host);
}

TEST_P(staging, reads_a_mapped_region_through_its_descriptor) {
  const auto content = random_bytes(20'000, 3);
  char name[] = "/tmp/saeta-staging-XXXXXX";
  const int descriptor = ::mkstemp(name);
  ASSERT_GE(descriptor, 0);
  ::unlink(name);
  ASSERT_EQ(::write(descriptor, content.data(), content.size()), static_cast<ssize_t>(content.size()));
  // The addresses of the region correspond to file offsets; the bytes must be read from the file, not from
  // memory.
  const std::vector<std::byte> stand_in(content.size());
  transfer_plan plan(stand_in);
  const auto part = plan.add(std::span(stand_in).subspan(5000, 10'000));
  plan.finish();
  const file_region file{stand_in.data(), stand_in.size(), descriptor, 0};
  const buffer slab = ring_->upload(ctx(), plan, "file", file);
  const auto bytes = read(slab.slice(plan.target_of(part), 10'000));
  EXPECT_EQ(std::memcmp(bytes.data(), content.data() + 5000, bytes.size()), 0);

  ASSERT_EQ(::ftruncate(descriptor, 9000), 0);
  const std::uint64_t live = ctx()->reports().statistics().budget.current;
  try {
    static_cast<void>(ring_->upload(ctx(), plan, "cut", file));
    FAIL() << "bytes past the end of the file";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::io) << e.what();
  }
  EXPECT_EQ(ctx()->reports().statistics().budget.current, live) << "the slab of the failed upload went back";
  ::close(descriptor);
  EXPECT_EQ(read(ring_->upload(ctx(), plan, "again")).size(), plan.slab_bytes()) << "the ring still works";
}

TEST_P(staging, reads_from_memory_outside_of_the_mapped_region) {
  const auto content = random_bytes(3000, 5);
  char name[] = "/tmp/saeta-staging-XXXXXX";
  const int descriptor = ::mkstemp(name);
  ASSERT_GE(descriptor, 0);
  ::unlink(name);
  transfer_plan plan(content);
  const auto part = plan.add(content);
  plan.finish();
  for (const auto& [first, bytes] : {std::pair{0, 2999}, std::pair{1, 2999}, std::pair{1000, 1000}}) {
    const file_region file{content.data() + first, static_cast<std::size_t>(bytes), descriptor, 0};
    ASSERT_EQ(::ftruncate(descriptor, 0), 0); // empties the file, so that it ends with the region
    ASSERT_EQ(::pwrite(descriptor, file.mapped, file.bytes, 0), bytes);
    const buffer slab = ring_->upload(ctx(), plan, "beside", file);
    const auto found = read(slab.slice(plan.target_of(part), content.size()));
    EXPECT_EQ(std::memcmp(found.data(), content.data(), content.size()), 0) << first;
  }
  ::close(descriptor);
}

TEST_P(staging, leaks_nothing_when_its_context_ends) {
  static std::atomic<int> reports;
  reports = 0;
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept { ++reports; });
  {
    const auto ctx = watch(context::create(shared_device()));
    const auto source = random_bytes(100'000, 6);
    transfer_plan plan;
    plan.add(source);
    plan.finish();
    static_cast<void>(staging_ring::of(ctx)->upload(ctx, plan, "brief"));
  }
  EXPECT_EQ(reports, 0);
  set_report_sink(before);
}

TEST_P(staging, maps_its_region_to_file_offsets_and_reports_a_short_file) {
  const auto content = random_bytes(200, 7);
  char name[] = "/tmp/saeta-staging-XXXXXX";
  const int descriptor = ::mkstemp(name);
  ASSERT_GE(descriptor, 0);
  ::unlink(name);
  ASSERT_EQ(::write(descriptor, content.data(), content.size()), static_cast<ssize_t>(content.size()));
  const std::vector<std::byte> stand_in(100);
  transfer_plan plan(stand_in);
  const auto whole = plan.add(stand_in);
  plan.finish();
  const auto upload = [&](const file_region& file) { return ring_->upload(ctx(), plan, "file", file); };
  const auto found = read(upload({stand_in.data(), stand_in.size(), descriptor, 50}));
  EXPECT_EQ(std::memcmp(found.data() + plan.target_of(whole), content.data() + 50, 100), 0);
  const auto failure = [&](const file_region& file) {
    try {
      static_cast<void>(upload(file));
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::io);
      return e.message();
    }
    return std::string("none");
  };
  ASSERT_EQ(::ftruncate(descriptor, 90), 0);
  EXPECT_EQ(failure({stand_in.data(), stand_in.size(), descriptor, 50}),
            "reading 60 bytes at file offset 90: the file was truncated");
  ::close(descriptor);
  EXPECT_EQ(failure({stand_in.data(), stand_in.size(), descriptor, 50}),
            "reading 100 bytes at file offset 50: Bad file descriptor (errno 9)");
}

TEST_P(staging, has_chunks_of_at_least_1024_bytes_and_512_for_each_thread) {
  const auto ctx = new_context(ring_options(1, 0));
  const auto source = random_bytes(2048, 8);
  transfer_plan plan;
  plan.add(source);
  plan.finish();
  const buffer slab = staging_ring::of(ctx)->upload(ctx, plan, "slab");
  const counter_values now = ctx->copies().read_counters();
  EXPECT_EQ(now.host_to_host.calls, ctx->on_host() ? 4U : 0U);
  EXPECT_EQ(now.host_to_device.calls, ctx->on_host() ? 0U : 2U);
  const std::uint64_t chunks = ctx->reports().statistics().pinned;
  const block one = ctx->pinned().allocate(1024, 0, ctx->work_stream());
  EXPECT_EQ(chunks, ctx->on_host() ? 0U : 2 * (ctx->reports().statistics().pinned - chunks));
  EXPECT_TRUE(ctx->pinned().deallocate(one, ctx->work_stream()));
}

TEST_P(staging, allocates_no_chunk_while_one_is_free) {
  const auto ctx = new_context(ring_options(1, chunk));
  std::uint64_t first = 0;
  for (unsigned round = 0; round < 20; ++round) {
    const auto source = random_bytes(4096, round);
    transfer_plan plan;
    plan.add(source);
    plan.finish();
    const auto back = read(staging_ring::of(ctx)->upload(ctx, plan, "slab")); // waits for the copy
    EXPECT_EQ(std::memcmp(back.data(), source.data(), source.size()), 0);
    first = round == 0 ? ctx->reports().statistics().pinned : first;
    EXPECT_EQ(ctx->reports().statistics().pinned, first);
  }
}

TEST_P(staging, does_nothing_without_ranges) {
  ctx()->copies().reset_counters();
  ring_->download({});
  const buffer empty = make(0);
  ring_->download(std::vector<download_range>{{empty, nullptr}});
  transfer_plan plan;
  plan.finish();
  EXPECT_EQ(ring_->upload(ctx(), plan, "nothing").size(), 0U);
  counter_values now = ctx()->copies().read_counters();
  now.allocations = 0;
  EXPECT_EQ(now, counter_values{});
}

TEST_P(staging, works_after_any_call_of_an_upload_has_failed) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "nothing is staged on the host";
  }
  const auto faulty = std::make_shared<saeta::testing::faulty_backend>(shared_device());
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  for (const std::size_t shared : {1U, 2U}) {
    const auto ctx = watch(context::create(faulty, ring_options(1, chunk, shared)));
    const auto ring = staging_ring::of(ctx);
    const auto source = random_bytes(20'000, 9);
    transfer_plan plan;
    const auto whole = plan.add(source);
    plan.finish();
    const auto upload = [&] { static_cast<void>(ring->upload(ctx, plan, "fails")); };
    saeta::testing::fail_each_call(*faulty, upload, [&] {
      const buffer slab = ring->upload(ctx, plan, "works");
      std::vector<std::byte> back(source.size());
      ring->download(
          std::vector<download_range>{{slab.slice(plan.target_of(whole), back.size()), back.data()}});
      EXPECT_EQ(back, source);
    });
  }
  set_report_sink(before);
}

TEST_P(staging, writes_nothing_after_a_failed_download) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "nothing is staged on the host";
  }
  struct division {
    std::size_t part;   ///< bytes of each range
    std::size_t shared; ///< chunks; 0: small ranges use those of the threads
  };
  for (const auto& [part, shared] : {division{20'000, 1}, {20'000, 2}, {1'000, 0}}) {
    const auto faulty = std::make_shared<saeta::testing::faulty_backend>(shared_device());
    const auto ctx = watch(context::create(faulty, ring_options(1, chunk, shared)));
    const buffer old = buffer::allocate(ctx, 20'000, ctx->work_stream());
    const buffer next = buffer::allocate(ctx, 20'000, ctx->work_stream());
    for (const auto& [each, value] : {std::pair(old, 1), std::pair(next, 2)}) {
      use_token token(ctx->work_stream(), {writes(each)});
      ctx->copies().fill(token.span<char>(each).data(), static_cast<std::uint8_t>(value), each.size(),
                         ctx->work_stream());
    }
    const auto ring = staging_ring::of(ctx);
    const auto download = [&, bytes = part](const buffer& from, std::vector<std::byte>& into) {
      std::vector<download_range> ranges;
      for (std::size_t at = 0; at < from.size(); at += bytes) {
        ranges.push_back({from.slice(at, bytes), into.data() + at});
      }
      ring->download(ranges);
    };
    bool failed = true;
    for (std::uint64_t position = 1; failed; ++position) {
      SCOPED_TRACE(position);
      std::vector<std::byte> abandoned(old.size());
      std::vector<std::byte> back(next.size());
      faulty->fail_at(position);
      try {
        download(old, abandoned);
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::device) << e.message();
      }
      failed = faulty->failed();
      faulty->fail_at(0);
      const auto left = abandoned;
      download(next, back);
      EXPECT_EQ(abandoned, left) << "its caller may have freed it";
      EXPECT_EQ(back, std::vector<std::byte>(next.size(), std::byte{2}));
    }
  }
}

/// The owner may write its memory as soon as the download returns, without any synchronisation.
TEST_P(staging, has_finished_reading_foreign_memory_when_a_download_returns) {
  const stream foreign(shared_device());
  for (const std::size_t part : {std::size_t{50'000}, std::size_t{1'000}}) {
    const device_memory theirs(foreign.ref(), 50'000);
    std::vector<std::byte> back(theirs.size());
    {
      external_memory memory;
      memory.pointer = theirs.data();
      memory.bytes = theirs.size();
      memory.device = ctx()->device();
      memory.access = mutability::writable;
      memory.tag = "theirs";
      const buffer seen = buffer::adopt(ctx(), std::move(memory));
      fill(seen, 1, ctx()->work_stream());
      std::vector<download_range> ranges;
      for (std::size_t at = 0; at < back.size(); at += part) {
        ranges.push_back({seen.slice(at, part), back.data() + at});
      }
      ring_->download(ranges);
    }
    device().fill(theirs.data(), 2, theirs.size(), foreign.ref().native_handle());
    EXPECT_EQ(back, std::vector<std::byte>(back.size(), std::byte{1}));
  }
}

TEST_P(staging, copies_within_the_device_in_one_call) {
  const buffer a = make(10'000);
  const buffer b = make(10'000);
  fill(a, 42, ctx()->work_stream());
  ctx()->copies().reset_counters();
  ring_->copy(b, a, ctx()->work_stream());
  const counter_values now = ctx()->copies().read_counters();
  const traffic expected{1, 1, 10'000};
  EXPECT_EQ(ctx()->on_host() ? now.host_to_host : now.device_to_device, expected);
  EXPECT_EQ(read(b), std::vector<std::uint8_t>(10'000, 42));
  EXPECT_THROW(ring_->copy(b.slice(0, 5), a, ctx()->work_stream()), error);
}

TEST_P(staging, is_refused_by_the_budget_before_any_copy) {
  const auto source = random_bytes(limit + 1, 4);
  transfer_plan plan;
  plan.add(source);
  plan.finish();
  EXPECT_THROW(static_cast<void>(ring_->upload(ctx(), plan, "too large")), error);
  EXPECT_EQ(sent(), traffic{});
}

SAETA_CONFORMANCE_SUITE(staging);

} // namespace
} // namespace saeta::conformance
