// Spill handles: which tables are spilled, to which tier, and that they are restored unchanged.
#include "conformance/spill/spill_test.hpp"

#include "saeta/interop/arrow/owned.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/loans/lent_memory.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "support/child_process.hpp"
#include "support/golden_files.hpp"
#include "support/interrupts.hpp"

#include <atomic>
#include <csignal>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>

namespace saeta::conformance {
namespace {

class tiers : public spill_test {
protected:
  /// A log sink that calls a function during a move, on the moving thread.
  class observer final : public log_sink {
  public:
    explicit observer(std::function<void(const log_record&)> act) : act_(std::move(act)) {}
    void write(const log_record& record) override { act_(record); }

  private:
    std::function<void(const log_record&)> act_;
  };
  void observe(std::function<void(const log_record&)> act) const {
    ctx()->reports().log()->attach(std::make_shared<observer>(std::move(act)));
  }
  /// Returns a buffer of a table, which prevents that the table is spilled.
  [[nodiscard]] buffer body_of(const spill_handle& of) const {
    return of.use(ctx()).value().batches().front().columns.front().buffers().back();
  }
  /// Allocates a buffer, which may require spilling.
  [[nodiscard]] buffer take(std::size_t bytes) const { return make(bytes, "request"); }
};

TEST_P(tiers, every_type_is_restored_from_every_tier) {
  use_options(options(budget::unlimited));
  std::vector<data_type> types = support::carried_types();
  std::erase_if(types, [](const data_type& type) { // types that the IPC format does not support
    const data_type* const values = type.value_type();
    return values != nullptr && (values->id() == type_id::dictionary || !values->extension_name().empty());
  });
  const table expected = support::random_table(host_, types, {});
  for (const spill_tier tier : tiers_here()) {
    SCOPED_TRACE(to_string(tier));
    const spill_handle kept = spillable(ctx(), support::random_table(ctx(), types, {}));
    EXPECT_EQ(kept.tier(), spill_tier::device);
    EXPECT_EQ(kept.spill(tier), tier);
    EXPECT_EQ(in_use(), 0U);
    EXPECT_EQ(seen(tier).bytes, kept.bytes());
    EXPECT_EQ(seen(tier).charged, kept.bytes());
    EXPECT_TRUE(support::same_contents(kept.use(ctx()).value(), expected));
    EXPECT_EQ(kept.tier(), spill_tier::device);
    EXPECT_EQ(seen(tier).charged, 0U);
  }
}

TEST_P(tiers, the_integration_files_are_restored_from_every_tier) {
  use_options(options(budget::unlimited));
  const auto files = support::golden_files();
  if (files.empty()) {
    GTEST_SKIP() << "no golden files: SAETA_SHARED_DATA names no folder that has them";
  }
  for (const auto& path : files) {
    SCOPED_TRACE(path.string());
    const table expected = ipc::reader::open(path)->read_all(host_);
    const spill_handle kept = spillable(
        ctx(),
        ipc::reader::open(path, {.copy = copy_policy::always, .combine_chunks = false})->read_all(ctx()));
    for (const spill_tier tier : tiers_here()) {
      SCOPED_TRACE(to_string(tier));
      EXPECT_EQ(kept.spill(tier), kept.bytes() == 0 ? spill_tier::device : tier);
      EXPECT_TRUE(support::same_contents(kept.use(ctx()).value(), expected));
    }
  }
}

TEST_P(tiers, a_request_spills_by_priority_and_then_least_recently_used) {
  const spill_handle first = handle(1);
  const spill_handle urgent = handle(2, 1);
  const spill_handle third = handle(3);
  const spill_handle cheap = handle(4, -1);
  static_cast<void>(first.use(ctx())); // now `third` is the least recently used
  const std::uint64_t free = room - in_use();
  const auto where = [&] { return std::vector{cheap.tier(), third.tier(), first.tier(), urgent.tier()}; };
  constexpr auto device = spill_tier::device;
  ASSERT_THAT(where(), ::testing::Each(device));
  const buffer one = take(free + 64);
  // Spills until at most 65% of the budget are in use, and then more for the request.
  const auto after = where();
  EXPECT_NE(after[0], device);
  for (std::size_t i = 1; i < after.size(); ++i) {
    EXPECT_TRUE(after[i - 1] != device || after[i] == device) << i << " left before the one that should";
  }
  EXPECT_EQ(urgent.tier(), device);
  EXPECT_EQ(refused(), 0U);
  EXPECT_EQ(read_spill_statistics(ctx()).refusals_avoided, 1U);
}

TEST_P(tiers, a_table_is_recently_used_until_its_last_use_ends) {
  const spill_handle first = handle(1);
  const spill_handle second = handle(2);
  std::optional<spill_use> longest(first.use(ctx()));
  static_cast<void>(first.use(ctx()));
  static_cast<void>(second.use(ctx())); // a use that begins and ends while the first table is in use
  longest.reset();
  const std::uint64_t free = room - in_use();
  static_cast<void>(take(free + 64));
  EXPECT_NE(second.tier(), spill_tier::device);
  EXPECT_EQ(first.tier(), spill_tier::device);
}

TEST_P(tiers, a_new_handle_spills_tables_down_to_the_lower_threshold) {
  std::vector<spill_handle> kept;
  for (std::uint64_t i = 0; i < 30; ++i) {
    kept.push_back(handle(i, 0, rows / 4));
    const std::uint64_t now = in_use();
    EXPECT_LE(now, room * 85 / 100 + kept.back().bytes());
    if (i > 0 && seen(spill_tier::device).handles < i) { // some tables have left the device
      EXPECT_LE(now, room * 85 / 100);
    }
  }
  const std::uint64_t bytes = kept.front().bytes();
  // Most new handles spill nothing; when the threshold is exceeded, one spills several tables.
  EXPECT_GT(in_use() + bytes, room * 65 / 100);
  EXPECT_GT(read_spill_statistics(ctx()).tiers[0].handles, 0U);
  for (std::uint64_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(holds(kept[i], i, rows / 4));
  }
  EXPECT_EQ(refused(), 0U);
}

TEST_P(tiers, a_new_handle_of_a_child_budget_spills_tables_of_its_ancestors) {
  std::vector<spill_handle> kept;
  kept.push_back(handle(0, 0, rows / 4));
  const std::uint64_t bytes = in_use();
  while (in_use() + bytes <= room * 85 / 100) {
    kept.push_back(handle(kept.size(), 0, rows / 4));
  }
  ASSERT_EQ(seen(spill_tier::device).handles, kept.size());
  const auto child = ctx()->with_budget("child"); // without its own limit
  const spill_handle last = spillable(child, numbers(child, kept.size(), rows / 4));
  EXPECT_LE(in_use(), room * 85 / 100);
  EXPECT_NE(kept.front().tier(), spill_tier::device) << "it is the coldest";
  EXPECT_EQ(last.tier(), spill_tier::device);
  EXPECT_EQ(refused(), 0U);
}

TEST_P(tiers, no_table_is_spilled_between_the_thresholds) {
  std::vector<spill_handle> kept;
  for (std::uint64_t i = 0; i < 5; ++i) {
    kept.push_back(handle(i)); // at most 80% of the budget
  }
  ASSERT_GT(in_use(), room * 65 / 100);
  ASSERT_LT(in_use(), room * 85 / 100);
  EXPECT_EQ(seen(spill_tier::device).handles, 5U);
}

TEST_P(tiers, tables_in_use_are_not_spilled) {
  const spill_handle used = handle(1);
  const spill_handle exported = handle(2);
  const spill_handle touched = handle(3);
  const spill_handle idle = handle(4);
  const spill_use use = used.use(ctx());
  std::optional<buffer> view = body_of(exported);
  const export_hold hold({&*view, 1}, access::read);
  view.reset();
  std::optional<buffer> read = body_of(touched);
  std::optional<use_token> token(std::in_place, ctx()->work_stream(),
                                 std::initializer_list<saeta::use>{reads(*read)});
  read.reset();
  const std::uint64_t free = room - in_use();
  EXPECT_EQ(take(free + 64).size(), free + 64);
  EXPECT_NE(idle.tier(), spill_tier::device);
  for (const spill_handle* const each : {&used, &exported, &touched}) {
    EXPECT_EQ(each->tier(), spill_tier::device);
    expect_error(errc::busy, "is in use", [&] { each->spill(); });
  }
  expect_error(errc::budget_exceeded, "request", [&] { static_cast<void>(take(free + 2 * idle.bytes())); });
  EXPECT_EQ(seen(spill_tier::device).handles, 3U) << "to move them would have freed nothing";
  token.reset();
  EXPECT_EQ(take(free + 2 * idle.bytes()).size(), free + 2 * idle.bytes());
  EXPECT_NE(touched.tier(), spill_tier::device);
  EXPECT_TRUE(support::same_contents(use.value(), numbers(host_, 1)));
}

TEST_P(tiers, requests_for_lent_memory_spill_tables_too) {
  const spill_handle kept = handle(1);
  constexpr std::size_t bytes = room - 4096;
  void* const lent = lend_memory(ctx(), bytes, ctx()->work_stream(), "torch");
  EXPECT_NE(kept.tier(), spill_tier::device);
  take_back_memory(lent, bytes, ctx()->work_stream().native_handle());
  EXPECT_TRUE(holds(kept, 1));
  EXPECT_EQ(read_spill_statistics(ctx()).refusals_avoided, 1U);
  EXPECT_EQ(refused(), 0U);
}

TEST_P(tiers, a_full_child_budget_spills_its_own_tables) {
  const auto child = ctx()->with_budget("query", room / 2);
  const spill_handle others = handle(1, -5);
  const spill_handle own = spillable(child, numbers(child, 2));
  const buffer big = buffer::allocate(child, room / 2 - 4096, child->work_stream(), "query");
  EXPECT_EQ(others.tier(), spill_tier::device);
  EXPECT_NE(own.tier(), spill_tier::device);
}

TEST_P(tiers, tables_skip_full_tiers_and_the_last_one_refuses) {
  context_options chosen = options();
  const std::uint64_t bytes = handle(0).bytes();
  chosen.spill.pinned = bytes;
  chosen.spill.pageable = bytes;
  chosen.spill.files = bytes;
  chosen.spill.begin = chosen.spill.end = 1; // no demotion in the background
  use_options(chosen);
  std::vector<spill_handle> kept;
  std::vector<spill_tier> taken;
  const auto here = tiers_here();
  for (std::uint64_t i = 0; i < here.size(); ++i) {
    kept.push_back(handle(i));
    taken.push_back(kept.back().spill());
  }
  std::ranges::sort(taken);
  EXPECT_EQ(taken, here) << "each tier has room for one";
  const spill_handle last = handle(9);
  expect_error(errc::budget_exceeded, "spilled (", [&] { last.spill(); });
  for (const spill_tier tier : here) {
    EXPECT_EQ(seen(tier).charged, bytes);
    expect_error(errc::budget_exceeded, "spilled (", [&] { last.spill(tier); });
  }
  EXPECT_TRUE(holds(last, 9));
  expect_error(errc::budget_exceeded, "request", [&] { static_cast<void>(take(room - 64)); });
  EXPECT_EQ(last.tier(), spill_tier::device);
  kept.clear();
  EXPECT_EQ(take(room - 64).size(), room - 64);
  EXPECT_NE(last.tier(), spill_tier::device);
}

TEST_P(tiers, a_full_disk_loses_nothing) {
  const spill_handle kept = handle(1);
  {
    const full_disk full;
    expect_error(errc::io, folder_.string(), [&] { kept.spill(spill_tier::file); });
    EXPECT_EQ(seen(spill_tier::file).charged, 0U);
    EXPECT_EQ(read_spill_statistics(ctx()).failures, 1U);
  }
  EXPECT_TRUE(holds(kept, 1));
  EXPECT_EQ(kept.spill(spill_tier::file), spill_tier::file);
  EXPECT_TRUE(holds(kept, 1));
}

TEST_P(tiers, a_missing_folder_is_an_error_with_its_name) {
  context_options chosen = options();
  chosen.spill.folder += "/missing";
  use_options(chosen);
  const spill_handle kept = handle(1);
  expect_error(errc::io, chosen.spill.folder, [&] { kept.spill(spill_tier::file); });
  chosen.spill.folder = "";
  use_options(chosen);
  const spill_handle other = handle(1);
  expect_error(errc::unsupported, "SAETA_SPILL_DIR", [&] { other.spill(spill_tier::file); });
  if (ctx()->on_host()) {
    expect_error(errc::unsupported, "SAETA_SPILL_DIR", [&] { other.spill(); });
    expect_error(errc::unsupported, "free nothing", [&] { other.spill(spill_tier::pageable); });
  }
}

TEST_P(tiers, a_restore_without_room_can_be_repeated) {
  const spill_handle kept = handle(1);
  for (const spill_tier tier : tiers_here()) {
    SCOPED_TRACE(to_string(tier));
    ASSERT_EQ(kept.spill(tier), tier);
    std::optional<buffer> in_the_way = take(room - 64);
    expect_error(errc::budget_exceeded, "request", [&] { static_cast<void>(kept.use(ctx())); });
    EXPECT_EQ(kept.tier(), tier);
    EXPECT_EQ(seen(tier).charged, kept.bytes());
    in_the_way.reset();
    EXPECT_TRUE(holds(kept, 1));
  }
}

TEST_P(tiers, page_locked_memory_is_used_once_it_is_allocated) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host has files alone";
  }
  const spill_handle kept = handle(1);
  EXPECT_EQ(kept.spill(), spill_tier::pageable) << "the first one does not wait";
  EXPECT_TRUE(comes_true([&] { return ctx()->kept_pinned(kept.bytes()) != 0; }));
  EXPECT_TRUE(holds(kept, 1));
  EXPECT_EQ(kept.spill(), spill_tier::pinned);
  EXPECT_TRUE(holds(kept, 1));
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(kept.spill(), spill_tier::pinned) << "the blocks came back";
  EXPECT_TRUE(holds(kept, 1));
}

