// Which bytes of a batch's body the chosen columns need, by what its message says.

#include "saeta/ipc/read/body_ranges.hpp"

#include <arrow/ipc/type_fwd.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

using arrow::ipc::MetadataVersion;
using ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

constexpr std::int64_t far = 10'000; // so that no two buffers are read together

/// The buffers of a body, `count` of 8 bytes each.
batch_metadata spread(std::size_t count, std::vector<std::int64_t> variadic = {}) {
  batch_metadata made;
  for (std::size_t i = 0; i < count; ++i) {
    made.buffers.push_back({static_cast<std::int64_t>(i) * far, 8});
  }
  made.variadic_counts = std::move(variadic);
  return made;
}

ranges taken(const arrow::FieldVector& fields, MetadataVersion version, const batch_metadata& batch,
             const std::vector<int>& columns, std::int64_t body_bytes = 1'000'000) {
  ranges seen;
  for (const buffer_place& each : body_ranges(arrow::Schema(fields), version, batch, columns, body_bytes)) {
    seen.emplace_back(each.offset, each.length);
  }
  return seen;
}

TEST(body_ranges, of_a_column_begin_behind_the_buffers_of_those_before_it) {
  const auto number = arrow::int32();
  const arrow::FieldVector children{arrow::field("x", number), arrow::field("y", arrow::utf8())};
  const auto expect_second = [&](const std::shared_ptr<arrow::DataType>& first, MetadataVersion version,
                                 std::size_t buffers, const std::vector<std::int64_t>& variadic = {}) {
    const auto at = static_cast<std::int64_t>(buffers) * far;
    EXPECT_EQ(taken({arrow::field("a", first), arrow::field("b", number)}, version,
                    spread(buffers + 2, variadic), {1}),
              (ranges{{at, 8}, {at + far, 8}}))
        << first->ToString() << ", version " << static_cast<int>(version);
  };
  for (const MetadataVersion version : {MetadataVersion::V4, MetadataVersion::V5}) {
    const std::size_t bitmap = version == MetadataVersion::V4 ? 1 : 0; // that unions had
    expect_second(number, version, 2);
    expect_second(arrow::null(), version, 0);
    expect_second(arrow::utf8(), version, 3);
    expect_second(arrow::large_binary(), version, 3);
    expect_second(arrow::struct_(children), version, 1 + 2 + 3);
    expect_second(arrow::fixed_size_list(number, 3), version, 1 + 2);
    expect_second(arrow::list(number), version, 2 + 2);
    expect_second(arrow::list_view(number), version, 3 + 2);
    expect_second(arrow::run_end_encoded(number, arrow::utf8()), version, 2 + 3);
    expect_second(arrow::sparse_union(children), version, 1 + bitmap + 5);
    expect_second(arrow::dense_union(children), version, 2 + bitmap + 5);
    expect_second(arrow::utf8_view(), version, 2 + 3, {3});
    expect_second(arrow::utf8_view(), version, 2, {-7});
    expect_second(
        arrow::struct_({arrow::field("v", arrow::utf8_view()), arrow::field("w", arrow::binary_view())}),
        version, 1 + 2 + 1 + 2 + 2, {1, 2});
  }
}

TEST(body_ranges, leave_out_what_does_not_lie_in_the_body) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t body = 100'000;
  const arrow::FieldVector fields{arrow::field("a", arrow::int32())};
  for (const auto& [offset, length] :
       ranges{{-8, 8}, {0, 0}, {0, -1}, {body + 1, 8}, {body - 8, 9}, {most, 8}, {8, most}}) {
    batch_metadata batch = spread(2);
    batch.buffers[1] = {offset, length};
    EXPECT_EQ(taken(fields, MetadataVersion::V5, batch, {0}, body), (ranges{{0, 8}}))
        << offset << ' ' << length;
  }
  batch_metadata last = spread(2);
  last.buffers[1] = {body - 8, 8};
  EXPECT_EQ(taken(fields, MetadataVersion::V5, last, {0}, body), (ranges{{0, 8}, {body - 8, 8}}));
  EXPECT_EQ(taken(fields, MetadataVersion::V5, spread(1), {0}, body), (ranges{{0, 8}})) << "one is missing";
}

TEST(body_ranges, with_a_small_gap_are_one) {
  const arrow::FieldVector fields{arrow::field("a", arrow::int32()), arrow::field("b", arrow::int32())};
  const auto of = [&](std::int64_t gap) {
    batch_metadata batch;
    batch.buffers = {{0, 100}, {100 + gap, 50}, {20, 10}, {0, 0}}; // the third lies in the first
    return taken(fields, MetadataVersion::V5, batch, {});
  };
  EXPECT_EQ(of(4096), (ranges{{0, 4246}}));
  EXPECT_EQ(of(4097), (ranges{{0, 100}, {4197, 50}}));
  EXPECT_EQ(of(0), (ranges{{0, 150}}));
}

} // namespace
} // namespace saeta::ipc::detail
