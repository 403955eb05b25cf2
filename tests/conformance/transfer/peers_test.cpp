// Copies of tables from one device to another (saeta/compute/copy_to.hpp), by peer access or through the
// host.
#include "conformance/harness/context_test.hpp"
#include "conformance/harness/graph_capture.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/compute/copy_to.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/transfer/peer_copy.hpp"
#include "support/child_process.hpp"
#include "support/faulty_backend.hpp"
#include "support/tables.hpp"
#include "unit/base/raises.hpp"

#include <gmock/gmock.h>

#include <array>
#include <numeric>

namespace saeta::conformance {
namespace {

using saeta::testing::faulty_backend;
using support::carried_types;
using support::random_table;
using support::same_contents;
using unit::code_raised_by;

/// Sizes with which all buffers are merged, in windows so small that most buffers are split.
constexpr peer_copy_sizes small_windows{.direct = std::size_t{16} << 20, .window = 256, .few = 0};

schema bytes_named(std::size_t columns) {
  schema made;
  for (std::size_t i = 0; i < columns; ++i) {
    made.fields.push_back({std::to_string(i), data_type(type_id::uint8), false, {}});
  }
  return made;
}

column bytes_of(const buffer& values) {
  return column::make(values.owner()->ctx(), {.type = data_type(type_id::uint8),
                                              .length = static_cast<std::int64_t>(values.size()),
                                              .null_count = 0,
                                              .buffers = {{}, values}});
}

/// Makes a table of one batch with a column for each buffer.
table table_over(const std::vector<buffer>& columns) {
  batch rows{static_cast<std::int64_t>(columns.front().size()), {}};
  for (const buffer& each : columns) {
    rows.columns.push_back(bytes_of(each));
  }
  return table::make(columns.front().owner()->ctx(), bytes_named(columns.size()), {std::move(rows)});
}

table moved_in_windows(const table& source, const std::shared_ptr<context>& target) {
  return table::make(target, source.fields(), copy_from_peer(source, target, "test", small_windows));
}

class peers : public context_test {
protected:
  void SetUp() override {
    const auto second = second_device();
    if (!second) {
      GTEST_SKIP() << one_device_alone;
    }
    if (!second->can_access_peer(device())) {
      GTEST_SKIP() << "these two devices have no peer access";
    }
    context_test::SetUp();
    there_ = make_there();
  }

  [[nodiscard]] std::shared_ptr<context> make_there(std::uint64_t budget = limit) {
    context_options options;
    options.budget = budget;
    return watch(context::create(second_device(), options));
  }
  [[nodiscard]] table source(const support::table_shape& shape = {}) const {
    return random_table(ctx(), carried_types(), shape);
  }
  [[nodiscard]] static std::uint64_t charged(const context& of) {
    return of.reports().statistics().budget.current;
  }
  /// Reads the values of a column of bytes.
  [[nodiscard]] static std::vector<std::uint8_t> values_of(const column& of) {
    context& home = *of.ctx();
    std::vector<std::uint8_t> made(of.values().size());
    use_token token(home.work_stream(), {reads(of.values())});
    home.copies().copy(made.data(), token.span<const std::uint8_t>(of.values()).data(), made.size(),
                       home.on_host() ? copy_kind::host_to_host : copy_kind::device_to_host, token.stream());
    token.finish();
    home.synchronize(home.work_stream());
    return made;
  }
  /// Makes a table of two columns whose buffers `stream` fills with 1 and 2.
  [[nodiscard]] table filled_table(stream_ref stream, std::vector<buffer>& columns) const {
    columns = {make(table_bytes), make(table_bytes)};
    fill(columns[0], 1, stream);
    fill(columns[1], 2, stream);
    return table_over(columns);
  }
  /// Makes a table of a boolean column with offset 3, whose bitmap must be shifted.
  [[nodiscard]] table shifted_bits(const buffer& bits) const {
    const auto rows = static_cast<std::int64_t>(8 * bits.size()) - 8;
    const column bools = column::make(ctx(), {.type = data_type(type_id::boolean),
                                              .length = rows,
                                              .offset = 3,
                                              .null_count = 0,
                                              .buffers = {{}, bits}});
    return table::make(ctx(), {{{"b", bools.type(), false, {}}}, {}}, {batch{rows, {bools}}});
  }
  static void expect_filled(const table& seen) {
    ASSERT_EQ(seen.column_count(), 2U);
    for (std::uint8_t i = 0; i < 2; ++i) {
      const auto wanted = static_cast<std::uint8_t>(i + 1);
      EXPECT_EQ(values_of(seen.pieces(i)[0]), std::vector<std::uint8_t>(table_bytes, wanted));
    }
  }