TEST_P(tiers, strict_mode_spills_nothing) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host downloads nothing";
  }
  const spill_handle kept = handle(1);
  const auto strict = ctx()->copies().forbid_downloads();
  expect_error(errc::download_forbidden, "", [&] { kept.spill(); });
  expect_error(errc::budget_exceeded, "request", [&] { static_cast<void>(take(room - 64)); });
  EXPECT_EQ(kept.tier(), spill_tier::device);
}

TEST_P(tiers, a_closed_handle_frees_its_table_in_any_tier) {
  for (const bool spilled : {false, true}) {
    const spill_handle kept = handle(1);
    const spill_tier tier = spilled ? kept.spill() : spill_tier::device;
    kept.close();
    EXPECT_TRUE(kept.closed());
    EXPECT_EQ(in_use(), 0U);
    EXPECT_EQ(seen(tier).handles, 0U);
    EXPECT_EQ(seen(tier).charged, 0U);
    expect_error(errc::closed, "closed", [&] { static_cast<void>(kept.use(ctx())); });
    expect_error(errc::closed, "closed", [&] { kept.spill(); });
    kept.close();
  }
}

TEST_P(tiers, closing_during_a_move_frees_the_table_at_its_end) {
  std::optional<spill_handle> kept;
  std::optional<memory_event> at;
  observe([&](const log_record& record) {
    if (at && record.event == *at) {
      kept->close();
    }
  });
  kept.emplace(handle(1));
  at = memory_event::spill;
  expect_error(errc::closed, "closed", [&] { kept->spill(); });
  EXPECT_EQ(in_use(), 0U);
  for (const spill_tier tier : tiers_here()) {
    EXPECT_EQ(seen(tier).charged, 0U);
  }
  at.reset();
  kept.emplace(handle(2));
  kept->spill();
  at = memory_event::unspill;
  EXPECT_TRUE(holds(*kept, 2)) << "the use had begun";
  EXPECT_TRUE(kept->closed());
  EXPECT_EQ(in_use(), 0U);
  at.reset();
}

