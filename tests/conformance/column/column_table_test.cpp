// Tables: schemas and batches of columns.

#include "conformance/harness/arrow_test.hpp"
#include "saeta/column/table.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "support/arrays.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace saeta::conformance {
namespace {

using support::nulls;
using support::random_array;
using support::same_rows;
using support::shared_array;

class tables : public arrow_test {
protected:
  /// Makes a table with two columns of the same name, in batches of 5, 0 and 70 rows.
  void SetUp() override {
    arrow_test::SetUp();
    fields_ = {{{"a", data_type(type_id::int64), true, {}}, {"a", data_type(type_id::string), true, {}}},
               {{"k", "v"}}};
    for (const std::int64_t rows : {5, 0, 70}) {
      numbers_.push_back(random_array(data_type(type_id::int64), {rows, 3, nulls::some, true}, 1));
      words_.push_back(random_array(data_type(type_id::string), {rows, 1, nulls::some, true}, 2));
    }
  }
  [[nodiscard]] std::vector<batch> batches() const {
    std::vector<batch> made;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      made.push_back({numbers_[i]->length, {imported(numbers_[i]), imported(words_[i])}});
    }
    return made;
  }
  [[nodiscard]] static arrow_array exported(const column& source) {
    arrow_array given = export_column(source);
    return given;
  }
  void expect_refused(const std::function<void(std::vector<batch>&)>& broken, errc code,
                      std::string_view said) {
    std::vector<batch> made = batches();
    broken(made);
    try {
      static_cast<void>(table::make(ctx(), fields_, std::move(made)));
      FAIL() << "accepted: " << said;
    } catch (const error& seen) {
      EXPECT_EQ(seen.code(), code);
      EXPECT_NE(seen.message().find(said), std::string::npos) << seen.message();
    }
  }

  schema fields_;
  std::vector<shared_array> numbers_;
  std::vector<shared_array> words_;
};

TEST_P(tables, add_up_the_rows_of_their_batches) {
  const table seen = table::make(ctx(), fields_, batches());
  EXPECT_EQ(seen.rows(), 75);
  EXPECT_EQ(seen.column_count(), 2U);
  EXPECT_EQ(seen.fields(), fields_);
  ASSERT_EQ(seen.pieces(1).size(), 3U);
  EXPECT_EQ(seen.pieces(1)[2].length(), 70);
  EXPECT_THROW(static_cast<void>(seen.pieces(2)), error);
}

TEST_P(tables, are_refused_with_the_position_of_the_mismatch) {
  expect_refused([](auto& b) { b[1].rows = -1; }, errc::invalid_argument,
                 "batch 1: the number of rows is -1");
  expect_refused([](auto& b) { b[2].columns.pop_back(); }, errc::invalid_argument,
                 "batch 2: 1 columns, expected 2");
  expect_refused([](auto& b) { std::swap(b[0].columns[0], b[0].columns[1]); }, errc::type_mismatch,
                 "batch 0, column 0 'a': type string, expected int64");
  expect_refused([](auto& b) { b[2].columns[1] = b[2].columns[1].slice(0, 69); }, errc::invalid_argument,
                 "batch 2, column 1 'a': 69 rows, expected 70");
  expect_refused([](auto& b) { b[0].rows = 4; }, errc::invalid_argument, "column 0 'a': 5 rows, expected 4");
  const auto other = new_context();
  arrow_array foreign = support::to_c(numbers_[0]);
  const column elsewhere = import_column(other, fields_.fields[0], foreign.get());
  expect_refused([&](auto& b) { b[0].columns[0] = elsewhere; }, errc::invalid_argument, "in another context");
}

TEST_P(tables, may_share_a_schema) {
  const auto fields = std::make_shared<const schema_index>(fields_);
  const table one = table::make_sharing(ctx(), fields, batches());
  const table other = table::make_sharing(ctx(), fields, {});
  EXPECT_EQ(&one.fields(), &other.fields());
  EXPECT_EQ(one.rows(), 75);
}

TEST(table, is_refused_without_a_context) {
  try {
    static_cast<void>(table::make(nullptr, {}, {}));
    FAIL() << "accepted";
  } catch (const error& seen) {
    EXPECT_EQ(seen.code(), errc::invalid_argument);
    EXPECT_EQ(seen.message(), "table: the context is null");
  }
}

