// Which bytes of a batch's body the chosen columns need, by what its message says.

#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/read/body_ranges.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

using ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

constexpr std::int64_t far = 10'000; // so that no two buffers are read together

/// The buffers of a body, `count` of 8 bytes each.
batch_metadata spread(std::size_t count, std::vector<std::int64_t> variadic = {}) {
  batch_metadata made;
  made.version = version_5;
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

ranges taken(const schema& fields, const batch_metadata& batch, const std::vector<int>& columns,
             std::int64_t body_bytes = 1'000'000) {
  ranges seen;
  for (const buffer_place& each : body_ranges(fields, batch, columns, body_bytes)) {
    seen.emplace_back(each.offset, each.length);
  }
  return seen;
}

data_type nested(std::string_view format, const std::vector<data_type>& children) {
  return data_type::nested(format, columns_of(children).fields);
}

TEST(body_ranges, of_a_column_begin_behind_the_buffers_of_those_before_it) {
  const data_type number(type_id::int32);
  const data_type text(type_id::string);
  const data_type view(type_id::string_view);
  for (const std::int16_t version : {version_4, version_5}) {
    const auto expect_second = [&](const data_type& first, std::size_t buffers,
                                   const std::vector<std::int64_t>& variadic = {}) {
      const auto at = static_cast<std::int64_t>(buffers) * far;
      batch_metadata batch = spread(buffers + 2, variadic);
      batch.version = version;
      EXPECT_EQ(taken(columns_of({first, number}), batch, {1}), (ranges{{at, 8}, {at + far, 8}}))
          << first.name() << ", version " << version;
    };
    const std::size_t bitmap = version == version_4 ? 1 : 0; // that unions had
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
    expect_second(view, 2, {-7});
    expect_second(nested("+s", {view, data_type(type_id::binary_view)}), 1 + 2 + 1 + 2 + 2, {1, 2});
  }
}

TEST(body_ranges, leave_out_what_does_not_lie_in_the_body) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t body = 100'000;
  const schema fields = columns_of({data_type(type_id::int32)});
  for (const auto& [offset, length] :
       ranges{{-8, 8}, {0, 0}, {0, -1}, {body + 1, 8}, {body - 8, 9}, {most, 8}, {8, most}}) {
    batch_metadata batch = spread(2);
    batch.buffers[1] = {offset, length};
    EXPECT_EQ(taken(fields, batch, {0}, body), (ranges{{0, 8}})) << offset << ' ' << length;
  }
  batch_metadata last = spread(2);
  last.buffers[1] = {body - 8, 8};
  EXPECT_EQ(taken(fields, last, {0}, body), (ranges{{0, 8}, {body - 8, 8}}));
  EXPECT_EQ(taken(fields, spread(1), {0}, body), (ranges{{0, 8}})) << "one is missing";
}

TEST(body_ranges, with_a_small_gap_are_one) {
  const schema fields = columns_of({data_type(type_id::int32), data_type(type_id::int32)});
  const auto of = [&](std::int64_t gap) {
    batch_metadata batch;
    batch.version = version_5;
    batch.buffers = {{0, 100}, {100 + gap, 50}, {20, 10}, {0, 0}}; // the third lies in the first
    return taken(fields, batch, {});
  };
  EXPECT_EQ(of(4096), (ranges{{0, 4246}}));
  EXPECT_EQ(of(4097), (ranges{{0, 100}, {4197, 50}}));
  EXPECT_EQ(of(0), (ranges{{0, 150}}));
}

} // namespace
} // namespace saeta::ipc::detail
