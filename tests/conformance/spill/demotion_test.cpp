// Demotion: spilled tables move from full tiers to slower ones, while other threads use, close and spill
// tables.
#include "conformance/spill/spill_test.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "support/interrupts.hpp"

#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <thread>

namespace saeta::conformance {
namespace {

constexpr auto pinned = spill_tier::pinned;
constexpr auto pageable = spill_tier::pageable;
constexpr auto file = spill_tier::file;

class demotions : public spill_test {
protected:
  void SetUp() override {
    spill_test::SetUp();
    if (ctx()->on_host()) {
      GTEST_SKIP() << "on the host files are the only tier";
    }
    bytes_ = handle(0, 0, small).bytes();
  }

  /// Limits the tiers to the given numbers of small tables. @param files  false: there is no folder for files
  void use_tiers(std::uint64_t pinned_tables, std::uint64_t pageable_tables, bool files = true) {
    context_options chosen = options(budget::unlimited);
    chosen.spill.pinned = pinned_tables * bytes_;
    chosen.spill.pageable = pageable_tables * bytes_;
    if (!files) {
      chosen.spill.folder.clear();
    }
    use_options(chosen);
  }
  [[nodiscard]] std::deque<spill_handle> spilled(std::uint64_t count, spill_tier to) const {
    std::deque<spill_handle> made;
    for (std::uint64_t i = 0; i < count; ++i) {
      made.push_back(handle(i, 0, small));
      EXPECT_EQ(made.back().spill(to), to);
    }
    return made;
  }
  [[nodiscard]] bool becomes(spill_tier tier, std::uint64_t handles) const {
    return comes_true(
        [&] { return seen(tier).handles == handles && seen(tier).charged == handles * bytes_; });
  }
  void expect_all(const std::deque<spill_handle>& kept) const {
    for (std::uint64_t i = 0; i < kept.size(); ++i) {
      EXPECT_TRUE(holds(kept[i], i, small)) << i;
    }
  }
  /// Page-locks memory for `tables` tables in advance, because page-locking would hang behind a closed gate.
  void page_lock(std::size_t tables) const {
    std::vector<buffer> warm(tables); // their memory stays in the pool
    for (buffer& each : warm) {
      each = buffer::allocate(ctx(), bytes_, ctx()->work_stream(), "warm", 0, memory_kind::pinned);
    }
    warm.clear();
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  }
  /// A table in a full tier of page-locked memory. The copy to this tier is blocked by a gate, and so is the
  /// thread that has begun to move the table to pageable memory.
  struct held_up {
    spill_handle kept;
    std::unique_ptr<gate> held;
  };
  [[nodiscard]] held_up hold_up() const {
    page_lock(1);
    held_up made{handle(1, 0, small), close_gate(ctx()->work_stream())};
    EXPECT_EQ(made.kept.spill(pinned), pinned);
    EXPECT_TRUE(comes_true([&] { return seen(pageable).charged == bytes_; }));
    EXPECT_EQ(seen(pageable).handles, 0U);
    EXPECT_EQ(seen(pinned).charged, bytes_) << "both tiers are charged on the way";
    return made;
  }

  std::uint64_t bytes_ = 0; ///< size of a small table
};

TEST_P(demotions, full_pageable_memory_moves_its_least_recently_used_tables_to_files) {
  use_tiers(0, 10);
  const std::deque<spill_handle> kept = spilled(9, pageable); // 90% full, and 60% after three have moved
  EXPECT_TRUE(becomes(file, 3));
  EXPECT_TRUE(becomes(pageable, 6));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].tier(), i < 3 ? file : pageable) << i;
  }
  EXPECT_EQ(seen(file).demotions, 3U);
  EXPECT_EQ(seen(file).demoted_bytes, 3 * bytes_);
  EXPECT_EQ(seen(file).spills, 0U);
  EXPECT_EQ(seen(pageable).spills, 9U);
  EXPECT_EQ(read_spill_statistics(ctx()).failures, 0U);
  expect_all(kept);
}

TEST_P(demotions, full_page_locked_memory_moves_tables_on_to_pageable_memory) {
  use_tiers(10, 100);
  const std::deque<spill_handle> kept = spilled(9, pinned);
  EXPECT_TRUE(becomes(pageable, 3));
  EXPECT_TRUE(becomes(pinned, 6));
  EXPECT_EQ(seen(pageable).demotions, 3U);
  EXPECT_EQ(seen(file).handles, 0U);
  expect_all(kept);
}

TEST_P(demotions, tables_skip_a_full_tier) {
  use_tiers(10, 0);
  const std::deque<spill_handle> kept = spilled(9, pinned);
  EXPECT_TRUE(becomes(file, 3));
  EXPECT_TRUE(becomes(pinned, 6));
  expect_all(kept);
}

