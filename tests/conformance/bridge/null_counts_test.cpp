// Unknown null counts of device arrays (saeta/bridge/bridge.hpp).
#include "conformance/bridge/bridge_test.hpp"
#include "unit/base/raises.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saeta::conformance {
namespace {

using ::testing::HasSubstr;

class null_counts : public bridge_test {
protected:
  using data_ptr = std::shared_ptr<arrow::ArrayData>;

  /// Copies an array to the device and sets all null counts, at any depth, to unknown.
  [[nodiscard]] data_ptr uncounted(const array_ptr& of) const {
    const data_ptr made = take(of->CopyTo(manager()))->data()->Copy();
    forget(*made);
    return made;
  }
  static void forget(arrow::ArrayData& in) {
    in.null_count = arrow::kUnknownNullCount;
    for (data_ptr& child : in.child_data) {
      child = child->Copy();
      forget(*child);
    }
    if (in.dictionary != nullptr) {
      in.dictionary = in.dictionary->Copy();
      forget(*in.dictionary);
    }
  }
};

TEST_P(null_counts, are_computed_on_the_device) {
  const data_ptr ints = uncounted(array(arrow::Int64Builder(), 1, nullptr, 3, nullptr, nullptr));
  count_nulls(*ints);
  EXPECT_EQ(ints->null_count, ctx()->on_host() ? arrow::kUnknownNullCount : 3) << "the CPU counts for itself";
  const data_ptr part = ints->Slice(1, 3);
  part->null_count = arrow::kUnknownNullCount;
  count_nulls(*part);
  EXPECT_EQ(part->null_count, ctx()->on_host() ? arrow::kUnknownNullCount : 2);
  const data_ptr none = ints->Slice(2, 0);
  none->null_count = arrow::kUnknownNullCount;
  count_nulls(*none);
  EXPECT_EQ(none->null_count, ctx()->on_host() ? arrow::kUnknownNullCount : 0);
}

TEST_P(null_counts, of_children_and_dictionaries_are_computed_too) {
  const array_ptr strings = array(arrow::StringBuilder(), "a", nullptr, nullptr);
  const array_ptr structs = take(arrow::StructArray::Make({strings}, std::vector<std::string>{"s"}));
  const array_ptr codes =
      take(arrow::DictionaryArray::FromArrays(arrow::dictionary(arrow::int32(), arrow::utf8()),
                                              array(arrow::Int32Builder(), 0, nullptr, 0), strings));
  const data_ptr outer = uncounted(structs);
  const data_ptr coded = uncounted(codes);
  count_nulls(*outer);
  count_nulls(*coded);
  if (!ctx()->on_host()) {
    EXPECT_EQ(outer->child_data.front()->null_count, 2);
    EXPECT_EQ(coded->null_count, 1);
    EXPECT_EQ(coded->dictionary->null_count, 2);
  }
}

TEST_P(null_counts, that_are_known_are_not_recomputed) {
  const data_ptr ints = uncounted(array(arrow::Int64Builder(), 1, nullptr, 3));
  ints->null_count = 2;
  count_nulls(*ints);
  EXPECT_EQ(ints->null_count, 2);
}

TEST_P(null_counts, of_rows_beyond_their_bitmap_are_refused) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "nothing is counted on the host";
  }
  const data_ptr ints = uncounted(array(arrow::Int64Builder(), 1, nullptr, 3));
  ints->length = 1'000'000;
  std::string message;
  EXPECT_EQ(unit::code_raised_by([&] { count_nulls(*ints); }, &message), errc::format);
  EXPECT_THAT(message, HasSubstr("1000000 rows from row 0"));
  ints->length = 3;
  ints->offset = -1;
  EXPECT_EQ(unit::code_raised_by([&] { count_nulls(*ints); }), errc::format);
}

SAETA_CONFORMANCE_SUITE(null_counts);

} // namespace
} // namespace saeta::conformance