  /// Makes a table of many columns, each in its own allocation.
  [[nodiscard]] table scattered_table() const {
    std::vector<buffer> columns;
    for (std::uint8_t i = 0; i < scattered_columns; ++i) {
      columns.push_back(make(scattered_rows));
      fill(columns.back(), i, ctx()->work_stream());
    }
    return table_over(columns);
  }
  static void expect_scattered(const table& seen) {
    ASSERT_EQ(seen.column_count(), scattered_columns);
    for (std::uint8_t i = 0; i < scattered_columns; ++i) {
      EXPECT_EQ(values_of(seen.pieces(i)[0]), std::vector<std::uint8_t>(scattered_rows, i));
    }
  }

  static constexpr std::uint8_t scattered_columns = 40;
  static constexpr std::size_t scattered_rows = 1000;
  static constexpr std::size_t table_bytes = 1 << 14;
  std::shared_ptr<context> there_;
};

TEST_P(peers, keep_every_type) {
  for (const bool one_dictionary : {true, false}) {
    const table here = source({.one_dictionary = one_dictionary});
    ctx()->copies().reset_counters();
    there_->copies().reset_counters();
    const table moved = copy_to(here, there_);
    EXPECT_EQ(moved.ctx(), there_);
    const counter_values seen = there_->copies().read_counters();
    EXPECT_EQ(seen.peer_to_device.transfers, 1U);
    EXPECT_LE(seen.peer_to_device.calls, peer_copy_sizes{}.few);
    EXPECT_EQ(seen.staged, 0U);
    EXPECT_EQ(seen.host_to_device, traffic{});
    EXPECT_EQ(ctx()->copies().read_counters().device_to_host, traffic{});
    EXPECT_TRUE(same_contents(moved, here));
    EXPECT_TRUE(same_contents(copy_to(moved, ctx()), here)) << "and back";
  }
}

TEST_P(peers, cut_buffers_larger_than_a_window) {
  for (const support::nulls pattern : {support::nulls::some, support::nulls::absent}) {
    const table here = source({.in_dictionaries = pattern, .seed = 7});
    EXPECT_TRUE(same_contents(moved_in_windows(here, there_), here));
    const table part = here.slice(3, 190);
    EXPECT_TRUE(same_contents(moved_in_windows(part, there_), part));
  }
}

TEST_P(peers, keep_the_rows_of_slices) {
  const table here = source({.batch_rows = {500, 77}, .seed = 3});
  for (const auto& [first, rows] : {std::pair{0, 577}, {1, 2}, {13, 400}, {64, 64}, {495, 10}, {500, 77}}) {
    SCOPED_TRACE(::testing::Message() << rows << " rows from row " << first);
    const table part = here.slice(first, rows);
    EXPECT_TRUE(same_contents(copy_to(part, there_), part));
  }
}

TEST_P(peers, copy_only_the_rows_of_a_slice) {
  const schema fields{{{"text", data_type(type_id::string), true, {}}}, {}};
  const std::vector<std::string_view> rows(4096, "sixteen bytes ..");
  const table here = support::table_of(ctx(), fields, {{support::strings(rows)}});
  const table moved = copy_to(here.slice(2000, 4), there_);
  EXPECT_TRUE(same_contents(moved, here.slice(2000, 4)));
  EXPECT_LE(charged(*there_), 256U);
}

TEST_P(peers, support_tables_without_rows_batches_or_columns) {
  const table here = source();
  EXPECT_TRUE(same_contents(copy_to(here.slice(0, 0), there_), here.slice(0, 0)));
  const table no_batches = table::make(ctx(), here.fields(), {});
  EXPECT_EQ(copy_to(no_batches, there_).batches().size(), 0U);
  const table no_columns = table::make(ctx(), {}, {batch{5, {}}});
  EXPECT_EQ(copy_to(no_columns, there_).rows(), 5);
  EXPECT_EQ(charged(*there_), 0U);
}

TEST_P(peers, keep_shared_dictionaries_shared) {
  const data_type type = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string), false);
  const support::shared_array words = support::strings({"a", "bc", "def"});
  const schema fields{{{"x", type, true, {}}, {"y", type, true, {}}}, {}};
  const table first = support::table_of(
      ctx(), fields, {{support::indices({0, 1, 2, 1}, words), support::indices({2, 2, 0, 0}, words)}});
  const column& x = first.batches()[0].columns[0];
  const table here = table::make(ctx(), fields, {batch{4, {x, x}}, batch{2, {x.slice(1, 2), x.slice(2, 2)}}});
  const table moved = copy_to(here, there_);
  EXPECT_TRUE(same_contents(moved, here));
  const column* const shared = moved.batches()[0].columns[0].dictionary();
  EXPECT_EQ(moved.batches()[0].columns[1].dictionary(), shared);
  EXPECT_EQ(moved.batches()[1].columns[1].dictionary(), shared);
}

