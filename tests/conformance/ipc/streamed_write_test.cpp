// Writing batches that are larger than a window: they are downloaded and written window by window.
#include "conformance/ipc/write_test.hpp"
#include "support/interrupts.hpp"
#include "support/symbols.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>

namespace saeta::conformance {
namespace {

using support::nulls;
using support::random_array;
using support::same_contents;

constexpr std::array written_forms{ipc::container::file, ipc::container::stream};

bool has_dictionary(const data_type& type) {
  return type.index_type() != nullptr ||
         std::ranges::any_of(type.children(), [](const field& child) { return has_dictionary(child.type); });
}

/// Returns whether a type can be written: dictionaries of dictionaries can't, because libarrow does not read
/// them.
bool is_written(const data_type& type) {
  return (type.value_type() == nullptr || !has_dictionary(*type.value_type())) &&
         std::ranges::all_of(type.children(), [](const field& child) { return is_written(child.type); });
}

class streamed_write : public write_test {
protected:
  /// Makes a batch of arrays with offsets and unknown null counts.
  [[nodiscard]] table batch_of(const std::vector<data_type>& types, std::int64_t rows) const {
    constexpr std::array patterns{nulls::some, nulls::absent, nulls::all, nulls::none};
    schema fields;
    std::vector<std::vector<support::shared_array>> batches(1);
    for (std::size_t c = 0; c < types.size(); ++c) {
      fields.fields.push_back({concat(c, ":", types[c].name()), types[c], true, {}});
      batches[0].push_back(
          random_array(types[c], {rows, static_cast<std::int64_t>(c % 11), patterns[c % 4], c % 2 == 0}, c));
    }
    return support::table_of(host_, fields, batches);
  }
  static std::vector<data_type> written_types() {
    std::vector<data_type> types = support::carried_types();
    std::erase_if(types, [](const data_type& type) { return !is_written(type); });
    return types;
  }
  [[nodiscard]] std::uint64_t staged() const { return ctx()->pinned_budget()->statistics().current; }
};

TEST_P(streamed_write, of_every_type_equals_a_write_of_whole_batches) {
  const table original = batch_of(written_types(), 3000);
  const table here = there(ctx(), original);
  for (const auto& [first, rows] :
       {std::pair(0, 3000), std::pair(8, 2992), std::pair(5, 2900), std::pair(1501, 777)}) {
    const table part = here.slice(first, rows);
    const table expected = original.slice(first, rows);
    for (const auto format : written_forms) {
      for (const auto body : bodies) {
        SCOPED_TRACE(::testing::Message()
                     << first << " + " << rows << ", container " << static_cast<int>(format)
                     << ", compression " << static_cast<int>(body));
        const auto written = ipc::write(part, file(), options(body, format));
        EXPECT_EQ(written, std::filesystem::file_size(file()));
        EXPECT_TRUE(same_contents(read(), expected));
        const std::string bytes = ipc::write_bytes(part, options(body, format));
        const auto reading = ipc::reader::open(std::as_bytes(std::span(bytes)), nullptr,
                                               {.copy = copy_policy::always, .combine_chunks = false});
        EXPECT_TRUE(same_contents(reading->read_all(ctx()), expected));
      }
    }
  }
}

TEST_P(streamed_write, unites_different_dictionaries_at_any_nesting) {
  std::vector<data_type> types = written_types();
  std::erase_if(types, [](const data_type& type) { return !has_dictionary(type); });
  ASSERT_FALSE(types.empty());
  const table original = support::random_table(
      host_, types,
      {.batch_rows = {700, 0, 900, 5}, .one_dictionary = false, .in_dictionaries = nulls::some});
  const table source = there(ctx(), original);
  for (const auto body : bodies) {
    ipc::write(source, file(), options(body));
    EXPECT_TRUE(same_contents(read(), original));
    ipc::write(source.slice(3, 1597), file(), options(body));
    EXPECT_TRUE(same_contents(read(), original.slice(3, 1597)));
  }
}

TEST_P(streamed_write, reads_columns_from_several_allocations) {
  const data_type type(type_id::int64);
  const auto two_columns = [&](std::uint64_t seed) {
    return support::table_of(host_, {{{"a", type, true, {}}, {"b", type, true, {}}}, {}},
                             {{random_array(type, {999, 0, nulls::absent}, seed),
                               random_array(type, {999, 0, nulls::absent}, seed + 1)}});
  };
  const table first = two_columns(1);
  const table second = two_columns(3);
  const auto mixed = [&](const std::shared_ptr<context>& ctx, const table& a, const table& b) {
    return table::make(ctx, a.fields(), {{999, {a.batches()[0].columns[0], b.batches()[0].columns[1]}}});
  };
  // In its own allocation each column is followed by other bytes at the distance of the bytes that are
  // written next.
  ipc::write(mixed(ctx(), there(ctx(), first), there(ctx(), second)), file(),
             options(ipc::compression::none));
  EXPECT_TRUE(same_contents(read(), mixed(host_, first, second)));
}

TEST_P(streamed_write, downloads_only_the_bytes_that_views_refer_to) {
  constexpr std::int32_t rows = 4000;
  constexpr std::int32_t letters = 40;
  auto texts = std::make_shared<support::plain_array>();
  texts->type = data_type(type_id::string_view);
  texts->length = rows;
  texts->buffers = {
      {}, std::vector<std::byte>(rows * 16), std::vector<std::byte>(rows * letters, std::byte{'x'})};
  for (std::int32_t i = 0; i < rows; ++i) {
    const std::array<std::int32_t, 4> view{letters, 0x78787878, 0,
                                           i * letters}; // length, prefix, buffer index, offset
    std::memcpy(texts->buffers[1].data() + static_cast<std::size_t>(i) * sizeof view, view.data(),
                sizeof view);
  }
  const table original = support::table_of(host_, {{{"x", texts->type, true, {}}}, {}}, {{texts}});
  const table here = there(ctx(), original);
  const auto all = ipc::write(here, file(), options(ipc::compression::none));
  const auto written = ipc::write(here.slice(1800, 400), file(), options(ipc::compression::none));
  EXPECT_TRUE(same_contents(read(), original.slice(1800, 400)));
  if (!ctx()->on_host()) {
    EXPECT_LT(written, all / 4);
  }
}

TEST_P(streamed_write, of_large_and_small_batches_keeps_their_order) {
  const auto encoded = data_type::dictionary(data_type(type_id::int16), data_type(type_id::string));
  const table original = support::random_table(
      host_, {data_type(type_id::int64), encoded, data_type(type_id::string_view), encoded},
      {.batch_rows = {3, 900, 0, 1, 700, 2, 2}, .one_dictionary = false});
  const table here = there(ctx(), original);
  for (const auto body : bodies) {
    ipc::write(here, file(), options(body, ipc::container::stream));
    EXPECT_TRUE(same_contents(read(), original));
    std::vector<std::int64_t> rows;
    ipc::write(here, file(), options(body),
               [&](const ipc::progress& so_far) { rows.push_back(so_far.rows); });
    EXPECT_EQ(rows, (std::vector<std::int64_t>{3, 903, 903, 904, 1604, 1606, 1608}));
    EXPECT_TRUE(same_contents(read(), original)) << "dictionaries are united";
  }
}

TEST_P(streamed_write, keeps_the_names_of_symbols_beside_other_columns) {
  const std::vector<data_type> types{data_type(type_id::string), data_type(type_id::int64)};
  const table strings = support::random_table(host_, types, {.batch_rows = {5000}});
  process_symbols()->intern("no name of this table");
  const table here = there(ctx(), support::with_symbols(strings, process_symbols()));
  for (const auto body : bodies) {
    ipc::write(here, file(), options(body));
    const table seen = read();
    EXPECT_EQ(support::names_of(seen.batches()[0].columns[0]),
              support::cells(strings.batches()[0].columns[0]));
    EXPECT_EQ(support::cells(seen, 1), support::cells(strings, 1));
  }
}

TEST_P(streamed_write, uses_three_windows_of_host_memory_for_any_batch_size) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host views columns without a copy";
  }
  const std::vector<data_type> types{data_type(type_id::int64), data_type(type_id::string),
                                     data_type(type_id::boolean)};
  for (const std::int64_t rows : {5'000, 100'000}) {
    const table here = there(ctx(), batch_of(types, rows));
    ASSERT_GT(here.byte_size(), 10 * window_bytes);
    const budget_window charged = ctx()->pinned_budget()->open_window();
    ipc::write(here, file(), options(ipc::compression::none));
    EXPECT_LE(charged.read().peak, ring_bytes + 3 * (window_bytes + 64) + 4096) << rows;
    EXPECT_LE(staged(), ring_bytes) << "the chunks of the ring";
  }
}

