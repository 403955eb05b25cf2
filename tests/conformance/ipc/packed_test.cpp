// The packed form on every backend: packed tables are unpacked as views of one body.

#include "conformance/harness/folder_test.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/ipc/packed.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/writer.hpp"
#include "saeta/symbols/symbols.hpp"
#include "support/symbols.hpp"
#include "support/tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

namespace saeta::conformance {
namespace {

using support::random_table;
using support::same_contents;

class packed : public folder_test {
protected:
  /// Returns the types that the IPC format supports.
  static std::vector<data_type> packable_types() {
    std::vector<data_type> types = support::carried_types();
    std::erase_if(types, [](const data_type& type) {
      const data_type* const values = type.value_type();
      return values != nullptr && (values->id() == type_id::dictionary || !values->extension_name().empty());
    });
    return types;
  }
  /// Makes a table of every type in several batches. On a device each batch is one allocation, on the host
  /// each buffer.
  [[nodiscard]] table every_type(const support::table_shape& shape = {}) const {
    return random_table(ctx(), packable_types(), shape);
  }
  [[nodiscard]] table again(const table& source) const {
    const ipc::packed_table packed = ipc::pack(source);
    return ipc::unpack(ctx(), packed.metadata, packed.body);
  }
  [[nodiscard]] table read_whole(const table& source) const {
    ipc::write(source, file());
    return ipc::reader::open(file(), {.copy = copy_policy::always, .combine_chunks = true})->read_all(ctx());
  }

  /// Expects that every buffer of the column is a range of the body with an offset that is a multiple of 64.
  static void expect_inside(const column& of, const buffer& body) {
    for (const buffer& each : of.buffers()) {
      if (each.size() != 0) {
        EXPECT_EQ(each.owner(), body.owner());
        EXPECT_EQ(each.address() % 64, 0U);
        EXPECT_GE(each.address(), body.address());
        EXPECT_LE(each.address() + each.size(), body.address() + body.size());
      }
    }
    for (const column& child : of.children()) {
      expect_inside(child, body);
    }
    if (of.dictionary() != nullptr) {
      expect_inside(*of.dictionary(), body);
    }
  }

