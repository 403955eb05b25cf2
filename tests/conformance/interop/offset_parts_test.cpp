// Exports of strings and lists as two tensors, offsets and values, on every backend.
#include "conformance/harness/tensor_test.hpp"
#include "saeta/base/error.hpp"

#include <gtest/gtest.h>

namespace saeta::conformance {
namespace {

class offset_parts : public tensor_test {
protected:
  [[nodiscard]] column text(type_id id, const buffer& offsets, const buffer& bytes, std::int64_t rows) const {
    return column::make(ctx(), {data_type(id), rows, 0, 0, {{}, offsets, bytes}, {}, {}});
  }
  template <class Value>
  [[nodiscard]] std::vector<Value> shown(const column& source) const {
    const versioned_tensor tensor(export_dlpack(source, here(copy_policy::never)));
    return seen<Value>(tensor->dl_tensor);
  }
};

TEST_P(offset_parts, of_strings_are_views) {
  const buffer offsets = filled(std::vector<std::int32_t>{0, 2, 2, 7});
  const buffer bytes = filled("abcdefg", 7);
  const column source = text(type_id::string, offsets, bytes, 3);
  const saeta::offset_parts parts = offsets_and_values(source);
  EXPECT_EQ(parts.offsets.values().address(), offsets.address());
  EXPECT_EQ(parts.values.values().address(), bytes.address());
  EXPECT_EQ(shown<std::int32_t>(parts.offsets), (std::vector<std::int32_t>{0, 2, 2, 7}));
  EXPECT_EQ(shown<std::uint8_t>(parts.values),
            (std::vector<std::uint8_t>{'a', 'b', 'c', 'd', 'e', 'f', 'g'}));
}

TEST_P(offset_parts, of_a_slice_keep_all_values_and_offsets) {
  const column source =
      text(type_id::large_binary, filled(std::vector<std::int64_t>{0, 1, 3, 6}), filled("xyyzzz", 6), 3);
  const saeta::offset_parts parts = offsets_and_values(source.slice(1, 2));
  EXPECT_EQ(shown<std::int64_t>(parts.offsets), (std::vector<std::int64_t>{1, 3, 6}));
  EXPECT_EQ(parts.values.length(), 6);
  const saeta::offset_parts none = offsets_and_values(source.slice(1, 0));
  EXPECT_EQ(none.offsets.length(), 1);
}

TEST_P(offset_parts, of_lists_are_offsets_and_values) {
  const column child = numbers(type_id::float32, counting<float>(5));
  const data_type type = data_type::nested("+l", {field{"item", child.type(), true, {}}});
  const column source =
      column::make(ctx(), {type, 2, 0, 0, {{}, filled(std::vector<std::int32_t>{1, 3, 5})}, {}, {child}});
  const saeta::offset_parts parts = offsets_and_values(source);
  EXPECT_EQ(shown<std::int32_t>(parts.offsets), (std::vector<std::int32_t>{1, 3, 5}));
  EXPECT_EQ(shown<float>(parts.values), counting<float>(5));
  EXPECT_EQ(parts.values.values().address(), child.values().address());
}

TEST_P(offset_parts, without_rows_are_one_offset_of_zero) {
  const saeta::offset_parts parts = offsets_and_values(column::empty(ctx(), data_type(type_id::string)));
  EXPECT_EQ(shown<std::int32_t>(parts.offsets), (std::vector<std::int32_t>{0}));
  EXPECT_EQ(parts.values.length(), 0);
}

TEST_P(offset_parts, are_suggested_if_a_tensor_is_refused) {
  const column source = text(type_id::string, filled(std::vector<std::int32_t>{0, 0}), {}, 1);
  expect_refused(source, here(), errc::exchange, "offsets_and_values() of the column");
  for (const column& other : {numbers(type_id::int8, counting<std::int8_t>(1)),
                              column::empty(ctx(), data_type(type_id::string_view))}) {
    EXPECT_THROW(static_cast<void>(offsets_and_values(other)), error);
  }
}

SAETA_CONFORMANCE_SUITE(offset_parts);

} // namespace
} // namespace saeta::conformance
