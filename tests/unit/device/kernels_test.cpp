#include "saeta/device/kernels.hpp"

#include <gtest/gtest.h>

namespace saeta {
namespace {

TEST(bitmap_bytes, pads_to_64_bytes) {
  EXPECT_EQ(bitmap_bytes(0), 0u);
  EXPECT_EQ(bitmap_bytes(1), 64u);
  EXPECT_EQ(bitmap_bytes(511), 64u);
  EXPECT_EQ(bitmap_bytes(512), 64u);
  EXPECT_EQ(bitmap_bytes(513), 128u);
  EXPECT_EQ(bitmap_bytes(std::int64_t{1} << 40), std::size_t{1} << 37);
}

TEST(reference_kernels, is_one_complete_table) {
  const kernel_table& table = reference_kernels();
  EXPECT_EQ(&table, &reference_kernels());
  EXPECT_NE(table.pack_bool, nullptr);
  EXPECT_NE(table.unpack_bool, nullptr);
  EXPECT_NE(table.copy_bitmap, nullptr);
  EXPECT_NE(table.count_nulls, nullptr);
  EXPECT_NE(table.rebase_offsets32, nullptr);
  EXPECT_NE(table.rebase_offsets64, nullptr);
}

TEST(reference_kernels, rebasing_unvalidated_offsets_wraps_around) {
  const std::int32_t source[2] = {2147483647, -2147483647 - 1};
  std::int32_t target[2] = {};
  reference_kernels().rebase_offsets32(legacy_stream, source, 2, target);
  EXPECT_EQ(target[0], 0);
  EXPECT_EQ(target[1], 1);
}

} // namespace
} // namespace saeta
