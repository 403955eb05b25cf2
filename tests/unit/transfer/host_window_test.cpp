// Which bytes of a column's buffers its rows refer to.
#include "saeta/transfer/host_window.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace saeta {
namespace {

TEST(host_window, starts_at_a_multiple_of_eight_rows) {
  for (std::int64_t offset = 0; offset < 40; ++offset) {
    for (std::int64_t length = 0; length < 20; ++length) {
      const row_window rows = window_of(offset, length);
      EXPECT_EQ(rows.first, offset / 8 * 8);
      EXPECT_EQ(rows.offset, offset % 8);
      EXPECT_EQ(rows.first + rows.rows, offset + length);
    }
  }
}

TEST(host_window, of_bits_has_the_bytes_that_hold_a_row) {
  for (const auto& type : {data_type(type_id::boolean), data_type(type_id::int32)}) {
    for (std::int64_t offset = 0; offset < 40; ++offset) {
      for (std::int64_t length = 0; length < 20; ++length) {
        const row_window rows = window_of(offset, length);
        const byte_window bytes = bytes_of(type, 0, rows);
        EXPECT_EQ(bytes.offset, static_cast<std::size_t>(offset / 8));
        const std::int64_t end = rows.rows == 0 ? offset / 8 : (offset + length + 7) / 8;
        EXPECT_EQ(bytes.offset + bytes.bytes, static_cast<std::size_t>(end)) << offset << ' ' << length;
      }
    }
  }
  const byte_window values = bytes_of(data_type(type_id::boolean), 1, window_of(13, 11));
  EXPECT_EQ(values.offset, 1U);
  EXPECT_EQ(values.bytes, 2U);
}

TEST(host_window, of_values_and_offsets_is_as_wide_as_they_are) {
  const row_window rows = window_of(13, 11); // from row 8 on, 16 rows
  const auto expect = [&](const data_type& type, std::size_t offset, std::size_t bytes) {
    const byte_window found = bytes_of(type, 1, rows);
    EXPECT_EQ(found.offset, offset) << type.name();
    EXPECT_EQ(found.bytes, bytes) << type.name();
  };
  expect(data_type(type_id::int8), 8, 16);
  expect(data_type(type_id::int32), 32, 64);
  expect(data_type(type_id::float64), 64, 128);
  expect(data_type(type_id::string), 32, 68);
  expect(data_type(type_id::large_string), 64, 136);
}

TEST(host_window, knows_the_width_of_an_offset_and_reads_it) {
  EXPECT_EQ(data_type(type_id::string).offset_width(), 4U);
  EXPECT_EQ(data_type(type_id::large_string).offset_width(), 8U);
  EXPECT_EQ(data_type(type_id::int32).offset_width(), 0U);
  EXPECT_EQ(data_type(type_id::boolean).offset_width(), 0U);
  const std::array<std::int32_t, 3> narrow{0, -5, 7};
  const std::array<std::int64_t, 3> wide{0, -5, std::int64_t{1} << 40};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto index = static_cast<std::int64_t>(i);
    EXPECT_EQ(read_offset(reinterpret_cast<const std::byte*>(narrow.data()), 4, index), narrow[i]);
    EXPECT_EQ(read_offset(reinterpret_cast<const std::byte*>(wide.data()), 8, index), wide[i]);
  }
}

} // namespace
} // namespace saeta
