// Bounds checks of the FlatBuffers reader: offsets, vtables, vectors and strings must be inside the bytes.

#include "saeta/ipc/format/flat_table.hpp"
#include "saeta/ipc/format/message_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace saeta::ipc::detail {
namespace {

#define EXPECT_ERROR_TEXT(action, text)                                                                      \
  try {                                                                                                      \
    static_cast<void>(action);                                                                               \
    ADD_FAILURE() << "accepted";                                                                             \
  } catch (const error& refused) {                                                                           \
    EXPECT_EQ(refused.code(), errc::format);                                                                 \
    EXPECT_THAT(refused.message(), ::testing::HasSubstr(text));                                              \
  }

struct pair_of_numbers {
  std::int32_t first;
  std::int32_t second;
};

/// Returns a root table with field 0 = int16 7, field 2 = a table whose field 0 is int8 9, and field 3 = two
/// structs. Field 1 is absent.
std::vector<std::byte> sample() {
  std::vector<std::byte> bytes(72);
  const auto put = [&](std::size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
  put(0, std::uint32_t{16}); // offset of the root table
  const std::array<std::uint16_t, 6> vtable{12, 16, 4, 0, 8, 12};
  put(4, vtable);
  put(16, std::int32_t{12}); // the vtable is 12 bytes before the table
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

TEST(flat_table, never_reads_outside_of_truncated_or_changed_bytes) {
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

/// Returns the bytes of consecutive numbers of different types.
template <class... Numbers>
std::vector<std::byte> bytes_of(Numbers... numbers) {
  std::vector<std::byte> bytes;
  const auto add = [&](auto number) {
    const auto raw = std::as_bytes(std::span(&number, 1));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  };
  (add(numbers), ...);
  return bytes;
}

using u16 = std::uint16_t;
using u32 = std::uint32_t;

/// Returns the offset of the root, its table, and after it a vtable without fields.
std::vector<std::byte> table_without_fields() { return bytes_of(u32{4}, std::int32_t{-4}, u16{4}, u16{4}); }

TEST(flat_table, the_size_of_a_vector_does_not_overflow) {
  auto bytes = sample();
  for (const std::uint32_t count :
       {0x20000000U, 0x40000000U, 0x80000000U}) { // 8 times as many bytes are 0 modulo 2^32
    std::memcpy(bytes.data() + 48, &count, sizeof count);
    try {
      static_cast<void>(flat_table::root(bytes).structs<pair_of_numbers>(3));
      ADD_FAILURE() << count << " structs in " << bytes.size() << " bytes";
    } catch (const error& refused) {
      EXPECT_THAT(refused.message(),
                  ::testing::HasSubstr(std::to_string(std::uint64_t{count} * 8) + " bytes at offset 52"));
    }
  }
}

std::string refusal_of(const std::vector<std::byte>& bytes) {
  try {
    const auto root = flat_table::root(bytes);
    static_cast<void>(root.structs<pair_of_numbers>(3));
    return std::to_string(root.scalar<std::int32_t>(0, -1));
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::format);
    return refused.message();
  }
}

TEST(flat_table, a_vtable_may_be_before_or_after_its_table) {
  // The root's offset is also the size of the vtable, and the value ends at the last byte.
  const auto first = bytes_of(u32{8}, u16{4}, u16{0}, std::int32_t{8}, std::int16_t{7});
  EXPECT_EQ(flat_table::root(first).scalar<std::int16_t>(0, -1), 7);
  EXPECT_EQ(flat_table::root(first).scalar<std::int16_t>(1, -1), -1);
  EXPECT_EQ(flat_table::root(table_without_fields()).scalar<std::int16_t>(0, -1), -1);
}

TEST(flat_table, a_field_beyond_the_vtable_is_absent) {
  EXPECT_EQ(flat_table::root(sample()).scalar<std::int16_t>(4, -1), -1);
}

TEST(flat_table, an_offset_outside_is_refused_with_its_position) {
  auto cut = table_without_fields();
  cut.resize(10);
  EXPECT_EQ(refusal_of(cut), "message metadata: 4 bytes at offset 8 exceed its 10 bytes");
  EXPECT_EQ(refusal_of(bytes_of(u32{4}, std::int32_t{100}, u32{0})),
            "message metadata: 4 bytes at offset 12 exceed its 12 bytes");
  EXPECT_EQ(refusal_of(bytes_of(u32{9}, u32{0})), "message metadata: 4 bytes at offset 9 exceed its 8 bytes");
  EXPECT_EQ(refusal_of(bytes_of(u32{8}, u16{4}, u16{0}, std::int32_t{8}, std::int16_t{7})),
            "message metadata: 4 bytes at offset 12 exceed its 14 bytes");
}

TEST(flat_table, unaligned_fields_and_null_offsets_are_refused) {
  const auto root_of = [](const std::vector<std::byte>& bytes) { return flat_table::root(bytes); };
  auto bytes = sample();
  EXPECT_ERROR_TEXT(root_of(bytes).scalar<std::int64_t>(0, 0), "8 bytes at offset 20 are not aligned");
  const std::uint32_t none = 0;
  std::memcpy(bytes.data() + 24, &none, sizeof none);
  EXPECT_ERROR_TEXT(root_of(bytes).table(2), "the field at offset 24 leads to itself");
}

TEST(flat_table, strings_end_with_a_zero_byte) {
  auto bytes = sample();
  std::memcpy(bytes.data() + 52, "ab", 3); // also a vector of two bytes
  EXPECT_EQ(flat_table::root(bytes).text(3), "ab");
  EXPECT_EQ(flat_table::root(bytes).text(1), "") << "a missing one";
  bytes[54] = std::byte{'c'};
  EXPECT_ERROR_TEXT(flat_table::root(bytes).text(3), "the string that ends at offset 54 has no end");
}

TEST(flat_table, refuses_unaligned_tables) {
  auto bytes = sample();
  EXPECT_NO_THROW(flat_table::root(bytes).require_place("it"));
  const std::uint16_t longer = 70;
  std::memcpy(bytes.data() + 4, &longer, sizeof longer);
  EXPECT_ERROR_TEXT(flat_table::root(bytes).require_place("it"),
                    "the table of it is not aligned, or has no end");
}

TEST(flat_table, vectors_of_structs_must_fit) {
  auto bytes = sample();
  const auto with_count = [&](std::uint32_t count) {
    std::memcpy(bytes.data() + 48, &count, sizeof count);
    return refusal_of(bytes);
  };
  EXPECT_EQ(with_count(3), "message metadata: 24 bytes at offset 52 exceed its 72 bytes");
  EXPECT_THAT(with_count(2), ::testing::Not(::testing::HasSubstr("message metadata")));
  with_count(1);
  const auto one = flat_table::root(bytes).structs<pair_of_numbers>(3);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].second, 2);
  with_count(0);
  bytes.resize(52);
  EXPECT_TRUE(flat_table::root(bytes).structs<pair_of_numbers>(3).empty()) << "at the end of the bytes";
}

} // namespace
} // namespace saeta::ipc::detail