TEST_P(peers, copy_columns_of_one_allocation_in_one_call) {
  const buffer slab = make(table_bytes);
  fill(slab, 1, ctx()->work_stream());
  std::vector<buffer> columns;
  for (std::size_t at = 0; at + 128 <= table_bytes; at += 128) {
    columns.push_back(slab.slice(at, 100)); // with gaps, like padding
  }
  const table here = table_over(columns);
  ctx()->copies().reset_counters();
  there_->copies().reset_counters();
  const table moved = copy_to(here, there_);
  EXPECT_EQ(there_->copies().read_counters().peer_to_device.calls, 1U);
  EXPECT_EQ(there_->copies().read_counters().allocations, 1U);
  EXPECT_EQ(ctx()->copies().read_counters().allocations, 0U) << "joined on the source";
  EXPECT_EQ(values_of(moved.pieces(7)[0]), std::vector<std::uint8_t>(100, 1));
}

TEST_P(peers, merge_many_small_ranges_into_one_copy) {
  const table here = scattered_table();
  there_->copies().reset_counters();
  const table moved = copy_to(here, there_);
  const counter_values seen = there_->copies().read_counters();
  EXPECT_EQ(seen.peer_to_device, (traffic{.transfers = 1, .calls = 1, .bytes = charged(*there_)}));
  EXPECT_EQ(seen.allocations, 1U);
  expect_scattered(moved);
}

TEST_P(peers, copy_large_storages_in_one_call_and_small_ones_in_windows) {
  constexpr std::size_t rows = 4000;
  std::vector<buffer> columns;
  for (std::uint8_t i = 0; i < 12; ++i) {
    columns.push_back(make(rows));
    fill(columns.back(), i, ctx()->work_stream());
  }
  const buffer large = make(2 * rows);
  fill(large, 99, ctx()->work_stream());
  columns.push_back(large.slice(0, rows));
  columns.push_back(large.slice(rows, rows));
  const table here = table_over(columns);
  const peer_copy_sizes sizes{.direct = 4096, .window = 4096, .few = 2};
  there_->copies().reset_counters();
  const table moved = table::make(there_, here.fields(), copy_from_peer(here, there_, "test", sizes));
  EXPECT_EQ(there_->copies().read_counters().peer_to_device.calls, 13U) << "12 windows and the large one";
  for (std::uint8_t i = 0; i < 14; ++i) {
    EXPECT_EQ(values_of(moved.pieces(i)[0]), std::vector<std::uint8_t>(rows, i < 12 ? i : 99));
  }
}

TEST_P(peers, wait_for_a_late_writer_of_the_source) {
  for (const bool joined : {false, true}) {
    const auto late = ctx()->borrow_stream();
    std::vector<buffer> columns;
    const auto held = close_gate(late.ref().native_handle());
    const table here = filled_table(late.ref(), columns);
    const table moved = joined ? moved_in_windows(here, there_) : copy_to(here, there_);
    if (held) {
      EXPECT_FALSE(there_->work_stream().idle()) << "copied before the source was written";
      held->open();
    }
    expect_filled(moved);
  }
}

// A bitmap whose first row is inside of a byte is read by a kernel on the source device.

