// Computes from a batch's message which byte ranges of its body the selected columns need.

#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/ipc/format/metadata_encoder.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

using ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

constexpr std::int64_t far = 10'000; // distance of buffers, large enough that no two are merged into one read

/// The buffers and variadic counts of a message.
struct message_buffers {
  std::vector<buffer_place> buffers;
  std::vector<std::int64_t> variadic_counts{};
  std::int16_t version = version_5;
};

template <class T>
flat_structs<T> view_of(const std::vector<T>& list) {
  return {reinterpret_cast<const std::byte*>(list.data()), list.size()};
}

/// Describes `count` buffers of 8 bytes each, far apart.
message_buffers spread(std::size_t count, std::vector<std::int64_t> variadic = {}) {
  message_buffers made;
  for (std::size_t i = 0; i < count; ++i) {
    made.buffers.push_back({static_cast<std::int64_t>(i) * far, 8});
  }
  made.variadic_counts = std::move(variadic);
  return made;
}

schema columns_of(std::vector<data_type> types) {
  schema made;
  for (data_type& each : types) {
    made.fields.push_back({concat("c", made.fields.size()), std::move(each), true, {}});
  }
  return made;
}

ranges taken(const schema& fields, const message_buffers& by, const std::vector<int>& columns) {
  batch_layout batch;
  batch.version = by.version;
  batch.buffers = view_of(by.buffers);
  batch.variadic_counts = view_of(by.variadic_counts);
  const std::vector<std::byte> flat = encode_schema(fields);
  dictionary_trees dictionaries;
  const column_tree tree = make_tree(fields, columns, read_header(flat).table, dictionaries, by.version);
  ranges seen;
  for (const buffer_place& each : body_ranges(batch, tree)) {
    seen.emplace_back(each.offset, each.length);
  }
  return seen;
}

data_type nested(std::string_view format, const std::vector<data_type>& children) {
  return data_type::nested(format, columns_of(children).fields);
}

TEST(body_ranges, of_a_column_begin_after_the_buffers_of_earlier_columns) {
  const data_type number(type_id::int32);
  const data_type text(type_id::string);
  const data_type view(type_id::string_view);
  for (const std::int16_t version : {version_4, version_5}) {
    const auto expect_second = [&](const data_type& first, std::size_t buffers,
                                   const std::vector<std::int64_t>& variadic = {}) {
      const auto at = static_cast<std::int64_t>(buffers) * far;
      message_buffers batch = spread(buffers + 2, variadic);
      batch.version = version;
      EXPECT_EQ(taken(columns_of({first, number}), batch, {1}), (ranges{{at, 8}, {at + far, 8}}))
          << first.name() << ", version " << version;
    };
    const std::size_t bitmap = version == version_4 ? 1 : 0; // unions had a validity bitmap in version 4
    expect_second(number, 2);
    expect_second(data_type(type_id::null), 0);
    expect_second(text, 3);
    expect_second(data_type(type_id::large_binary), 3);
    expect_second(nested("+s", {number, text}), 1 + 2 + 3);
    expect_second(nested("+w:3", {number}), 1 + 2);
    expect_second(nested("+l", {number}), 2 + 2);
    expect_second(nested("+vl", {number}), 3 + 2);
    expect_second(nested("+r", {number, text}), 2 + 3);
    expect_second(nested("+us:0,1", {number, text}), 1 + bitmap + 5);
    expect_second(nested("+ud:0,1", {number, text}), 2 + bitmap + 5);
    expect_second(data_type::dictionary(number, text), 2);
    expect_second(view, 2 + 3, {3});
    expect_second(view, 2, {0});
    expect_second(nested("+s", {view, data_type(type_id::binary_view)}), 1 + 2 + 1 + 2 + 2, {1, 2});
  }
}

TEST(body_ranges, leave_out_empty_buffers) {
  const schema fields = columns_of({data_type(type_id::int32)});
  message_buffers batch = spread(2);
  batch.buffers[1] = {far, 0};
  EXPECT_EQ(taken(fields, batch, {0}), (ranges{{0, 8}}));
}

TEST(body_ranges, with_a_small_gap_are_merged) {
  const schema fields = columns_of({data_type(type_id::int32), data_type(type_id::int32)});
  const auto of = [&](std::int64_t gap) {
    // The third buffer is inside the first.
    return taken(fields, {.buffers = {{0, 100}, {100 + gap, 50}, {20, 10}, {0, 0}}}, {0, 1});
  };
  EXPECT_EQ(of(4096), (ranges{{0, 4246}}));
  EXPECT_EQ(of(4097), (ranges{{0, 100}, {4197, 50}}));
  EXPECT_EQ(of(0), (ranges{{0, 150}}));
}

} // namespace
} // namespace saeta::ipc::detail