  /// A host context to make and compare tables.
  std::shared_ptr<context> host_ = watch(context::create(make_host_backend()));
};

TEST_P(packed, every_type_is_unpacked_into_one_allocation) {
  for (const auto pattern : {support::nulls::absent, support::nulls::some}) {
    for (const bool one : {true, false}) {
      const table source = every_type({.one_dictionary = one, .in_dictionaries = pattern});
      const ipc::packed_table made = ipc::pack(source);
      const table back = ipc::unpack(ctx(), made.metadata, made.body);
      EXPECT_TRUE(same_contents(back, source));
      for (const batch& each : back.batches()) {
        for (const column& column : each.columns) {
          expect_inside(column, made.body);
        }
      }
    }
  }
}

TEST_P(packed, slices_are_packed_with_only_their_rows) {
  const table source = every_type({.batch_rows = {200, 90}});
  for (const auto& [first, rows] :
       {std::pair{13, 230}, std::pair{0, 8}, std::pair{195, 20}, std::pair{7, 1}}) {
    const table part = source.slice(first, rows);
    EXPECT_TRUE(same_contents(again(part), part)) << first << ", " << rows;
  }
  const table wide = random_table(ctx(), support::file_types(), {.batch_rows = {9000}});
  EXPECT_LT(ipc::pack(wide.slice(1000, 10)).body.size(), ipc::pack(wide).body.size() / 20);
}

TEST_P(packed, child_rows_without_a_parent_are_left_out) {
  const data_type number(type_id::int64);
  const auto values = [&](std::int64_t rows) {
    return random_table(ctx(), {number}, {.batch_rows = {rows}}).batches()[0].columns[0];
  };
  const data_type point = data_type::nested("+s", std::vector<field>{{"x", number, true, {}}});
  const auto points = [&](std::int64_t child_rows) {
    return column::make(
        ctx(),
        {.type = point, .length = 10, .null_count = 0, .buffers = {{}}, .children = {values(child_rows)}});
  };
  const schema fields{{{"whole", point, true, {}}, {"part", point, true, {}}}, {}};
  const table source = table::make(ctx(), fields, {batch{10, {points(10), points(5000)}}});
  const ipc::packed_table made = ipc::pack(source);
  EXPECT_LE(made.body.size(), 512U);
  EXPECT_TRUE(same_contents(ipc::unpack(ctx(), made.metadata, made.body), source));
}

TEST_P(packed, tables_without_rows_columns_or_batches_keep_their_schema_and_rows) {
  const table source = every_type();
  for (const table& each :
       {source.slice(0, 0), source.slice(200, 1), source.select({}), table::make(ctx(), source.fields(), {}),
        table::make(ctx(), {{}, {{"only", "metadata"}}}, {{5, {}}, {0, {}}, {7, {}}})}) {
    EXPECT_TRUE(same_contents(again(each), each));
  }
}

TEST_P(packed, the_result_of_a_whole_read_is_already_packed) {
  const table source = read_whole(random_table(host_, support::file_types(), {}));
  const auto held = ctx()->reports().statistics().ledger.own;
  ctx()->copies().reset_counters();
  const ipc::packed_table made = ipc::pack(source);
  const table back = ipc::unpack(ctx(), made.metadata, made.body, validation::structure);
  const counter_values now = ctx()->copies().read_counters();
  EXPECT_EQ(ctx()->reports().statistics().ledger.own, held) << "nothing is allocated";
  for (const traffic& each :
       {now.host_to_host, now.host_to_device, now.device_to_host, now.device_to_device}) {
    EXPECT_EQ(each.transfers, 0U);
  }
  EXPECT_EQ(made.body.owner(), source.batches()[0].columns[1].buffers()[1].owner());
  EXPECT_TRUE(made.in_place);
  EXPECT_TRUE(same_contents(back, source));
}

TEST_P(packed, an_unpacked_table_is_already_packed) {
  const ipc::packed_table first = ipc::pack(every_type());
  const ipc::packed_table second = ipc::pack(ipc::unpack(ctx(), first.metadata, first.body));
  EXPECT_EQ(first.metadata, second.metadata);
  EXPECT_EQ(first.body.owner(), second.body.owner());
}

TEST_P(packed, some_columns_of_an_allocation_are_gathered) {
  const std::vector<data_type> types(20, data_type(type_id::int64));
  const table wide = read_whole(random_table(host_, types, {.batch_rows = {9000}}));
  const std::array<std::size_t, 2> ends{0, 19};
  const ipc::packed_table made = ipc::pack(wide.select(ends));
  EXPECT_LT(made.body.size(), 2 * 9000 * 9U + 1024);
  EXPECT_NE(made.body.owner(), wide.batches()[0].columns[0].buffers()[1].owner());
  EXPECT_FALSE(made.in_place);
}

TEST_P(packed, a_gather_of_a_thousand_columns_is_launched_in_parts) {
  const std::vector<data_type> types(1000, data_type(type_id::int32));
  const table source = random_table(ctx(), types, {.batch_rows = {7, 9}});
  ctx()->copies().reset_counters();
  const ipc::packed_table made = ipc::pack(source);
  if (!ctx()->on_host()) {
    EXPECT_GT(ctx()->copies().read_counters().scalars.bytes, 2 * 64 * 1024U);
  }
  EXPECT_TRUE(same_contents(ipc::unpack(ctx(), made.metadata, made.body), source));
}

TEST_P(packed, unpacked_tables_share_equal_schemas) {
  const ipc::packed_table made = ipc::pack(every_type());
  const auto unpacked = [&] { return ipc::unpack(ctx(), made.metadata, made.body); };
  const auto fields = unpacked().shared_fields();
  EXPECT_EQ(unpacked().shared_fields(), fields);
  for (int i = 0; i < 20; ++i) { // more schemas than the cache keeps
    schema named{{{concat("column ", i), data_type(type_id::int64), true, {}}}, {{"number", concat(i)}}};
    const table other = table::make(ctx(), std::move(named), {});
    EXPECT_EQ(again(other).fields(), other.fields());
  }
  EXPECT_NE(unpacked().shared_fields(), fields);
  EXPECT_EQ(unpacked().fields(), fields->fields());
}

TEST_P(packed, a_shared_dictionary_is_packed_once) {
  const auto words = support::random_array(data_type(type_id::string),
                                           {.length = 5000, .pattern = support::nulls::absent}, 3);
  const auto rows = support::indices({0, 4999, 7}, words);
  const schema fields{{{"a", rows->type, true, {}}, {"b", rows->type, true, {}}}, {}};
  const table source = support::table_of(ctx(), fields, {{rows, rows}, {rows, rows}});
  const auto alone = ipc::pack(source.slice(0, 3).select(std::array<std::size_t, 1>{0}));
  const auto made = ipc::pack(source);
  EXPECT_LT(made.body.size(), alone.body.size() + 1024);
  EXPECT_TRUE(same_contents(ipc::unpack(ctx(), made.metadata, made.body), source));
}

TEST_P(packed, symbols_round_trip_with_their_names) {
  const table strings = random_table(ctx(), {data_type(type_id::string), data_type(type_id::int64)},
                                     {.batch_rows = {90, 0, 7}});
  const auto names = symbol_table::make();
  const table back = again(support::with_symbols(strings, names));
  EXPECT_TRUE(back.fields().fields[0].type == symbol_type());
  for (std::size_t b = 0; b < strings.batches().size(); ++b) {
    EXPECT_EQ(support::names_of(back.batches()[b].columns[0]),
              support::cells(strings.batches()[b].columns[0]));
  }
}

TEST_P(packed, a_pending_write_to_the_body_is_waited_for) {
  const table source = every_type();
  const ipc::packed_table made = ipc::pack(source);
  const buffer late = make(made.body.size());
  const stream other(shared_device());
  const auto held = close_gate(other.ref().native_handle());
  {
    use_token token(other.ref(), {reads(made.body), writes(late)});
    ctx()->copies().copy(token.span<std::byte>(late).data(), token.span<const std::byte>(made.body).data(),
                         late.size(), within(), other.ref());
    token.finish();
  }
  std::optional<table> back;
  open_while_the_host_waits(held, [&] { back = ipc::unpack(ctx(), made.metadata, late); });
  EXPECT_TRUE(same_contents(*back, source));
}

TEST_P(packed, a_body_that_is_too_short_or_misplaced_is_refused) {
  const ipc::packed_table made = ipc::pack(every_type());
  const auto refused = [&](const buffer& body) {
    try {
      static_cast<void>(ipc::unpack(ctx(), made.metadata, body));
      return std::string("nothing");
    } catch (const error& why) {
      return concat(name_of(why.code()), ": ", why.message());
    }
  };
  EXPECT_THAT(refused(made.body.slice(0, made.body.size() - 64)),
              ::testing::AllOf(::testing::HasSubstr("format: packed table"),
                               ::testing::HasSubstr(concat(made.body.size()))));
  EXPECT_THAT(refused({}), ::testing::HasSubstr("found 0"));
  EXPECT_THAT(refused(made.body.slice(1, made.body.size() - 1)), ::testing::HasSubstr("multiple of 8"));
}

TEST_P(packed, a_gather_that_the_budget_refuses_leaves_no_live_memory) {
  const table source = every_type();
  const auto before = ctx()->reports().statistics().ledger.own;
  ctx()->memory_budget()->set_limit(ctx()->reports().statistics().budget.current + 1024);
  EXPECT_THROW(static_cast<void>(ipc::pack(source)), error);
  ctx()->memory_budget()->set_limit(limit);
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(ctx()->reports().statistics().ledger.own, before);
}

TEST_P(packed, mutated_metadata_is_an_error_or_a_readable_table) {
  const table source = every_type({.batch_rows = {30, 4}});
  const ipc::packed_table made = ipc::pack(source);
  std::mt19937_64 random(7);
  std::size_t errors = 0;
  std::size_t tables = 0;
  for (int i = 0; i < 400; ++i) {
    std::vector<std::byte> damaged = made.metadata;
    const std::size_t at = random() % damaged.size();
    if (i % 4 == 0) {
      damaged.resize(at);
    } else if (i % 4 == 1) {
      const std::int64_t value = std::array<std::int64_t, 6>{
          -1, 0, std::int64_t{1} << 40, INT64_MAX, INT64_MIN, 0x7FFFFFFF'7FFFFFFF}[random() % 6];
      std::memcpy(damaged.data() + std::min(at / 8 * 8, damaged.size() - 8), &value, sizeof value);
    } else {
      damaged[at] ^= static_cast<std::byte>(1U << (random() % 8));
    }
    try {
      const table back = ipc::unpack(ctx(), damaged, made.body);
      for (std::size_t c = 0; c < back.column_count(); ++c) {
        const auto pieces = back.pieces(c);
        if (std::ranges::all_of(pieces, [](const column& each) { return each.length() < 1'000'000; })) {
          support::cells(back, c);
        }
      }
      ++tables;
    } catch (const error& why) {
      EXPECT_THAT(why.code(), ::testing::AnyOf(errc::format, errc::unsupported)) << why.what();
      ++errors;
    }
  }
  EXPECT_GT(errors, 100U);
  EXPECT_GT(tables, 0U);
}

TEST_P(packed, mutated_bodies_are_an_error_or_a_readable_table) {
  const ipc::packed_table made = ipc::pack(every_type({.batch_rows = {30}}));
  std::vector<std::uint8_t> bytes = read(made.body);
  std::mt19937_64 random(9);
  std::size_t errors = 0;
  for (int i = 0; i < 200; ++i) {
    const buffer body = make(bytes.size());
    std::vector<std::uint8_t> damaged = bytes;
    for (int k = 0; k < 20; ++k) {
      damaged[random() % damaged.size()] ^= static_cast<std::uint8_t>(1U << (random() % 8));
    }
    {
      use_token token(ctx()->work_stream(), {writes(body)});
      ctx()->copies().copy(token.span<std::byte>(body).data(), damaged.data(), damaged.size(),
                           ctx()->on_host() ? copy_kind::host_to_host : copy_kind::host_to_device,
                           ctx()->work_stream());
      token.finish();
      ctx()->synchronize(ctx()->work_stream());
    }
    try {
      const table back = ipc::unpack(ctx(), made.metadata, body);
      for (std::size_t c = 0; c < back.column_count(); ++c) {
        support::cells(back, c);
      }
    } catch (const error& why) {
      EXPECT_EQ(name_of(why.code()), name_of(errc::format)) << why.what();
      ++errors;
    }
  }
  EXPECT_GT(errors, 0U);
}

SAETA_CONFORMANCE_SUITE(packed);

} // namespace
} // namespace saeta::conformance