TEST_P(tiers, uses_and_requests_wait_for_the_move_of_a_table) {
  const spill_handle kept = handle(1);
  const spill_handle other = handle(2);
  std::atomic<bool> moving{false};
  std::atomic<int> waiting{0};
  observe([&](const log_record& record) {
    if (record.event == memory_event::spill && !moving.exchange(true)) {
      EXPECT_TRUE(comes_true([&] { return waiting == 2; }));
      for (int i = 0; i < 10'000; ++i) { // enough time for a thread that does not wait
        std::this_thread::yield();
      }
    }
  });
  const auto asked = ctx()->add_pressure_hook("first", 0, [&](std::uint64_t) {
    ++waiting;
    return std::uint64_t{0};
  });
  {
    const std::jthread mover([&] { kept.spill(); });
    EXPECT_TRUE(comes_true([&] { return moving.load(); }));
    const std::jthread user([&] {
      ++waiting;
      EXPECT_NE(kept.spill(), spill_tier::device) << "it has left meanwhile";
    });
    const spill_use used = other.use(ctx());
    const std::uint64_t bytes = room - kept.bytes() - other.bytes() + 64;
    EXPECT_EQ(take(bytes).size(), bytes) << "the move makes the room";
  }
  EXPECT_TRUE(holds(kept, 1));
  EXPECT_TRUE(holds(other, 2));
  EXPECT_EQ(refused(), 0U);
}

