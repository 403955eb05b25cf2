// Every step through a FlatBuffers table stays inside its bytes.

#include "saeta/ipc/detail/flat_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace saeta::ipc::detail {
namespace {

struct pair_of_numbers {
  std::int32_t first;
  std::int32_t second;
};

/// A root table with field 0 = int16 7, field 2 = a table whose field 0 is int8 9, field 3 = two structs; field 1 is not
/// there.
std::vector<std::byte> sample() {
  std::vector<std::byte> bytes(72);
  const auto put = [&](std::size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
  put(0, std::uint32_t{16}); // root
  const std::array<std::uint16_t, 6> vtable{12, 16, 4, 0, 8, 12};
  put(4, vtable);
  put(16, std::int32_t{12}); // the vtable lies 12 bytes before
  put(20, std::int16_t{7});
  put(24, std::uint32_t{40 - 24});
  put(28, std::uint32_t{48 - 28});
  const std::array<std::uint16_t, 3> inner{6, 5, 4};
  put(32, inner);
  put(40, std::int32_t{8});
  put(44, std::int8_t{9});
  put(48, std::uint32_t{2});
  put(52, std::array<pair_of_numbers, 2>{{{1, 2}, {3, 4}}});
  return bytes;
}

TEST(flat_table, finds_fields_by_number) {
  const auto bytes = sample();
  const auto root = flat_table::root(bytes);
  EXPECT_EQ(root.scalar<std::int16_t>(0, -1), 7);
  EXPECT_EQ(root.scalar<std::int16_t>(1, -1), -1);
  EXPECT_EQ(root.scalar<std::int16_t>(100, -1), -1);
  EXPECT_FALSE(root.table(1).has_value());
  ASSERT_TRUE(root.table(2).has_value());
  EXPECT_EQ(root.table(2)->scalar<std::int8_t>(0, 0), 9);
  const auto pairs = root.structs<pair_of_numbers>(3);
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[1].second, 4);
  EXPECT_TRUE(root.structs<pair_of_numbers>(1).empty());
}

TEST(flat_table, of_any_length_and_with_any_byte_changed_stays_inside) {
  const auto whole = sample();
  const auto walk = [](const std::vector<std::byte>& exact) {
    try {
      const auto root = flat_table::root(exact);
      static_cast<void>(root.scalar<std::int64_t>(0, 0));
      static_cast<void>(root.structs<pair_of_numbers>(3));
      if (const auto inner = root.table(2)) {
        static_cast<void>(inner->scalar<std::int64_t>(0, 0));
      }
    } catch (const error& failure) {
      EXPECT_EQ(failure.code(), errc::format);
    }
  };
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    walk({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0x00, 0x7F, 0x80, 0xFF}) {
      auto changed = whole;
      changed[at] = static_cast<std::byte>(value);
      walk(changed);
    }
  }
}

TEST(flat_table, a_vector_longer_than_the_bytes_is_refused) {
  auto bytes = sample();
  const std::uint32_t claimed = 0xFFFFFFFF;
  std::memcpy(bytes.data() + 48, &claimed, sizeof claimed);
  EXPECT_THROW(static_cast<void>(flat_table::root(bytes).structs<pair_of_numbers>(3)), error);
}

} // namespace
} // namespace saeta::ipc::detail