TEST_P(streamed_write, compresses_one_window_while_the_next_is_downloaded) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host views columns without a copy";
  }
  const table zeros = [&] { // compresses to almost nothing
    auto values = std::make_shared<support::plain_array>();
    values->type = data_type(type_id::int64);
    values->length = 100'000;
    values->buffers = {{}, std::vector<std::byte>(800'000)};
    return support::table_of(host_, {{{"x", values->type, true, {}}}, {}}, {{values}});
  }();
  const table here = there(ctx(), zeros);
  for (const auto body : {ipc::compression::lz4, ipc::compression::zstd}) {
    const budget_window charged = ctx()->pinned_budget()->open_window();
    ctx()->copies().reset_counters();
    const auto written = ipc::write(here, file(), options(body));
    EXPECT_EQ(ctx()->copies().read_counters().device_to_host.transfers,
              (800'000 + window_bytes - 1) / window_bytes);
    // Two windows, the largest blocks that compression may need, and the compressed bytes.
    EXPECT_LE(charged.read().peak,
              ring_bytes + 2 * (window_bytes + 64) + 2 * 16 * window_bytes + 2 * written);
    EXPECT_GE(charged.read().peak, staged() + 2 * window_bytes) << "both at once";
    EXPECT_LT(written, 100'000U);
    EXPECT_TRUE(same_contents(read(), zeros));
  }
}

TEST_P(streamed_write, is_refused_by_the_hosts_budget_without_leaks) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host views columns without a copy";
  }
  const table here = there(ctx(), batch_of({data_type(type_id::int64), data_type(type_id::string)}, 20'000));
  ipc::write(here, file(), options(ipc::compression::none)); // allocates some chunks of the ring
  std::filesystem::remove(file());
  for (const auto body : bodies) {
    // A budget for one window, then for two windows without their compressed bytes.
    for (const std::uint64_t room : {window_bytes + 100, 4 * window_bytes}) {
      if (body == ipc::compression::none && room > 3 * window_bytes) {
        continue;
      }
      ctx()->pinned_budget()->set_limit(staged() + room);
      try {
        ipc::write(here, file(), options(body));
        ADD_FAILURE() << "there is no room";
      } catch (const error& refused) {
        EXPECT_EQ(name_of(refused.code()), name_of(errc::budget_exceeded)) << refused.what();
        EXPECT_NE(refused.message().find("the host's memory"), std::string::npos) << refused.message();
      }
      ctx()->pinned_budget()->set_limit(budget::unlimited);
      EXPECT_TRUE(std::filesystem::is_empty(folder_));
      EXPECT_LE(staged(), ring_bytes);
    }
  }
}

TEST_P(streamed_write, charges_the_compressed_bytes_of_small_batches) {
  std::mt19937_64 random(3);
  auto values = std::make_shared<support::plain_array>();
  values->type = data_type(type_id::int64);
  values->length = 20'000;
  values->buffers = {{}, std::vector<std::byte>(160'000)};
  std::ranges::generate(values->buffers[1], [&] { return static_cast<std::byte>(random()); });
  const table here = there(
      ctx(), support::table_of(host_, {{{"x", values->type, true, {}}}, {}}, {{values}, {values}, {values}}));
  const auto& charged = ctx()->on_host() ? ctx()->memory_budget() : ctx()->pinned_budget();
  ipc::write_options whole = options(ipc::compression::none);
  whole.window_bytes = 1 << 20; // all batches fit into one window
  ipc::write(here, file(), whole);
  const std::uint64_t before = charged->statistics().current;
  const std::uint64_t ring = ctx()->on_host() ? 0 : ring_bytes; // chunks are allocated when they are needed
  for (const auto body : {ipc::compression::lz4, ipc::compression::zstd}) {
    whole.body = body;
    const budget_window window = charged->open_window();
    const auto written = ipc::write(here, file(), whole);
    EXPECT_GT(window.read().peak, before + written * 9 / 10);
    EXPECT_LE(charged->statistics().current, before + ring);
    std::filesystem::remove(file());
    const std::uint64_t downloaded = ctx()->on_host() ? 0 : 481'000;
    charged->set_limit(before + downloaded + 200'000);
    try {
      ipc::write(here, file(), whole);
      ADD_FAILURE() << "there is no room";
    } catch (const error& refused) {
      EXPECT_EQ(name_of(refused.code()), name_of(errc::budget_exceeded)) << refused.what();
      ASSERT_NE(refused.refusal(), nullptr) << refused.what();
      EXPECT_EQ(refused.refusal()->layer, charged->name());
      EXPECT_NE(refused.message().find(charged->name()), std::string::npos) << refused.message();
    }
    charged->set_limit(ctx()->on_host() ? limit : budget::unlimited);
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
    EXPECT_LE(charged->statistics().current, before + ring);
  }
}

TEST_P(streamed_write, leaks_nothing_if_any_call_fails) {
  const table original =
      batch_of({data_type(type_id::int64), data_type(type_id::string), data_type(type_id::string),
                data_type::nested("+l", {{"item", data_type(type_id::int16), true, {}}})},
               1000);
  fail_each_call(original, 40,
                 [&](const table& here, ipc::compression body) { ipc::write(here, file(), options(body)); });
}

TEST_P(streamed_write, ends_with_an_interrupt) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host views columns without a copy";
  }
  struct interrupted {};
  const table original = batch_of({data_type(type_id::int64)}, 400'000);
  const table here = there(ctx(), original);
  for (const auto body : bodies) {
    for (const int last : {1, 2}) {
      std::atomic<int> looks{0};
      const support::interrupts hook([&] {
        if (++looks >= last) {
          throw interrupted();
        }
      });
      bool written = true;
      try {
        ipc::write(here, file(), options(body));
      } catch (const interrupted&) {
        written = false;
      }
      EXPECT_EQ(written, looks < last) << "it may be over before the second look";
      EXPECT_EQ(std::filesystem::exists(file()), written);
      std::filesystem::remove(file());
      EXPECT_TRUE(std::filesystem::is_empty(folder_));
    }
    EXPECT_LE(staged(), ring_bytes);
  }
}

SAETA_CONFORMANCE_SUITE(streamed_write);

} // namespace
} // namespace saeta::conformance
