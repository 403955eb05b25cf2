// Computes which bytes of a column's buffers belong to a range of rows.
#include "saeta/transfer/host_array.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace saeta {
namespace {

TEST(host_window, starts_at_its_first_row_with_offset_0) {
  for (const auto& type : {data_type(type_id::boolean), data_type(type_id::string)}) {
    for (std::int64_t offset = 0; offset < 20; ++offset) {
      const row_window rows = window_of(type, offset, 11);
      EXPECT_EQ(rows.first, offset);
      EXPECT_EQ(rows.rows, 11);
      EXPECT_EQ(rows.offset, 0);
    }
    EXPECT_EQ(window_of(type, 13, 0).first, 0) << "without rows it is empty";
  }
}

TEST(host_window, of_run_ends_keeps_the_offset) {
  const data_type type = data_type::nested("+r", {{"run_ends", data_type(type_id::int32), false, {}},
                                                  {"values", data_type(type_id::int8), true, {}}});
  const row_window rows = window_of(type, 13, 11);
  EXPECT_EQ(rows.first, 0);
  EXPECT_EQ(rows.rows, 24);
  EXPECT_EQ(rows.offset, 13);
}

TEST(host_window, of_bits_has_whole_bytes_and_a_bit_offset) {
  for (const auto& type : {data_type(type_id::boolean), data_type(type_id::int32)}) {
    for (std::int64_t offset = 0; offset < 40; ++offset) {
      for (std::int64_t length = 1; length < 20; ++length) {
        const row_window rows = window_of(type, offset, length);
        const byte_window bytes = bytes_of(type, 0, rows);
        EXPECT_EQ(bytes.offset, static_cast<std::size_t>(offset / 8));
        EXPECT_EQ(bytes.offset + bytes.bytes, static_cast<std::size_t>((offset + length + 7) / 8))
            << offset << ' ' << length;
        EXPECT_EQ(bit_shift(type, 0, rows), offset % 8);
        EXPECT_EQ(bit_shift(type, 1, rows), type.id() == type_id::boolean ? offset % 8 : 0);
      }
      EXPECT_EQ(bytes_of(type, 0, {offset, 0, 0}).bytes, 0U) << offset;
    }
  }
}

TEST(host_window, shifts_bits_to_a_whole_byte_within_bounds) {
  for (int shift = 1; shift < 8; ++shift) {
    std::array<std::byte, 3> bits{std::byte{0b1010'0110}, std::byte{0b0111'0001}, std::byte{0xff}};
    const unsigned whole = 0b0111'0001'1010'0110U;
    shift_down(bits.data(), 2, false, shift);
    EXPECT_EQ(std::to_integer<unsigned>(bits[0]) | std::to_integer<unsigned>(bits[1]) << 8, whole >> shift);
    bits[0] = std::byte{0b1010'0110};
    shift_down(bits.data(), 1, true, shift);
    EXPECT_EQ(std::to_integer<unsigned>(bits[0]), (0xa6U | (whole >> shift & 0xff00U)) >> shift & 0xffU)
        << shift;
  }
}

TEST(host_window, of_values_and_offsets_depends_on_their_width) {
  const row_window rows{13, 11, 0};
  const auto expect = [&](const data_type& type, std::size_t offset, std::size_t bytes) {
    const byte_window found = bytes_of(type, 1, rows);
    EXPECT_EQ(found.offset, offset) << type.name();
    EXPECT_EQ(found.bytes, bytes) << type.name();
  };
  expect(data_type(type_id::int8), 13, 11);
  expect(data_type(type_id::int32), 52, 44);
  expect(data_type(type_id::float64), 104, 88);
  expect(data_type(type_id::string), 52, 48);
  expect(data_type(type_id::large_string), 104, 96);
}

TEST(host_window, reads_offsets_of_either_width) {
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