TEST_P(peers, wait_for_a_late_writer_of_shifted_bitmaps) {
  const buffer bits = make(table_bytes);
  fill(bits, 0, ctx()->work_stream());
  const auto late = ctx()->borrow_stream();
  const auto held = close_gate(late.ref().native_handle());
  fill(bits, 0xff, late.ref());
  const table moved = copy_to(shifted_bits(bits), there_);
  if (held) {
    EXPECT_FALSE(there_->work_stream().idle()) << "copied before the source was written";
    held->open();
  }
  EXPECT_EQ(values_of(moved.pieces(0)[0]), std::vector<std::uint8_t>(table_bytes - 1, 0xff));
}

TEST_P(peers, make_later_writers_of_shifted_bitmaps_wait) {
  const buffer bits = make(table_bytes);
  fill(bits, 0xff, ctx()->work_stream());
  const auto held = close_gate(ctx()->work_stream());
  const table moved = copy_to(shifted_bits(bits), there_);
  const auto writer = ctx()->borrow_stream();
  fill(bits, 0, writer.ref());
  if (held) {
    EXPECT_FALSE(writer.ref().idle()) << "written before it was read";
    held->open();
  }
  EXPECT_EQ(values_of(moved.pieces(0)[0]), std::vector<std::uint8_t>(table_bytes - 1, 0xff));
}

TEST_P(peers, copy_slices_with_only_shifted_or_rebased_buffers) {
  const schema text{{{"s", data_type(type_id::string), true, {}}}, {}};
  const table here =
      support::table_of(ctx(), text, {{support::strings({"abc", "", "", "de", "", "", "", "f"})}});
  for (const auto& [first, rows] : {std::pair{1, 2}, {4, 3}, {2, 4}}) { // two of them without characters
    const table part = here.slice(first, rows);
    EXPECT_TRUE(same_contents(copy_to(part, there_), part)) << first;
    EXPECT_TRUE(same_contents(moved_in_windows(part, there_), part)) << first;
  }
}

TEST_P(peers, make_later_writers_of_the_source_wait) {
  for (const bool joined : {false, true}) {
    std::vector<buffer> columns;
    const table here = filled_table(ctx()->work_stream(), columns);
    const auto held = close_gate(there_->work_stream());
    const table moved = joined ? moved_in_windows(here, there_) : copy_to(here, there_);
    const auto writer = ctx()->borrow_stream();
    fill(columns[0], 9, writer.ref());
    fill(columns[1], 9, writer.ref());
    if (held) {
      EXPECT_TRUE(joined || !writer.ref().idle()) << "written while the other device still read it";
      held->open();
    }
    expect_filled(moved);
    EXPECT_EQ(read(columns[0]), std::vector<std::uint8_t>(table_bytes, 9));
  }
}

TEST_P(peers, survive_an_early_release_of_the_source) {
  for (const bool joined : {false, true}) {
    std::optional<table> moved;
    const auto held = close_gate(there_->work_stream());
    {
      std::vector<buffer> columns;
      const table here = filled_table(ctx()->work_stream(), columns);
      moved = joined ? moved_in_windows(here, there_) : copy_to(here, there_);
    }
    std::vector<buffer> next;
    for (int i = 0; i < 6; ++i) { // reuses any freed memory
      next.push_back(make(table_bytes));
      fill(next.back(), 9, ctx()->work_stream());
    }
    if (held) {
      held->open();
    }
    expect_filled(*moved);
  }
}

TEST_P(peers, are_read_after_the_copy_by_every_stream_of_the_target) {
  const auto late = ctx()->borrow_stream();
  const auto reader = there_->borrow_stream();
  std::vector<buffer> columns;
  const auto held = close_gate(late.ref().native_handle());
  const table moved = copy_to(filled_table(late.ref(), columns), there_);
  std::vector<std::uint8_t> seen(table_bytes);
  const buffer values = moved.pieces(1)[0].values();
  const buffer copy = buffer::allocate(there_, table_bytes, reader.ref());
  use_token token(reader.ref(), {reads(values), writes(copy)});
  there_->copies().copy(token.span<char>(copy).data(), token.span<const char>(values).data(), table_bytes,
                        within(), reader.ref());
  token.finish();
  if (held) {
    EXPECT_FALSE(reader.ref().idle());
    held->open();
  }
  EXPECT_EQ(values_of(bytes_of(copy)), std::vector<std::uint8_t>(table_bytes, 2));
}