// A request that has found no table to spill calls the interrupt hook once before it is refused. The tests
// use the hook to change the state between the search and the refusal.

TEST_P(tiers, a_request_searches_again_if_a_use_has_ended_meanwhile) {
  const spill_handle kept = handle(1);
  std::optional<spill_use> used(kept.use(ctx()));
  bool searching = false;
  const auto asked = ctx()->add_pressure_hook("first", 0, [&](std::uint64_t) {
    searching = true;
    return std::uint64_t{0};
  });
  const support::interrupts meanwhile([&] {
    if (searching) {
      used.reset();
    }
  });
  EXPECT_EQ(take(room - 64).size(), room - 64);
  EXPECT_NE(kept.tier(), spill_tier::device);
  EXPECT_EQ(refused(), 0U);
}

TEST_P(tiers, a_request_searches_again_if_the_move_of_another_thread_has_failed) {
  const spill_handle kept = handle(1);
  static_cast<void>(in_use()); // so that no release is pending, for which the request would wait
  std::atomic<bool> failing{false};
  std::atomic<bool> searched{false};
  observe([&](const log_record& record) { // blocks the log: the request must not log before it searches
    if (record.event == memory_event::spill && record.outcome != "ok" && !failing.exchange(true)) {
      EXPECT_TRUE(comes_true([&] { return searched.load(); }));
    }
  });
  std::optional<full_disk> full(std::in_place);
  std::jthread mover(
      [&] { expect_error(errc::io, folder_.string(), [&] { kept.spill(spill_tier::file); }); });
  EXPECT_TRUE(comes_true([&] { return failing.load(); }));
  full.reset();
  const support::interrupts meanwhile([&] {
    if (!searched.exchange(true)) {
      mover.join();
    }
  });
  EXPECT_EQ(take(room - 64).size(), room - 64);
  EXPECT_NE(kept.tier(), spill_tier::device);
  EXPECT_EQ(refused(), 0U);
}

