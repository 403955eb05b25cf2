// Conversion between booleans of one bit and of one byte.

#include "conformance/harness/arrow_test.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "support/arrays.hpp"

#include <gtest/gtest.h>

namespace saeta::conformance {
namespace {

using support::nulls;
using support::random_array;
using support::shared_array;

class column_bits : public arrow_test {
protected:
  /// Returns the rows of a boolean column in host memory as 0, 1, or -1 for null.
  [[nodiscard]] static std::vector<int> rows_of(const column& source) {
    arrow_array given = export_column(source);
    const ArrowArray& array = given.get();
    const auto bit = [&](std::int64_t buffer, std::int64_t row) {
      const auto at = static_cast<std::size_t>(array.offset + row);
      const auto* const bits = static_cast<const std::uint8_t*>(array.buffers[buffer]);
      return (bits[at / 8] >> (at % 8) & 1) != 0;
    };
    std::vector<int> rows;
    for (std::int64_t row = 0; row < array.length; ++row) {
      const bool valid = array.buffers[0] == nullptr || bit(0, row);
      const bool set = source.type().id() == type_id::boolean
                           ? bit(1, row)
                           : static_cast<const std::uint8_t*>(array.buffers[1])[array.offset + row] != 0;
      rows.push_back(valid ? int{set} : -1);
    }
    return rows;
  }
};

TEST_P(column_bits, keep_values_and_nulls_when_packed_and_unpacked) {
  std::uint64_t seed = 1;
  for (const data_type& type : {data_type(type_id::boolean), data_type::bool8(), data_type(type_id::uint8)}) {
    for (const std::int64_t length : {0, 1, 7, 8, 63, 64, 65, 5000}) {
      for (const std::int64_t offset : {0, 1, 7, 9}) {
        for (const nulls pattern : {nulls::absent, nulls::none, nulls::some, nulls::all}) {
          SCOPED_TRACE(::testing::Message() << type.name() << ", length " << length << ", offset " << offset);
          const shared_array source = random_array(type, {length, offset, pattern, seed % 2 == 0}, seed);
          ++seed;
          const column before = imported(source);
          const column after = type.id() == type_id::boolean ? unpack_bool(before) : pack_bool(before);
          ASSERT_EQ(after.type(),
                    type.id() == type_id::boolean ? data_type::bool8() : data_type(type_id::boolean));
          ASSERT_EQ(after.offset(), 0);
          ASSERT_EQ(after.known_null_count(), source->nulls_in(0, length)) << "counted on the way";
          ASSERT_EQ(rows_of(after), rows_of(before));
        }
      }
    }
  }
}

TEST_P(column_bits, are_padded_to_64_bytes_of_zeros) {
  const column bits = imported(random_array(data_type(type_id::boolean), {70, 3, nulls::none, false}, 3));
  const column unpacked = unpack_bool(bits);
  ASSERT_EQ(unpacked.values().size(), 128U);
  const auto bytes = read(unpacked.values());
  EXPECT_EQ(std::vector<std::uint8_t>(bytes.begin() + 70, bytes.end()), std::vector<std::uint8_t>(58));
  const column packed = pack_bool(unpacked);
  ASSERT_EQ(packed.values().size(), 64U);
  EXPECT_EQ(read(packed.values())[63], 0);
}

TEST_P(column_bits, read_a_scalar_only_for_an_unknown_null_count) {
  const column known = imported(random_array(data_type::bool8(), {100, 3, nulls::some, true}, 3));
  ctx()->copies().reset_counters();
  const column packed = pack_bool(known);
  EXPECT_EQ(packed.known_null_count(), known.known_null_count());
  EXPECT_EQ(ctx()->copies().read_counters().scalars, traffic{});
  EXPECT_EQ(ctx()->copies().read_counters().synchronizations, 0U);
  const column unknown = imported(random_array(data_type::bool8(), {100, 3, nulls::some, false}, 3));
  static_cast<void>(pack_bool(unknown));
  EXPECT_EQ(ctx()->copies().read_counters().scalars.transfers, 1U);
}

TEST_P(column_bits, refuse_other_types) {
  EXPECT_THROW(static_cast<void>(pack_bool(imported(random_array(data_type(type_id::int16), {4}, 1)))),
               error);
  EXPECT_THROW(static_cast<void>(unpack_bool(imported(random_array(data_type::bool8(), {4}, 1)))), error);
}

SAETA_CONFORMANCE_SUITE(column_bits);

} // namespace
} // namespace saeta::conformance