TEST_P(peers, charge_the_budget_of_the_target_context) {
  std::vector<buffer> columns;
  const table here = filled_table(ctx()->work_stream(), columns);
  const auto query = there_->with_budget("query", 2 * table_bytes);
  const table moved = copy_to(here, query);
  EXPECT_EQ(query->memory_budget()->statistics().current, 2 * table_bytes);
  EXPECT_EQ(code_raised_by([&] { static_cast<void>(copy_to(here, query)); }), errc::budget_exceeded);
  expect_filled(moved);
}

TEST_P(peers, leak_nothing_after_a_refusal_of_either_budget) {
  const table here = scattered_table();
  const auto small = make_there(4096);
  const std::uint64_t before = charged(*ctx());
  EXPECT_EQ(code_raised_by([&] { static_cast<void>(copy_to(here, small)); }), errc::budget_exceeded);
  EXPECT_EQ(charged(*small), 0U);
  EXPECT_EQ(charged(*ctx()), before);

  ctx()->set_budget(before); // no room for the window in which ranges are merged
  std::string message;
  EXPECT_EQ(code_raised_by([&] { static_cast<void>(copy_to(here, there_)); }, &message),
            errc::budget_exceeded);
  EXPECT_THAT(message, ::testing::HasSubstr(to_string(ctx()->device())));
  EXPECT_TRUE(there_->wait_for_releases(std::chrono::seconds(60)));
  EXPECT_EQ(charged(*there_), 0U);
  EXPECT_EQ(charged(*ctx()), before);
  ctx()->set_budget(limit);
  expect_scattered(copy_to(here, there_));
}

TEST_P(peers, leak_nothing_after_any_failure) {
  const auto here_faulty = std::make_shared<faulty_backend>(shared_device());
  const auto there_faulty = std::make_shared<faulty_backend>(second_device());
  context_options options;
  options.budget = limit;
  options.releases = release_thread::none;
  const auto home = watch(context::create(here_faulty, options));
  const auto away = watch(context::create(there_faulty, options));
  const table here = random_table(home, {data_type(type_id::int64), data_type(type_id::string)}, {});
  const std::uint64_t before = charged(*home);
  for (const auto& failing : {here_faulty, there_faulty}) {
    bool failed = true;
    for (std::uint64_t position = 1; failed; ++position) {
      SCOPED_TRACE(::testing::Message() << "call " << position << " fails");
      failing->fail_at(position);
      try {
        const table moved = moved_in_windows(here, away);
        failed = failing->failed();
        failing->fail_at(0);
        EXPECT_TRUE(same_contents(moved, here));
      } catch (const error& e) {
        EXPECT_TRUE(e.code() == errc::device || e.code() == errc::out_of_memory) << e.message();
      }
      failing->fail_at(0);
      for (const auto& each : {home, away}) {
        each->synchronize(each->work_stream());
        each->drain();
        EXPECT_TRUE(each->wait_for_releases(std::chrono::seconds(60)));
      }
      EXPECT_EQ(charged(*away), 0U);
      EXPECT_EQ(charged(*home), before);
    }
    EXPECT_TRUE(same_contents(moved_in_windows(here, away), here));
  }
}

TEST_P(peers, do_not_invalidate_captures) {
  const table here = source();
  for (const auto& on : {shared_device(), second_device()}) {
    const stream others(on);
    graph_capture captured(*on, others.ref().native_handle());
    const table moved = copy_to(here, there_);
    EXPECT_TRUE(captured.end()) << "the copy has ended a capture on " << to_string(on->device());
    EXPECT_TRUE(same_contents(moved, here));
  }
}

TEST_P(peers, refuse_memory_with_unknown_writers_while_a_graph_is_captured) {
  std::vector<buffer> columns;
  const table here = filled_table(ctx()->work_stream(), columns);
  const std::array views{columns[0]};
  const export_hold consumer(views, access::read_write);
  const auto announced = ctx()->capturing();
  if (ctx()->on_host()) {
    GTEST_SKIP() << nothing_pends;
  }
  EXPECT_EQ(code_raised_by([&] { static_cast<void>(copy_to(here, there_)); }), errc::busy);
  EXPECT_EQ(charged(*there_), 0U);
}

TEST_P(peers, can_be_copied_by_a_short_lived_thread) {
  const table here = source();
  std::optional<table> moved;
  std::thread([&] { moved = copy_to(here, there_); }).join();
  EXPECT_TRUE(same_contents(*moved, here));
}

