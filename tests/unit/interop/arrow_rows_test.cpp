#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/interop/arrow/rows.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace saeta {
namespace {

/// Uses a schema with two columns of numbers.
class arrow_rows_test : public ::testing::Test {
protected:
  static schema fields() {
    const data_type type(type_id::int32);
    return {{{"a", type, true, {}}, {"b", type, true, {}}}, {}};
  }
  [[nodiscard]] ArrowArray numbers() {
    ArrowArray made{};
    made.length = static_cast<std::int64_t>(values_.size());
    made.n_buffers = 2;
    made.buffers = addresses_.data();
    made.release = [](ArrowArray*) {};
    return made;
  }
  template <class Action>
  static std::string refusal(errc code, Action action) {
    try {
      action();
    } catch (const error& seen) {
      EXPECT_EQ(seen.code(), code);
      return seen.message();
    }
    return "";
  }

  std::shared_ptr<context> ctx_ = context::create(make_host_backend());
  std::array<std::int32_t, 3> values_{1, 2, 3};
  std::array<const void*, 2> addresses_{nullptr, values_.data()};
};

TEST_F(arrow_rows_test, make_a_table_of_batches) {
  arrow_rows rows(ctx_, fields(), {});
  for (const std::int64_t count : {3, 2}) {
    rows.begin(count);
    rows.add(numbers());
    rows.add(numbers());
    rows.end(nullptr);
  }
  const table made = rows.finish();
  EXPECT_EQ(made.rows(), 5);
  EXPECT_EQ(made.fields(), fields());
  ASSERT_EQ(made.batches().size(), 2U);
  EXPECT_EQ(made.batches()[1].columns[1].length(), 2);
}

TEST_F(arrow_rows_test, keep_the_memory_of_a_batch_with_its_columns) {
  const auto kept = std::make_shared<int>();
  {
    arrow_rows rows(ctx_, fields(), {});
    rows.begin(3);
    rows.add(numbers());
    rows.add(numbers());
    rows.end(kept);
    std::vector<table> made{rows.finish()};
    EXPECT_GT(kept.use_count(), 1);
  }
  EXPECT_EQ(kept.use_count(), 1);
}

TEST_F(arrow_rows_test, refuse_more_and_fewer_columns_than_fields) {
  arrow_rows rows(ctx_, fields(), {});
  const auto kept = std::make_shared<int>();
  rows.begin(3);
  rows.add(numbers());
  EXPECT_EQ(refusal(errc::invalid_argument, [&] { rows.end(kept); }), "batch: 1 columns, expected 2");
  rows.add(numbers());
  EXPECT_EQ(refusal(errc::invalid_argument, [&] { rows.add(numbers()); }), "batch: more than 2 columns");
  EXPECT_EQ(kept.use_count(), 1);
}

TEST_F(arrow_rows_test, can_be_refilled_after_a_refused_column) {
  arrow_rows rows(ctx_, fields(), {});
  rows.begin(4);
  EXPECT_EQ(refusal(errc::format, [&] { rows.add(numbers()); }),
            "column 'a': length is 3, the batch has offset 0 and length 4");
  rows.begin(3);
  rows.add(numbers());
  rows.add(numbers());
  rows.end(nullptr);
  EXPECT_EQ(rows.finish().rows(), 3);
}

} // namespace
} // namespace saeta