TEST_P(tiers, a_request_that_searches_for_tables_can_be_interrupted) {
  const spill_handle kept = handle(1);
  const spill_use used = kept.use(ctx());
  bool searching = false;
  const auto asked = ctx()->add_pressure_hook("first", 0, [&](std::uint64_t) {
    searching = true;
    return std::uint64_t{0};
  });
  const support::interrupts meanwhile([&] {
    if (searching) {
      throw std::runtime_error("Ctrl-C");
    }
  });
  EXPECT_THROW(static_cast<void>(take(room - 64)), std::runtime_error);
}

TEST_P(tiers, a_thread_may_end_while_it_uses_a_table) {
  const spill_handle kept = handle(1);
  std::optional<spill_use> left;
  std::thread([&] { left.emplace(kept.use(ctx())); }).join();
  expect_error(errc::busy, "is in use", [&] { kept.spill(); });
  EXPECT_TRUE(support::same_contents(left->value(), numbers(host_, 1)));
  left.reset();
  EXPECT_NE(kept.spill(), spill_tier::device);
}

TEST_P(tiers, a_forked_child_is_refused_and_the_parent_keeps_its_table) {
  const spill_handle kept = handle(1);
  const spill_handle gone = handle(2);
  kept.spill(spill_tier::file);
  support::expect_in_a_child([&] {
    expect_error(errc::device, "fork", [&] { static_cast<void>(kept.use(ctx())); });
    expect_error(errc::device, "fork", [&] { kept.spill(); });
    kept.close();
  });
  EXPECT_TRUE(holds(kept, 1));
  EXPECT_TRUE(holds(gone, 2));
}