TEST_P(tables, accept_columns_of_contexts_with_the_same_root) {
  const auto child = watch(ctx()->with_budget("query"));
  const auto promised = watch(ctx()->with_reservation(1 << 20));
  const data_type type(type_id::int64);
  std::vector<batch> made(1);
  made[0].rows = 8;
  schema fields;
  for (const auto& ctx : {ctx(), child, promised}) {
    const buffer values = buffer::allocate(ctx, 64, ctx->work_stream(), "values");
    made[0].columns.push_back(column::make(ctx, {type, 8, 0, 0, {{}, values}, nullptr}));
    fields.fields.push_back({"a", type, true, {}});
  }
  for (const auto& ctx : {ctx(), child, promised}) {
    const table seen = table::make(ctx, fields, made);
    EXPECT_EQ(seen.column_count(), 3U);
    EXPECT_EQ(seen.ctx(), ctx);
  }
}

TEST_P(tables, are_sliced_across_batches) {
  const table whole = table::make(ctx(), fields_, batches());
  const table cut = whole.slice(3, 60);
  EXPECT_EQ(cut.rows(), 60);
  ASSERT_EQ(cut.batches().size(), 2U) << "the batch without rows is gone";
  EXPECT_TRUE(same_rows(exported(cut.pieces(0)[0]).get(), *numbers_[0], 3, 2));
  EXPECT_TRUE(same_rows(exported(cut.pieces(1)[1]).get(), *words_[2], 0, 58));
  const table again = cut.slice(2, 10);
  ASSERT_EQ(again.batches().size(), 1U);
  EXPECT_TRUE(same_rows(exported(again.pieces(1)[0]).get(), *words_[2], 0, 10));
  ASSERT_EQ(whole.slice(0, 1).batches().size(), 1U);
  EXPECT_TRUE(same_rows(exported(whole.slice(0, 1).pieces(0)[0]).get(), *numbers_[0], 0, 1));
  EXPECT_EQ(whole.slice(75, 0).rows(), 0);
  EXPECT_EQ(whole.slice(75, 0).fields(), fields_);
  EXPECT_THROW(static_cast<void>(whole.slice(75, 1)), error);
  EXPECT_THROW(static_cast<void>(whole.slice(-1, 1)), error);
}

TEST_P(tables, can_be_restricted_to_selected_columns) {
  const table whole = table::make(ctx(), fields_, batches());
  const std::vector<std::size_t> order{1, 0, 1};
  const table seen = whole.select(order);
  EXPECT_EQ(seen.column_count(), 3U);
  EXPECT_EQ(seen.fields().fields[0], fields_.fields[1]);
  EXPECT_EQ(seen.fields().metadata, fields_.metadata);
  EXPECT_EQ(seen.pieces(1)[2].values().address(), whole.pieces(0)[2].values().address());
  const table none = whole.select({});
  EXPECT_EQ(none.column_count(), 0U);
  EXPECT_EQ(none.rows(), 75) << "rows without columns";
  const std::vector<std::size_t> missing{2};
  EXPECT_THROW(static_cast<void>(whole.select(missing)), error);
}

TEST_P(tables, without_columns_keep_and_slice_their_rows) {
  const table seen = table::make(ctx(), {}, {{7, {}}, {3, {}}});
  EXPECT_EQ(seen.rows(), 10);
  EXPECT_EQ(seen.slice(5, 4).rows(), 4);
  EXPECT_EQ(seen.byte_size(), 0U);
}

TEST_P(tables, count_shared_bytes_once) {
  const auto words = std::make_shared<const column>(
      column::make(ctx(), {data_type(type_id::string),
                           3,
                           0,
                           0,
                           {buffer(), make_of<std::int32_t>({0, 40, 70, 100}), make(100)},
                           nullptr}));
  const data_type type = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const column codes = column::make(ctx(), {type, 100, 0, 0, {buffer(), make(400)}, words});
  const schema fields{{{"a", type, true, {}}, {"b", type, true, {}}}, {}};
  EXPECT_EQ(codes.byte_size(), 516U);
  const table apart = table::make(ctx(), fields, {{40, {codes.slice(0, 40), codes.slice(60, 40)}}});
  EXPECT_EQ(apart.byte_size(), 80U * 4 + 116);
  const table overlapping = table::make(ctx(), fields, {{40, {codes.slice(0, 40), codes.slice(20, 40)}}});
  EXPECT_EQ(overlapping.byte_size(), 60U * 4 + 8 + 40) << "60 of 100 rows share one of three words";
  const table inside =
      table::make(ctx(), fields, {{100, {codes, codes}}, {10, {codes.slice(5, 10), codes.slice(50, 10)}}});
  EXPECT_EQ(inside.byte_size(), 516U);
}

SAETA_CONFORMANCE_SUITE(tables);

} // namespace
} // namespace saeta::conformance
