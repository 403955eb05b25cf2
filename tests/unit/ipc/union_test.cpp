// Writing unions with an offset that is not 0, for which libarrow's writer reads past the buffers.

#include "ipc_test.hpp"

#include <string>

namespace saeta::ipc {
namespace {

using support::nulls;
using support::plain_array;
using support::same_contents;
using support::shared_array;

constexpr std::int64_t rows = 200;
constexpr std::int64_t offset = 40;

data_type union_of(const char* format) {
  return data_type::nested(
      format, {{"a", data_type(type_id::int32), true, {}}, {"b", data_type(type_id::boolean), true, {}}});
}

/// Makes a union whose buffers are followed by `marker` in memory.
shared_array marked(const char* format, const std::string& marker) {
  plain_array made = *support::random_array(union_of(format), {rows, offset, nulls::absent, true}, 3);
  for (auto& buffer : made.buffers) {
    for (const char each : marker) {
      buffer.push_back(static_cast<std::byte>(each));
    }
  }
  return std::make_shared<const plain_array>(std::move(made));
}

class sliced_union : public ipc_test, public ::testing::WithParamInterface<const char*> {
protected:
  [[nodiscard]] std::string written(const shared_array& array) {
    const table source = support::table_of(ctx(), {{{"x", array->type, true, {}}}, {}}, {{array}});
    std::string bytes = write_bytes(source);
    EXPECT_TRUE(same_contents(read_bytes(bytes), source));
    return bytes;
  }
};

TEST_P(sliced_union, does_not_write_memory_past_its_buffers) {
  const std::string marker = "behind the union of others";
  EXPECT_EQ(written(marked(GetParam(), marker)).find(marker.substr(0, 8)), std::string::npos);
}

TEST_P(sliced_union, inside_of_a_struct_does_not_write_memory_past_its_buffers) {
  const std::string marker = "behind the union of others";
  plain_array outer;
  outer.type = data_type::nested("+s", {{"u", union_of(GetParam()), true, {}}});
  outer.length = rows;
  outer.offset = offset;
  outer.buffers = {{}};
  plain_array inner = *marked(GetParam(), marker);
  inner.length += inner.offset; // a struct's offset also applies to its children
  inner.offset = 0;
  outer.children = {std::make_shared<const plain_array>(std::move(inner))};
  EXPECT_EQ(written(std::make_shared<const plain_array>(std::move(outer))).find(marker.substr(0, 8)),
            std::string::npos);
}

TEST_P(sliced_union, as_dictionary_values_does_not_write_memory_past_its_buffers) {
  const std::string marker = "behind the union of others";
  plain_array indices = *support::indices({0, 1, 2}, marked(GetParam(), marker));
  EXPECT_EQ(written(std::make_shared<const plain_array>(std::move(indices))).find(marker.substr(0, 8)),
            std::string::npos);
}

std::string name_of_union(const ::testing::TestParamInfo<const char*>& tested) {
  return tested.param[2] == 's' ? "sparse" : "dense";
}

INSTANTIATE_TEST_SUITE_P(ipc, sliced_union, ::testing::Values("+us:0,1", "+ud:0,1"), name_of_union);

} // namespace
} // namespace saeta::ipc