TEST_P(tiers, a_killed_process_leaves_no_file) {
  if (!ctx()->on_host()) {
    GTEST_SKIP() << "a forked child has host contexts alone";
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const auto own = watch(context::create(make_host_backend(), options()));
    const spill_handle kept = spillable(own, numbers(own, 1));
    kept.spill();
    ::raise(kept.tier() == spill_tier::file ? SIGKILL : SIGTERM);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_P(tiers, moves_are_logged_and_counted) {
  std::vector<std::pair<memory_event, std::string>> logged;
  observe([&](const log_record& record) {
    if (record.event == memory_event::spill || record.event == memory_event::unspill) {
      logged.emplace_back(record.event, record.label.name());
    }
  });
  const spill_handle kept = handle(1);
  kept.spill(spill_tier::file);
  EXPECT_EQ(kept.spill(), spill_tier::file) << "it has already left";
  EXPECT_EQ(seen(spill_tier::file).handles, 1U);
  EXPECT_TRUE(holds(kept, 1));
  const spill_tier_statistics files = seen(spill_tier::file);
  EXPECT_EQ(files.spills, 1U);
  EXPECT_EQ(files.returns, 1U);
  EXPECT_EQ(files.spilled_bytes, kept.bytes());
  EXPECT_EQ(files.returned_bytes, kept.bytes());
  EXPECT_EQ(files.handles, 0U);
  EXPECT_EQ(seen(spill_tier::device).handles, 1U);
  EXPECT_EQ(seen(spill_tier::device).bytes, kept.bytes());
  EXPECT_THAT(logged, ::testing::ElementsAre(std::pair(memory_event::spill, "file"),
                                             std::pair(memory_event::unspill, "file")));
}

TEST_P(tiers, tables_of_other_devices_and_bad_tiers_are_refused) {
  const auto other = watch(context::create(make_host_backend()));
  expect_error(errc::invalid_argument, "does not share",
               [&] { static_cast<void>(spillable(ctx(), numbers(other, 1))); });
  const spill_handle kept = handle(1);
  expect_error(errc::invalid_argument, "does not share", [&] { static_cast<void>(kept.use(other)); });
  expect_error(errc::unsupported, "device", [&] { kept.spill(spill_tier::device); });
  expect_error(errc::invalid_argument, "expected pinned, pageable or file",
               [] { static_cast<void>(parse_spill_tier("disk")); });
  EXPECT_EQ(parse_spill_tier("pageable"), spill_tier::pageable);
}

TEST_P(tiers, unused_tables_of_a_budget_are_spilled_on_request) {
  const auto child = ctx()->with_budget("child");
  const spill_handle outside = handle(1);
  const spill_handle first = spillable(child, numbers(child, 2));
  const spill_handle second = spillable(child, numbers(child, 3));
  static_cast<void>(first.use(child)); // now `second` is the least recently used
  EXPECT_EQ(spill_unused(child, 0), 0U);
  EXPECT_EQ(spill_unused(child, 1), second.bytes()) << "whole bodies";
  EXPECT_NE(second.tier(), spill_tier::device);
  EXPECT_EQ(spill_unused(child, room), first.bytes());
  EXPECT_EQ(outside.tier(), spill_tier::device);
  EXPECT_EQ(spill_unused(ctx(), room), outside.bytes());
}

TEST_P(tiers, a_table_without_bytes_is_not_spilled) {
  const spill_handle kept = handle(1, 0, 0);
  EXPECT_EQ(kept.bytes(), 0U);
  EXPECT_EQ(kept.spill(), spill_tier::device);
  EXPECT_EQ(kept.use(ctx()).value().rows(), 0);
}

SAETA_CONFORMANCE_SUITE(tiers);

} // namespace
} // namespace saeta::conformance
