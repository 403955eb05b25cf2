// The scatter, which uploads pieces of a source and writes them to their targets in one allocation: all kinds
// of steps, chunk boundaries, validation, corrections and failures.
#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "saeta/staging/chunk_cutter.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "support/fail_each_call.hpp"
#include "support/faulty_backend.hpp"
#include "support/random_bytes.hpp"
#include "support/ring_options.hpp"
#include "unit/base/raises.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <latch>
#include <mutex>
#include <random>
#include <semaphore>
#include <thread>

namespace saeta::conformance {
namespace {

using support::random_bytes;

scatter_source memory_of(const std::vector<std::byte>& bytes) {
  return {bytes.size(), [&](std::uint64_t position, std::span<std::byte> target) {
            std::memcpy(target.data(), bytes.data() + position, target.size());
          }};
}

/// Computes the expected result of a scatter step by step, without chunks.
struct expected_slab {
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> counted;
};

expected_slab expected(const scatter_plan& plan, const std::vector<std::byte>& source) {
  expected_slab made{std::vector<std::byte>(plan.slab_bytes), std::vector<std::int64_t>(plan.counters)};
  const auto run = [&](const scatter_step& step, bool sourced) {
    join_step one;
    one.kind = step.kind;
    one.width = step.width;
    one.source = sourced ? source.data() + step.source : nullptr;
    one.target = made.bytes.data() + step.target;
    one.count = step.count;
    if (step.kind == join_kind::bits || step.kind == join_kind::ones) {
      one.bits = {.source_first = step.bits.source_first,
                  .target_first = step.bits.target_first,
                  .nulls = step.bits.counter == scatter_step::not_counted ? nullptr
                                                                          : &made.counted[step.bits.counter]};
    } else if (step.kind == join_kind::add) {
      one.add = step.add;
    } else if (step.kind == join_kind::views) {
      one.views = step.views;
    } else if (step.kind == join_kind::run_ends) {
      one.run_ends = step.run_ends;
    }
    join_now(std::span(&one, 1));
  };
  for (const scatter_step& fill : plan.fills) {
    run(fill, false);
  }
  for (const scatter_step& step : plan.steps) {
    run(step, true);
  }
  if (plan.counters != 0) {
    std::memcpy(made.bytes.data() + plan.counters_at, made.counted.data(),
                plan.counters * sizeof(std::int64_t));
  }
  return made;
}

scatter_step copy_step(std::uint64_t source, std::uint64_t target, std::int64_t bytes) {
  scatter_step step;
  step.source = source;
  step.target = target;
  step.count = bytes;
  return step;
}

/// Makes a random plan: bitmaps of many contiguous pieces, then copies, offsets, views and run ends with
/// various gaps. It fills the slab from its first to its last byte.
/// @param longest  maximum number of values of a step
scatter_plan random_plan(std::size_t source_bytes, unsigned seed, std::int64_t longest = 6000) {
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random);
  };
  scatter_plan plan;
  constexpr std::int64_t bits = 30'000;
  plan.zeroed_bytes = 4096;
  plan.counters_at = 3840;
  plan.counters = 2;
  std::uint64_t target = plan.zeroed_bytes;
  std::uint64_t source = 0;
  std::int64_t bit = 0;
  const auto add_bits = [&] {
    if (bit == bits) {
      return;
    }
    scatter_step step;
    step.count = std::min(bits - bit, 1 + below(below(4) == 0 ? 9000 : 100));
    step.bits.target_first = bit;
    bit += step.count;
    if (below(4) == 0) {
      step.kind = join_kind::ones;
      plan.fills.push_back(step);
      return;
    }
    step.kind = join_kind::bits;
    step.source = source;
    step.bits.source_first = below(8);
    step.bits.counter = static_cast<std::uint32_t>(below(2));
    source += static_cast<std::uint64_t>((step.bits.source_first + step.count + 7) / 8);
    plan.steps.push_back(step);
  };
  for (;;) {
    source += static_cast<std::uint64_t>(below(3) == 0 ? below(9000) : below(30));
    scatter_step step;
    switch (below(5)) {
    case 0:
      add_bits();
      continue;
    case 1:
      step.kind = join_kind::add;
      step.width = 1 << below(4);
      step.add = {below(1000)};
      break;
    case 2:
      step.kind = join_kind::views;
      step.views = {below(5)};
      break;
    case 3:
      step.kind = join_kind::run_ends;
      step.width = 2 << below(3);
      step.run_ends = {.first_row = below(10), .rows = 1000, .base = below(100)};
      break;
    default:
      break;
    }
    join_step sized;
    sized.kind = step.kind;
    sized.width = step.width;
    const auto width = static_cast<std::uint64_t>(join_value_bytes(sized));
    step.count = 1 + below(below(3) == 0 ? longest : 40);
    step.source = source;
    step.target = (target + 15) / 16 * 16;
    if (step.kind == join_kind::copy) {
      step.target += static_cast<std::uint64_t>(below(16));
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(step.count) * width;
    if (source + bytes + 10'000 > source_bytes) {
      break;
    }
    if (step.target > target) {
      scatter_step gap;
      gap.kind = join_kind::zero;
      gap.target = target;
      gap.count = static_cast<std::int64_t>(step.target - target);
      plan.fills.push_back(gap);
    }
    source += bytes;
    target = step.target + bytes;
    plan.steps.push_back(step);
  }
  plan.slab_bytes = target;
  return plan;
}

class scatter : public context_test {
protected:
  [[nodiscard]] std::shared_ptr<context> with_chunks(std::size_t bytes, std::size_t threads = 3,
                                                     std::size_t shared = 3) {
    context_options options = support::ring_options(threads, bytes, shared);
    options.budget = limit;
    return new_context(options);
  }
  static std::vector<std::byte> read_back(const std::shared_ptr<context>& ctx, const buffer& slab) {
    std::vector<std::byte> back(slab.size());
    staging_ring::of(ctx)->download(std::vector<download_range>{{slab, back.data()}});
    return back;
  }
  static void expect_scattered(const std::shared_ptr<context>& ctx, const scatter_plan& plan,
                               const std::vector<std::byte>& source, const scatter_source& region) {
    const expected_slab wanted = expected(plan, source);
    const scattered made = staging_ring::of(ctx)->scatter(ctx, plan, region, "slab");
    EXPECT_EQ(made.counted, wanted.counted);
    EXPECT_TRUE(read_back(ctx, made.slab) == wanted.bytes);
  }
};

TEST_P(scatter, runs_every_kind_of_step) {
  const auto source = random_bytes(300'000, 1);
  for (const std::size_t chunk :
       {2 * chunk_cutter::least, std::size_t{4096}, std::size_t{65'536}, std::size_t{262'144}}) {
    for (const std::size_t shared : {1U, 2U, 4U}) {
      const auto ctx = with_chunks(chunk, 3, shared);
      for (unsigned seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(::testing::Message()
                     << "chunks of " << chunk << " bytes, shared " << shared << ", seed " << seed);
        expect_scattered(ctx, random_plan(source.size(), seed), source, memory_of(source));
      }
    }
  }
}

TEST_P(scatter, copies_large_pieces_directly_beside_a_kernel) {
  const auto source = random_bytes(3'000'000, 13);
  for (const std::size_t chunk : {std::size_t{131'072}, std::size_t{1} << 20}) {
    const auto ctx = with_chunks(chunk, 3, 2);
    for (unsigned seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(::testing::Message() << "chunks of " << chunk << " bytes, seed " << seed);
      const scatter_plan plan = random_plan(source.size(), seed, 90'000);
      expect_scattered(ctx, plan, source, memory_of(source));
      const auto tight = ctx->with_budget("tight", plan.slab_bytes + 60'000); // kernels read the pinned chunk
      const scattered made = staging_ring::of(ctx)->scatter(tight, plan, memory_of(source), "slab");
      EXPECT_TRUE(read_back(ctx, made.slab) == expected(plan, source).bytes);
    }
  }
}

TEST_P(scatter, of_large_copies_needs_no_landing_memory) {
  constexpr std::size_t piece = 80'000;
  constexpr std::size_t pieces = 12;
  const auto source = random_bytes(pieces * piece, 14);
  const auto ctx = with_chunks(1u << 20, 2, 2);
  scatter_plan plan;
  plan.slab_bytes = source.size();
  for (std::size_t i = 0; i < pieces; ++i) { // in descending order of targets
    plan.steps.push_back(copy_step(i * piece, (pieces - 1 - i) * piece, piece));
  }
  ctx->copies().reset_counters();
  const budget_window window = ctx->memory_budget()->open_window();
  const auto before = window.read().peak;
  expect_scattered(ctx, plan, source, memory_of(source));
  EXPECT_LE(window.read().peak, before + (plan.slab_bytes + 511) / 512 * 512);
  if (!ctx->on_host()) {
    EXPECT_EQ(ctx->copies().read_counters().host_to_device.calls, 1U);
    EXPECT_EQ(ctx->copies().read_counters().host_to_device.bytes, source.size())
        << "without steps behind the bytes";
  }
}

TEST_P(scatter, is_one_transfer_that_reads_only_what_it_needs) {
  const auto ctx = with_chunks(65'536);
  const auto source = random_bytes(300'000, 2);
  const scatter_plan plan = random_plan(source.size(), 3);
  ctx->copies().reset_counters();
  const scattered made = staging_ring::of(ctx)->scatter(ctx, plan, memory_of(source), "slab");
  const counter_values now = ctx->copies().read_counters();
  EXPECT_EQ((ctx->on_host() ? now.host_to_host : now.host_to_device).transfers, 1U);
  EXPECT_EQ(now.device_to_host.transfers, 0U);
}

TEST_P(scatter, of_long_copies_needs_no_kernel) {
  const auto source = random_bytes(100'000, 4);
  for (const std::size_t shared : {1U, 2U}) {
    const auto ctx = with_chunks(4096, 1, shared);
    scatter_plan plan;
    plan.slab_bytes = 40'960;
    plan.steps.push_back(copy_step(77, 0, 40'960));
    ctx->copies().reset_counters();
    expect_scattered(ctx, plan, source, memory_of(source));
    if (!ctx->on_host()) {
      EXPECT_EQ(ctx->copies().read_counters().host_to_device.calls, 10U);
      EXPECT_EQ(ctx->copies().read_counters().host_to_device.bytes, 40'960U)
          << "without steps behind the bytes";
    }
  }
}

TEST_P(scatter, lets_the_kernel_read_pinned_chunks_if_the_budget_has_no_landing_memory) {
  const auto source = random_bytes(300'000, 5);
  const scatter_plan plan = random_plan(source.size(), 6);
  for (const std::size_t shared : {1U, 4U}) {
    const auto ctx = with_chunks(65'536, 3, shared);
    const auto tight = ctx->with_budget("tight", plan.slab_bytes + 60'000);
    const expected_slab wanted = expected(plan, source);
    const scattered made = staging_ring::of(ctx)->scatter(tight, plan, memory_of(source), "slab");
    EXPECT_EQ(made.counted, wanted.counted);
    EXPECT_TRUE(read_back(ctx, made.slab) == wanted.bytes);
    EXPECT_EQ(tight->memory_budget()->statistics().refused, 0U) << "no other memory was freed";
  }
}

TEST_P(scatter, counts_the_bytes_that_a_kernel_reads_from_pinned_chunks) {
  const auto source = random_bytes(300'000, 5);
  const scatter_plan plan = random_plan(source.size(), 6);
  const auto sent = [&](std::uint64_t room) {
    const auto ctx = with_chunks(65'536);
    const auto into = ctx->with_budget("room", room);
    const scattered made = staging_ring::of(ctx)->scatter(into, plan, memory_of(source), "slab");
    return ctx->copies().read_counters().host_to_device.bytes;
  };
  EXPECT_EQ(sent(plan.slab_bytes + 60'000), sent(limit)) << "as many as where they land";
}

TEST_P(scatter, uses_its_slab_and_one_chunk_for_each_thread) {
  const auto ctx = with_chunks(65'536, 2);
  const auto source = random_bytes(1'000'000, 7);
  const scatter_plan plan = random_plan(source.size(), 8);
  const auto before = ctx->memory_budget()->statistics().current;
  const budget_window window = ctx->memory_budget()->open_window();
  const scattered made = staging_ring::of(ctx)->scatter(ctx, plan, memory_of(source), "slab");
  EXPECT_LE(window.read().peak, before + plan.slab_bytes + 2 * 65'536 + 65'536);
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_LE(ctx->memory_budget()->statistics().current, before + (plan.slab_bytes + 511) / 512 * 512);
}

TEST_P(scatter, checks_values_before_it_modifies_them) {
  const auto ctx = with_chunks(4096);
  const std::vector<std::int32_t> offsets{0, 4, 9, 3, 12};
  const std::vector<std::int8_t> ids{0, 5, 0, 1};
  const std::vector<std::int32_t> rows{0, 1, 1, 7};
  std::vector<std::byte> source(64 + 64 + 64);
  std::memcpy(source.data(), offsets.data(), 20);
  std::memcpy(source.data() + 64, ids.data(), 4);
  std::memcpy(source.data() + 128, rows.data(), 16);
  scatter_plan plan;
  plan.slab_bytes = 192;
  plan.zeroed_bytes = 192;
  plan.steps.push_back(copy_step(0, 0, 20));
  plan.steps.push_back(copy_step(64, 64, 4));
  plan.steps.push_back(copy_step(128, 128, 16));
  plan.checks.push_back({.kind = check_kind::offsets, .width = 4, .values = 0, .count = 4});
  plan.checks.push_back({.kind = check_kind::offsets, .width = 4, .values = 0, .count = 2});
  plan.checks.push_back({.kind = check_kind::unions, .values = 64, .second = 128, .count = 4, .table = 128});
  plan.tables.assign(128 + 256, -1);
  plan.tables[0] = 100;
  plan.tables[1] = 300;
  plan.tables[5] = 200;
  plan.tables[128 + 0] = 2;
  plan.tables[128 + 1] = 7;
  plan.tables[128 + 5] = 2;
  plan.fixes.push_back(
      {.kind = join_kind::unions, .width = 4, .target = 128, .count = 4, .unions = {.ids = 64, .bases = 0}});
  const scattered made = staging_ring::of(ctx)->scatter(ctx, plan, memory_of(source), "slab");
  EXPECT_THAT(made.bad_rows, ::testing::ElementsAre(2, no_bad_row, 3));
  const auto back = read_back(ctx, made.slab);
  std::vector<std::int32_t> fixed(4);
  std::memcpy(fixed.data(), back.data() + 128, 16);
  EXPECT_THAT(fixed, ::testing::ElementsAre(100, 201, 101, 307));
}

TEST_P(scatter, leaks_nothing_if_a_read_fails) {
  const auto source = random_bytes(300'000, 9);
  const scatter_plan plan = random_plan(source.size(), 10);
  for (const std::size_t shared : {1U, 3U}) {
    const auto ctx = with_chunks(4096, 3, shared);
    const scatter_source good = memory_of(source);
    std::atomic<int> calls{0};
    int fails_at = -1;
    const scatter_source bad{good.bytes, [&](std::uint64_t position, std::span<std::byte> target) {
                               if (calls++ == fails_at) {
                                 throw error(errc::io, "the file was truncated");
                               }
                               good.read(position, target);
                             }};
    expect_scattered(ctx, plan, source, bad);
    EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
    const auto before = ctx->reports().statistics().budget.current;
    const int reads = calls;
    for (fails_at = 0; fails_at < reads; ++fails_at) {
      calls = 0;
      EXPECT_THROW(static_cast<void>(staging_ring::of(ctx)->scatter(ctx, plan, bad, "slab")), error);
      EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
      ASSERT_EQ(ctx->reports().statistics().budget.current, before);
    }
    expect_scattered(ctx, plan, source, good);
  }
}

TEST_P(scatter, reports_progress_and_can_be_cancelled) {
  const auto source = random_bytes(300'000, 11);
  const scatter_plan plan = random_plan(source.size(), 12);
  const auto caller = std::this_thread::get_id();
  for (const std::size_t shared : {1U, 3U}) {
    const auto ctx = with_chunks(4096, 3, shared);
    std::vector<std::uint64_t> told;
    {
      const scattered made =
          staging_ring::of(ctx)->scatter(ctx, plan, memory_of(source), "slab", [&](std::uint64_t bytes) {
            EXPECT_EQ(std::this_thread::get_id(), caller);
            told.push_back(bytes);
          });
    }
    ASSERT_FALSE(told.empty());
    EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
    EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
    const auto before = ctx->reports().statistics().budget.current;
    bool stopped = true;
    for (std::size_t call = 0; stopped; ++call) { // repeats, because the number of reports depends on timing
      std::size_t calls = 0;
      stopped = false;
      const auto stop = [&](std::uint64_t) {
        if (calls++ == call) {
          throw std::runtime_error("stop");
        }
      };
      try {
        static_cast<void>(staging_ring::of(ctx)->scatter(ctx, plan, memory_of(source), "slab", stop));
      } catch (const std::runtime_error&) {
        stopped = true;
      }
      EXPECT_EQ(stopped, calls > call);
      EXPECT_TRUE(stopped || call != 0) << "never told";
      EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
      EXPECT_EQ(ctx->reports().statistics().budget.current, before);
    }
    expect_scattered(ctx, plan, source, memory_of(source));
  }
}

/// A reader that "decodes" by copying, and records the positions at which it begins.
class told_reader final : public ordered_reader {
public:
  using teller = std::function<void(std::uint64_t position)>;

  told_reader(const std::vector<std::byte>& bytes, teller tell) : bytes_(bytes), tell_(std::move(tell)) {}
  void read(std::uint64_t position, std::span<std::byte> target) override {
    tell_(position);
    std::memcpy(target.data(), bytes_.data() + position, target.size());
  }
  void finish() override {}

private:
  const std::vector<std::byte>& bytes_;
  teller tell_;
};

scatter_source decoded(const std::vector<std::byte>& bytes, const told_reader::teller& tell) {
  scatter_source made = memory_of(bytes);
  made.ordered_from = 0;
  made.in_order = [&bytes, tell]() -> std::unique_ptr<ordered_reader> {
    return std::make_unique<told_reader>(bytes, tell);
  };
  return made;
}

/// Makes a plan of ranges that are decoded separately.
scatter_plan decoded_plan(std::size_t ranges, std::size_t bytes) {
  scatter_plan plan;
  for (std::size_t i = 0; i < ranges; ++i) {
    scatter_step& step = plan.steps.emplace_back();
    step.source = i * (bytes + scatter_source::ordered_gap);
    step.target = i * bytes;
    step.count = static_cast<std::int64_t>(bytes);
  }
  plan.slab_bytes = ranges * bytes;
  return plan;
}

TEST_P(scatter, decodes_concurrently_with_another_scatter) {
  constexpr std::size_t range = 20'000;
  const scatter_plan plan = decoded_plan(9, range);
  const auto source = random_bytes(plan.steps.back().source + range, 13);
  for (const bool fails : {false, true}) {
    const auto ctx = new_context(support::ring_options(3, 4096));
    std::latch last_begun(1);
    std::binary_semaphore other_begun(0);
    std::atomic<bool> met{false};
    std::thread first([&] {
      const auto tell = [&](std::uint64_t position) {
        if (position == plan.steps.back().source) {
          last_begun.count_down();
          met = other_begun.try_acquire_for(std::chrono::seconds(60));
          if (fails) {
            throw error(errc::io, "the file was truncated");
          }
        }
      };
      if (fails) {
        EXPECT_THROW(
            static_cast<void>(staging_ring::of(ctx)->scatter(ctx, plan, decoded(source, tell), "slab")),
            error);
      } else {
        expect_scattered(ctx, plan, source, decoded(source, tell));
      }
    });
    last_begun.wait();
    std::once_flag once;
    expect_scattered(ctx, plan, source, decoded(source, [&](std::uint64_t) {
                       std::call_once(once, [&] { other_begun.release(); });
                     }));
    first.join();
    EXPECT_TRUE(met) << "the second waited for the end of the first";
    EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(ctx->reports().statistics().ledger.buffers, 0U);
  }
}

TEST_P(scatter, works_after_any_call_has_failed) {
  const auto faulty = std::make_shared<saeta::testing::faulty_backend>(shared_device());
  const report_sink before = set_report_sink([](std::string_view, std::string_view) noexcept {});
  for (const std::size_t shared : {1U, 2U}) {
    const auto ctx = watch(context::create(faulty, support::ring_options(1, 16'384, shared)));
    const auto source = random_bytes(60'000, 13);
    scatter_plan plan = random_plan(source.size(), 14);
    plan.checks.push_back({.kind = check_kind::offsets, .width = 4, .values = 0, .count = 1});
    const auto run = [&] {
      static_cast<void>(staging_ring::of(ctx)->scatter(ctx, plan, memory_of(source), "fails"));
    };
    saeta::testing::fail_each_call(*faulty, run, [&] {
      const expected_slab wanted = expected(plan, source);
      const scattered made = staging_ring::of(ctx)->scatter(ctx, plan, memory_of(source), "works");
      EXPECT_EQ(made.counted, wanted.counted);
      EXPECT_TRUE(read_back(ctx, made.slab) == wanted.bytes);
    });
  }
  set_report_sink(before);
}

/// A resource that refuses requests for landing memory.
class no_landing final : public decorator {
public:
  no_landing(std::shared_ptr<resource> upstream, errc refusal)
      : decorator(std::move(upstream)), refusal_(refusal) {}

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override {
    if (request.label == tag("landing")) {
      throw error(refusal_, "nothing lands here");
    }
    return upstream().allocate(request, stream);
  }
  bool do_deallocate(const block& freed, std::span<const point> after) noexcept override {
    return upstream().deallocate(freed, after);
  }

  errc refusal_;
};

TEST_P(scatter, lets_the_kernel_read_pinned_chunks_if_the_device_has_no_landing_memory) {
  const auto source = random_bytes(60'000, 15);
  const scatter_plan plan = random_plan(source.size(), 16);
  const auto refusing = [&](errc refusal) {
    context_options options = support::ring_options(2, 16'384, 2);
    options.memory.custom_base = [=](const std::shared_ptr<backend>& device) {
      return std::make_shared<no_landing>(std::make_shared<direct_resource>(device), refusal);
    };
    return new_context(options);
  };
  expect_scattered(refusing(errc::out_of_memory), plan, source, memory_of(source));
  expect_scattered(refusing(errc::budget_exceeded), plan, source, memory_of(source));
  const auto lost = refusing(errc::device);
  if (lost->on_host()) {
    return expect_scattered(lost, plan, source, memory_of(source)); // the host needs no landing memory
  }
  EXPECT_EQ(unit::code_raised_by([&] {
              static_cast<void>(staging_ring::of(lost)->scatter(lost, plan, memory_of(source), "slab"));
            }),
            errc::device);
}

SAETA_CONFORMANCE_SUITE(scatter);

} // namespace
} // namespace saeta::conformance