TEST_P(demotions, tables_skip_pageable_memory_if_the_hosts_budget_is_full) {
  const auto of_host = budget::create("host");
  context_options chosen = options(budget::unlimited);
  chosen.spill.pinned = 10 * bytes_;
  chosen.pinned_budget = of_host;
  use_options(chosen);
  std::deque<spill_handle> kept = spilled(7, pinned);
  const std::uint64_t before = of_host->statistics().current;
  kept.push_back(handle(7, 0, small));
  EXPECT_EQ(kept.back().spill(pinned), pinned); // 80% full
  const std::uint64_t of_one = of_host->statistics().current - before;
  of_host->set_limit(of_host->statistics().current + of_one);
  kept.push_back(handle(8, 0, small));
  EXPECT_EQ(kept.back().spill(pinned), pinned); // 90% full, and the host's budget has no room for a copy
  EXPECT_TRUE(becomes(pinned, 6));
  EXPECT_EQ(kept.front().tier(), file);
  EXPECT_EQ(read_spill_statistics(ctx()).failures, 0U);
  of_host->set_limit(budget::unlimited);
  expect_all(kept);
}

TEST_P(demotions, tables_are_spilled_to_files_if_the_hosts_budget_is_full) {
  const auto of_host = budget::create("host");
  context_options chosen = options(budget::unlimited);
  chosen.pinned_budget = of_host;
  chosen.staging.threads = 1;
  use_options(chosen);
  const std::deque<spill_handle> first = spilled(4, file); // also allocates all chunks of the staging ring
  const spill_handle second = handle(1, 0, small);
  const spill_handle third = handle(2, 0, small);
  of_host->set_limit(of_host->statistics().current);
  EXPECT_EQ(second.spill(), file);
  expect_error(errc::budget_exceeded, "host", [&] { third.spill(pageable); });
  EXPECT_EQ(seen(pageable).charged, 0U);
  of_host->set_limit(budget::unlimited);
  EXPECT_TRUE(holds(second, 1, small));
  EXPECT_TRUE(holds(third, 2, small));
  expect_all(first);
}

TEST_P(demotions, tables_move_from_page_locked_memory_to_files) {
  use_tiers(4, 4);
  std::deque<spill_handle> kept;
  for (std::uint64_t i = 0; i < 24; ++i) {
    kept.push_back(handle(i, 0, small));
    kept.back().spill();
  }
  EXPECT_TRUE(comes_true([&] { return seen(file).handles > 15 && seen(file).charged == seen(file).bytes; }));
  expect_all(kept);
}

TEST_P(demotions, tables_of_a_higher_priority_stay_in_the_faster_tier) {
  use_tiers(0, 10);
  std::deque<spill_handle> kept;
  for (std::uint64_t i = 0; i < 9; ++i) {
    kept.push_back(handle(i, i < 6 ? 1 : 0, small));
    kept.back().spill(pageable);
  }
  EXPECT_TRUE(becomes(file, 3));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].tier(), i < 6 ? pageable : file) << i;
  }
  expect_all(kept);
}

TEST_P(demotions, no_table_moves_between_the_two_thresholds) {
  use_tiers(0, 10);
  const std::deque<spill_handle> kept = spilled(8, pageable);
  EXPECT_EQ(seen(file).charged, 0U);
  EXPECT_EQ(seen(pageable).handles, 8U);
}

TEST_P(demotions, tables_stay_without_a_slower_tier) {
  use_tiers(0, 2, false);
  const std::deque<spill_handle> kept = spilled(2, pageable);
  expect_all(kept);
  EXPECT_EQ(read_spill_statistics(ctx()).failures, 0U);
}

TEST_P(demotions, a_use_does_not_wait_for_the_move) {
  use_tiers(1, 1);
  const held_up moving = hold_up();
  std::optional<spill_use> used(moving.kept.use(ctx()));
  EXPECT_EQ(moving.kept.tier(), spill_tier::device);
  moving.held->open();
  EXPECT_TRUE(support::same_contents(used->value(), numbers(host_, 1, small)));
  used.reset();
  EXPECT_TRUE(becomes(pageable, 0));
  EXPECT_TRUE(becomes(pinned, 0));
  EXPECT_EQ(seen(pageable).demotions, 0U);
  EXPECT_TRUE(holds(moving.kept, 1, small));
}

TEST_P(demotions, a_table_modified_during_the_move_keeps_its_new_values) {
  use_tiers(8, 8);
  page_lock(8);
  std::deque<spill_handle> kept;
  for (std::uint64_t i = 0; i < 7; ++i) {
    kept.push_back(handle(i, 0, small));
  }
  const auto held = close_gate(ctx()->work_stream());
  for (const spill_handle& each : kept) {
    EXPECT_EQ(each.spill(pinned), pinned);
  }
  EXPECT_TRUE(comes_true([&] { return seen(pageable).charged == bytes_; })) << "the first one moves on";
  const auto values_of = [](const spill_use& used) {
    return used.value().batches().front().columns.front().values();
  };
  {
    const spill_use used = kept.front().use(ctx());
    fill(values_of(used), 7, ctx()->work_stream());
  }
  EXPECT_EQ(kept.front().spill(pinned), pinned);
  held->open();
  EXPECT_TRUE(becomes(pinned, 5));
  EXPECT_EQ(kept.front().tier(), pinned) << "it is the last one that was used";
  EXPECT_THAT(read(values_of(kept.front().use(ctx()))), ::testing::Each(7));
}