TEST_P(peers, can_be_copied_in_both_directions_at_the_same_time) {
  const table here = source({.seed = 5});
  const table away = copy_to(source({.seed = 6}), there_);
  constexpr int rounds = 5;
  const auto move = [](const table& from, const std::shared_ptr<context>& to, std::vector<table>& made) {
    for (int i = 0; i < rounds; ++i) {
      made.push_back(moved_in_windows(from, to));
    }
  };
  std::vector<table> there;
  std::vector<table> back;
  std::thread outward([&] { move(here, there_, there); });
  std::thread inward([&] { move(away, ctx(), back); });
  outward.join();
  inward.join();
  EXPECT_TRUE(same_contents(there.back(), here));
  EXPECT_TRUE(same_contents(back.back(), away));
}

TEST_P(peers, refuse_a_context_of_a_parent_process) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "host memory of a parent can be read";
  }
  if (GetParam().name == "cuda" || !support::allocator_forks) {
    GTEST_SKIP() << "a child of fork can't use this device or allocator";
  }
  const table here = source();
  support::expect_in_a_child(
      [&] { EXPECT_EQ(code_raised_by([&] { static_cast<void>(copy_to(here, there_)); }), errc::device); });
  EXPECT_TRUE(same_contents(copy_to(here, there_), here));
}

class unreachable_peers : public peers {
protected:
  /// Makes the context of a device without peer access to or from the first device.
  [[nodiscard]] std::shared_ptr<context> make_unreachable() {
    const auto beside = std::dynamic_pointer_cast<sim::device>(shared_device());
    if (!beside) {
      return nullptr;
    }
    sim::options chosen;
    chosen.ordinal = 2;
    chosen.beside = beside;
    chosen.total_bytes = std::uint64_t{512} << 20;
    chosen.peers = false;
    unreachable_ = sim::device::create(chosen);
    context_options options;
    options.budget = limit;
    return watch(context::create(unreachable_, options));
  }

private:
  std::shared_ptr<sim::device> unreachable_; ///< must outlive its context
};

TEST_P(unreachable_peers, are_copied_through_the_host) {
  const table here = source();
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host reaches all of its memory";
  }
  ctx()->copies().reset_counters();
  const std::shared_ptr<context> apart = make_unreachable();
  const std::shared_ptr<context>& target = apart ? apart : there_;
  target->copies().reset_counters();
  const table moved =
      apart ? copy_to(here, apart) : table::make(target, here.fields(), copy_through_host(here, target));
  const counter_values seen = target->copies().read_counters();
  EXPECT_EQ(seen.staged, 1U);
  EXPECT_EQ(seen.peer_to_device, traffic{});
  EXPECT_GT(seen.host_to_device.bytes, 0U);
  EXPECT_GT(ctx()->copies().read_counters().device_to_host.bytes, 0U);
  EXPECT_TRUE(same_contents(moved, here));
  const table part = here.slice(7, 150);
  EXPECT_TRUE(same_contents(apart ? copy_to(part, apart) : copy_to(part, there_), part));
}

TEST_P(unreachable_peers, are_refused_in_strict_mode) {
  std::vector<buffer> columns;
  const table here = filled_table(ctx()->work_stream(), columns);
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host reaches all of its memory";
  }
  const auto strict = ctx()->copies().forbid_downloads();
  EXPECT_EQ(code_raised_by([&] { static_cast<void>(copy_through_host(here, there_)); }),
            errc::download_forbidden);
  EXPECT_EQ(charged(*there_), 0U);
  expect_filled(copy_to(here, there_)); // needs no copy through the host
}

TEST_P(unreachable_peers, wait_for_a_late_writer_of_the_source) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << nothing_pends;
  }
  const auto late = ctx()->borrow_stream();
  std::vector<buffer> columns;
  const auto held = close_gate(late.ref().native_handle());
  const table here = filled_table(late.ref(), columns);
  const std::shared_ptr<context> apart = make_unreachable();
  std::optional<std::vector<batch>> moved;
  const std::shared_ptr<context>& target = apart ? apart : there_;
  open_while_the_host_waits(held, [&] { moved = copy_through_host(here, target); });
  expect_filled(table::make(target, here.fields(), *moved));
}

SAETA_CONFORMANCE_SUITE(peers);
SAETA_CONFORMANCE_SUITE(unreachable_peers);

} // namespace
} // namespace saeta::conformance