TEST_P(demotions, a_handle_closed_during_the_move_leaks_nothing) {
  use_tiers(1, 1);
  const held_up moving = hold_up();
  moving.kept.close();
  EXPECT_EQ(seen(pinned).handles, 0U);
  moving.held->open();
  EXPECT_TRUE(becomes(pageable, 0));
  EXPECT_TRUE(becomes(pinned, 0));
  EXPECT_EQ(seen(pageable).demotions, 0U);
}

TEST_P(demotions, a_context_may_end_during_the_move) {
  use_tiers(1, 1);
  std::optional<held_up> moving(hold_up());
  const std::unique_ptr<gate> held = std::move(moving->held);
  moving.reset();
  const std::weak_ptr<context> ended = context_->weak_from_this();
  context_.reset(); // the moving thread then has the last reference
  held->open();
  EXPECT_TRUE(comes_true([&] { return ended.expired(); }));
}

TEST_P(demotions, a_table_waits_for_the_move_if_no_tier_has_space) {
  use_tiers(1, 1, false);
  const spill_handle other = handle(2, 0, small);
  const held_up moving = hold_up();
  std::atomic<bool> waited{false};
  const support::interrupts hook([&] {
    waited = true;
    moving.held->open();
  });
  EXPECT_EQ(other.spill(), pinned) << "there is room once the other one has moved on";
  EXPECT_TRUE(waited);
  EXPECT_EQ(moving.kept.tier(), pageable);
  EXPECT_TRUE(holds(moving.kept, 1, small));
  EXPECT_TRUE(holds(other, 2, small));
  EXPECT_EQ(read_spill_statistics(ctx()).failures, 0U);
}

TEST_P(demotions, a_full_disk_loses_nothing_and_is_retried) {
  constexpr std::int64_t large = 4 * small; // larger than the free space on the disk
  std::deque<spill_handle> kept;
  context_options chosen = options(budget::unlimited);
  chosen.spill.pinned = 0;
  chosen.spill.pageable = 2 * handle(0, 0, large).bytes();
  use_options(chosen);
  for (std::uint64_t i = 0; i < 2; ++i) {
    kept.push_back(handle(i, 0, large));
  }
  {
    const full_disk full;
    kept[0].spill(pageable);
    kept[1].spill(pageable);
    EXPECT_TRUE(comes_true([&] { return read_spill_statistics(ctx()).failures == 1; }));
    EXPECT_EQ(seen(pageable).handles, 2U);
    EXPECT_EQ(seen(file).charged, 0U);
  }
  EXPECT_TRUE(holds(kept[1], 1, large));
  EXPECT_EQ(kept[1].spill(pageable), pageable);
  EXPECT_TRUE(comes_true([&] { return kept[0].tier() == file; }));
  for (std::uint64_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(holds(kept[i], i, large));
  }
}

TEST_P(demotions, random_programs_keep_every_table_and_every_budget) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    use_tiers(1 + random() % 4, random() % 4);
    std::map<std::uint64_t, spill_handle> kept;
    {
      const std::jthread observer([&](const std::stop_token& ended) {
        while (!ended.stop_requested()) {
          expect_exact_budgets();
          std::this_thread::yield();
        }
      });
      for (int step = 0; step < 150; ++step) {
        const std::uint64_t which = random() % 12;
        const auto found = kept.find(which);
        if (found == kept.end()) {
          kept.emplace(which, handle(which, static_cast<int>(random() % 2), small));
        } else if (const auto chance = random() % 8; chance == 0) {
          kept.erase(found);
        } else if (chance < 3) {
          EXPECT_TRUE(holds(found->second, which, small)) << step;
        } else {
          found->second.spill();
        }
      }
    }
    for (const auto& [number, each] : kept) {
      EXPECT_TRUE(holds(each, number, small));
    }
    kept.clear();
    EXPECT_TRUE(settle());
    for (const spill_tier tier : tiers_here()) {
      EXPECT_EQ(seen(tier).charged, 0U);
    }
  }
}

TEST_P(demotions, moves_are_logged) {
  use_tiers(0, 1);
  const auto log = std::make_shared<memory_sink>(100);
  ctx()->reports().log()->attach(log);
  const std::deque<spill_handle> kept = spilled(1, pageable);
  EXPECT_TRUE(becomes(file, 1));
  const auto moved = [&] {
    std::vector<std::string> to;
    for (const log_record& each : log->records()) {
      if (each.event == memory_event::demote && each.bytes == bytes_ && each.outcome == "ok") {
        to.push_back(each.label.name());
      }
    }
    return to;
  };
  EXPECT_TRUE(comes_true([&] { return moved() == std::vector<std::string>{"file"}; }));
}

SAETA_CONFORMANCE_SUITE(demotions);

} // namespace
} // namespace saeta::conformance
