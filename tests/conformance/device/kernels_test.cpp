// Every kernel, compared with a model that works bit by bit, at random alignments, offsets and lengths.

#include "conformance/device/raw_bytes.hpp"
#include "conformance/harness/backends.hpp"
#include "conformance/harness/device_memory.hpp"
#include "support/test_size.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <random>

namespace saeta::conformance {
namespace {

using bytes = std::vector<std::uint8_t>;

constexpr std::array<std::int64_t, 14> lengths{
    0, 1, 7, 8, 63, 64, 65, 511, 512, 513, 4099, 20'011, 65'536, support::rows_to_test(1'000'003, 131'075)};
constexpr int rounds = 4;         ///< random offsets and alignments tried for each length
constexpr std::size_t guard = 64; ///< poisoned bytes after a target, which kernels must not change

bool bit_at(const std::uint8_t* bits, std::int64_t position) {
  return (bits[position / 8] >> (position % 8) & 1) != 0;
}

class kernels : public backend_test {
protected:
  [[nodiscard]] stream_ref work() const { return work_.ref(); }
  [[nodiscard]] stream_handle handle() const { return work_.ref().native_handle(); }
  [[nodiscard]] const kernel_table& table() const { return device().kernels(); }

  std::int64_t random_below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random_);
  }

  /// Returns random bytes of which about half are zero, to be used as bits or as booleans.
  bytes random_bytes(std::size_t count) {
    bytes content(count);
    for (auto& byte : content) {
      const std::uint64_t drawn = random_();
      byte = (drawn & 0x100) == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(drawn);
    }
    return content;
  }
  bytes random_bits(std::size_t count) {
    bytes content(count);
    std::generate(content.begin(), content.end(), [&] { return static_cast<std::uint8_t>(random_()); });
    return content;
  }
  /// Returns ascending offsets that need not begin at 0, like those of a slice.
  template <class Offset>
  std::vector<Offset> random_offsets(std::int64_t count) {
    std::vector<Offset> offsets(static_cast<std::size_t>(count));
    auto last = static_cast<Offset>(random_below(1'000'000));
    for (auto& offset : offsets) {
      offset = last;
      last = static_cast<Offset>(last + random_below(40));
    }
    return offsets;
  }

  std::int64_t read_count(const device_memory& memory) {
    std::int64_t count = 0;
    const bytes content = memory.download();
    std::memcpy(&count, content.data(), sizeof count);
    return count;
  }

  template <class Rebase, class Offset>
  void expect_rebased(Rebase rebase, const std::vector<Offset>& all, std::int64_t skipped, std::int64_t count,
                      bool in_place);
  template <class Value>
  void expect_filled(std::uint64_t fill);
  template <class Value>
  void expect_gathered();

private:
  stream work_{shared_device()};
  std::mt19937_64 random_{20'240'611};
};

/// A range of bits. The memory ends with the byte of its last bit.
struct bit_source {
  std::int64_t misalignment; ///< distance of its base from an aligned address
  std::int64_t bit_offset;
  std::int64_t length;

  [[nodiscard]] std::size_t size() const {
    return static_cast<std::size_t>(misalignment + (bit_offset + length + 7) / 8);
  }
  [[nodiscard]] bool bit(const bytes& content, std::int64_t i) const {
    return bit_at(content.data() + misalignment, bit_offset + i);
  }
  [[nodiscard]] std::int64_t zeros(const bytes& content) const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      count += bit(content, i) ? 0 : 1;
    }
    return count;
  }
};

std::ostream& operator<<(std::ostream& out, const bit_source& source) {
  return out << source.length << " bits from bit " << source.bit_offset << ", base misaligned by "
             << source.misalignment;
}

/// Returns a bitmap of `length` bits `bit(i)`, zero padding, and the guard bytes.
template <class Bit>
bytes expected_bitmap(std::int64_t length, Bit bit) {
  bytes expected(bitmap_bytes(length));
  for (std::int64_t i = 0; i < length; ++i) {
    expected[static_cast<std::size_t>(i / 8)] |= static_cast<std::uint8_t>((bit(i) ? 1 : 0) << (i % 8));
  }
  expected.resize(expected.size() + guard, poison);
  return expected;
}

TEST_P(kernels, pack_bool_sets_the_bits_of_nonzero_bytes_and_clears_the_padding) {
  for (const std::int64_t length : lengths) {
    for (int round = 0; round < rounds; ++round) {
      const auto misalignment = static_cast<std::size_t>(round == 0 ? 0 : random_below(17));
      SCOPED_TRACE(::testing::Message() << length << " bytes, misaligned by " << misalignment);
      const bytes source = random_bytes(misalignment + static_cast<std::size_t>(length));
      const device_memory input(work(), source);
      const device_memory target(work(), bytes(bitmap_bytes(length) + guard, poison));

      table().pack_bool(handle(), input.data() + misalignment, length, target.data());

      const auto set = [&](std::int64_t i) {
        return source[misalignment + static_cast<std::size_t>(i)] != 0;
      };
      ASSERT_EQ(target.download(), expected_bitmap(length, set));
    }
  }
}

TEST_P(kernels, unpack_bool_writes_exactly_zero_or_one_for_each_bit) {
  for (const std::int64_t length : lengths) {
    for (int round = 0; round < rounds; ++round) {
      const bit_source source{random_below(17), round == 0 ? 0 : random_below(300), length};
      const auto before = static_cast<std::size_t>(round == 0 ? 0 : random_below(17));
      SCOPED_TRACE(::testing::Message() << source << ", target misaligned by " << before);
      const bytes content = random_bits(source.size());
      const device_memory input(work(), content);
      const device_memory target(work(), bytes(before + static_cast<std::size_t>(length) + guard, poison));

      table().unpack_bool(handle(), input.data() + source.misalignment, source.bit_offset, length,
                          target.data() + before);

      bytes expected(target.size(), poison);
      for (std::int64_t i = 0; i < length; ++i) {
        expected[before + static_cast<std::size_t>(i)] = source.bit(content, i) ? 1 : 0;
      }
      ASSERT_EQ(target.download(), expected);
    }
  }
}

TEST_P(kernels, copy_bitmap_moves_bits_to_the_front_clears_the_padding_and_counts_nulls) {
  const device_memory null_count(work(), bytes(sizeof(std::int64_t), poison));
  for (const std::int64_t length : lengths) {
    for (int round = 0; round < rounds; ++round) {
      const bit_source source{round == 0 ? 0 : random_below(17), round == 0 ? 0 : random_below(300), length};
      SCOPED_TRACE(::testing::Message() << source);
      const bytes content = random_bits(source.size());
      const device_memory input(work(), content);
      const device_memory target(work(), bytes(bitmap_bytes(length) + guard, poison));

      table().copy_bitmap(handle(), input.data() + source.misalignment, source.bit_offset, length,
                          target.data(), null_count.as<std::int64_t>());

      const auto set = [&](std::int64_t i) { return source.bit(content, i); };
      ASSERT_EQ(target.download(), expected_bitmap(length, set));
      ASSERT_EQ(read_count(null_count), source.zeros(content));
    }
  }
}

TEST_P(kernels, copy_bitmap_masks_the_last_bits_at_every_shift) {
  const device_memory null_count(work(), bytes(sizeof(std::int64_t), poison));
  for (const std::int64_t misalignment : {0, 1, 15}) {
    for (std::int64_t bit_offset = 0; bit_offset < 8; ++bit_offset) {
      for (std::int64_t length = 249; length <= 257; ++length) { // around the end of the second 16-byte word
        const bit_source source{misalignment, bit_offset, length};
        SCOPED_TRACE(::testing::Message() << source);
        const bytes content(source.size(), 0xff); // set bits past the range detect a missing mask
        const device_memory input(work(), content);
        const device_memory target(work(), bytes(bitmap_bytes(length) + guard, poison));

        table().copy_bitmap(handle(), input.data() + misalignment, bit_offset, length, target.data(),
                            null_count.as<std::int64_t>());

        ASSERT_EQ(target.download(), expected_bitmap(length, [](std::int64_t) { return true; }));
        ASSERT_EQ(read_count(null_count), 0);
      }
    }
  }
}

TEST_P(kernels, copy_bitmap_accepts_a_null_pointer_for_the_null_count) {
  for (const std::int64_t length : lengths) {
    const bit_source source{random_below(17), random_below(300), length};
    SCOPED_TRACE(::testing::Message() << source);
    const bytes content = random_bits(source.size());
    const device_memory input(work(), content);
    const device_memory target(work(), bytes(bitmap_bytes(length) + guard, poison));

    table().copy_bitmap(handle(), input.data() + source.misalignment, source.bit_offset, length,
                        target.data(), nullptr);

    ASSERT_EQ(target.download(),
              expected_bitmap(length, [&](std::int64_t i) { return source.bit(content, i); }));
  }
}

TEST_P(kernels, count_nulls_counts_only_zero_bits_of_its_range) {
  const device_memory null_count(work(), bytes(sizeof(std::int64_t), poison));
  for (const std::int64_t length : lengths) {
    for (int round = 0; round < rounds; ++round) {
      const bit_source source{round == 0 ? 0 : random_below(17), round == 0 ? 0 : random_below(300), length};
      SCOPED_TRACE(::testing::Message() << source);
      // All set, none set, then random. The first two detect a bit too many or too few.
      const bytes content = round == 1   ? bytes(source.size(), 0xff)
                            : round == 2 ? bytes(source.size(), 0)
                                         : random_bits(source.size());
      const device_memory input(work(), content);

      table().count_nulls(handle(), input.data() + source.misalignment, source.bit_offset, length,
                          null_count.as<std::int64_t>());

      ASSERT_EQ(read_count(null_count), source.zeros(content));
    }
  }
}

/// Rebases `count` offsets after the first `skipped`, as for a slice.
template <class Rebase, class Offset>
void kernels::expect_rebased(Rebase rebase, const std::vector<Offset>& all, std::int64_t skipped,
                             std::int64_t count, bool in_place) {
  const device_memory input(work(), raw(all));
  const std::vector<Offset> untouched(static_cast<std::size_t>(count) + 8, Offset{-1});
  const device_memory separate(work(), raw(untouched));
  Offset* const source = input.as<Offset>() + skipped;

  rebase(handle(), source, count, in_place ? source : separate.as<Offset>());

  std::vector<Offset> rebased(all.begin() + skipped, all.begin() + skipped + count);
  const Offset base = count == 0 ? Offset{0} : rebased[0];
  std::transform(rebased.begin(), rebased.end(), rebased.begin(),
                 [&](Offset offset) { return offset - base; });
  std::vector<Offset> expected = in_place ? all : untouched;
  std::copy(rebased.begin(), rebased.end(), expected.begin() + (in_place ? skipped : 0));
  const auto wanted = raw(expected);
  ASSERT_EQ((in_place ? input : separate).download(), bytes(wanted.begin(), wanted.end()));
}

TEST_P(kernels, rebase_offsets_subtracts_the_first_offset) {
  for (const std::int64_t count : lengths) {
    for (int round = 0; round < rounds; ++round) {
      const std::int64_t skipped = round == 0 ? 0 : random_below(9);
      SCOPED_TRACE(::testing::Message() << count << " offsets from number " << skipped);
      expect_rebased(table().rebase_offsets32, random_offsets<std::int32_t>(skipped + count), skipped, count,
                     false);
      expect_rebased(table().rebase_offsets64, random_offsets<std::int64_t>(skipped + count), skipped, count,
                     false);
    }
  }
}

TEST_P(kernels, rebase_offsets_works_in_place) {
  for (const std::int64_t count : lengths) {
    for (int round = 0; round < rounds; ++round) {
      const std::int64_t skipped = round == 0 ? 0 : random_below(9);
      SCOPED_TRACE(::testing::Message() << count << " offsets from number " << skipped);
      expect_rebased(table().rebase_offsets32, random_offsets<std::int32_t>(skipped + count), skipped, count,
                     true);
      expect_rebased(table().rebase_offsets64, random_offsets<std::int64_t>(skipped + count), skipped, count,
                     true);
    }
  }
}

template <class Value>
void kernels::expect_filled(std::uint64_t fill) {
  for (const std::int64_t length : lengths) {
    for (int round = 0; round < rounds; ++round) {
      const bit_source valid{random_below(17), round == 0 ? 0 : random_below(300), length};
      const auto skipped = static_cast<std::size_t>(round == 0 ? 0 : random_below(17));
      const auto before =
          static_cast<std::size_t>(round < 2 ? skipped : static_cast<std::size_t>(random_below(17)));
      SCOPED_TRACE(::testing::Message() << sizeof(Value) << " bytes a value, valid: " << valid
                                        << ", from value " << skipped << " to value " << before);
      const auto count = static_cast<std::size_t>(length);
      const bytes content = random_bits((skipped + count) * sizeof(Value));
      // All set, none set, then random.
      const bytes bits = round == 1   ? bytes(valid.size(), 0xff)
                         : round == 2 ? bytes(valid.size(), 0)
                                      : random_bits(valid.size());
      const device_memory validity(work(), bits);
      const device_memory input(work(), content);
      const device_memory target(work(), bytes((before + count) * sizeof(Value) + guard, poison));
      const bool in_place = round == 3;

      table().fill_nulls(handle(), validity.data() + valid.misalignment, valid.bit_offset,
                         input.as<Value>() + skipped, sizeof(Value), length, fill,
                         in_place ? input.as<Value>() + skipped : target.as<Value>() + before);

      bytes expected = in_place ? content : bytes(target.size(), poison);
      const std::size_t first = in_place ? skipped : before;
      for (std::size_t i = 0; i < count; ++i) {
        const auto row = static_cast<std::int64_t>(i);
        const void* const value =
            valid.bit(bits, row) ? static_cast<const void*>(content.data() + (skipped + i) * sizeof(Value))
                                 : &fill;
        std::memcpy(expected.data() + (first + i) * sizeof(Value), value, sizeof(Value));
      }
      ASSERT_EQ((in_place ? input : target).download(), expected);
    }
  }
}

TEST_P(kernels, fill_nulls_keeps_only_valid_values) {
  expect_filled<std::uint8_t>(0x1122334455667788);
  expect_filled<std::uint16_t>(0x1122334455667788);
  expect_filled<std::uint32_t>(0x1122334455667788);
  expect_filled<std::uint64_t>(0x1122334455667788);
}

template <class Value>
void kernels::expect_gathered() {
  for (const std::int64_t length : lengths) {
    for (const std::int64_t step : {1, 2, -1, 7, -3, 0}) {
      const auto skipped = static_cast<std::size_t>(random_below(17));
      SCOPED_TRACE(::testing::Message()
                   << length << " values of " << sizeof(Value) << " bytes with stride " << step);
      const auto count = static_cast<std::size_t>(length);
      const auto reach = static_cast<std::size_t>(length == 0 ? 0 : std::abs(step) * (length - 1) + 1);
      const bytes content = random_bits((skipped + reach) * sizeof(Value)); // ends with the last value
      const std::size_t first = skipped + (step < 0 && reach != 0 ? reach - 1 : 0);
      const device_memory input(work(), content);
      const device_memory target(work(), bytes((skipped + count) * sizeof(Value) + guard, poison));

      strided_values source;
      source.first = input.as<Value>() + first;
      source.dimensions = 1;
      source.extents[0] = length;
      source.strides[0] = step * static_cast<std::int64_t>(sizeof(Value));
      table().gather_strided(handle(), source, sizeof(Value), target.as<Value>() + skipped);

      bytes expected(target.size(), poison);
      for (std::size_t i = 0; i < count; ++i) {
        const auto row =
            static_cast<std::size_t>(static_cast<std::int64_t>(first) + static_cast<std::int64_t>(i) * step);
        std::memcpy(expected.data() + (skipped + i) * sizeof(Value), content.data() + row * sizeof(Value),
                    sizeof(Value));
      }
      ASSERT_EQ(target.download(), expected);
    }
  }
}

TEST_P(kernels, gather_strided_makes_values_of_any_stride_contiguous) {
  expect_gathered<std::uint8_t>();
  expect_gathered<std::uint16_t>();
  expect_gathered<std::uint32_t>();
  expect_gathered<std::uint64_t>();
}

TEST_P(kernels, gather_strided_makes_values_of_any_dimensions_contiguous) {
  const bytes content = random_bits(40'000);
  const device_memory input(work(), content);
  struct shape {
    std::int64_t first; // in units of 4 bytes, like the strides
    std::vector<std::int64_t> extents;
    std::vector<std::int64_t> strides;
  };
  const std::vector<shape> shapes{{0, {}, {}},
                                  {7, {50, 3}, {1, 60}},
                                  {9'000, {3, 50}, {-3000, -2}},
                                  {5, {4, 5, 6}, {100, 0, -1}},
                                  {0, {2, 3, 2, 2, 3, 2, 2, 5}, {4000, 800, 400, 200, 40, 20, 10, 1}},
                                  {0, {5, 0, 2}, {1, 1, 1}},
                                  {1, {70, 80}, {81, 1}}};
  for (const shape& each : shapes) {
    strided_values source;
    source.first = input.as<std::uint32_t>() + each.first;
    source.dimensions = static_cast<int>(each.extents.size());
    std::vector<std::int64_t> places{each.first};
    for (std::size_t i = 0; i < each.extents.size(); ++i) {
      source.extents[i] = each.extents[i];
      source.strides[i] = each.strides[i] * 4;
      std::vector<std::int64_t> next;
      for (const std::int64_t place : places) {
        for (std::int64_t index = 0; index < each.extents[i]; ++index) {
          next.push_back(place + index * each.strides[i]);
        }
      }
      places = std::move(next);
    }
    bytes expected;
    for (const std::int64_t place : places) {
      expected.insert(expected.end(), content.begin() + place * 4, content.begin() + place * 4 + 4);
    }
    const device_memory target(work(), bytes(expected.size() + guard, poison));
    table().gather_strided(handle(), source, 4, target.data());
    expected.resize(expected.size() + guard, poison);
    ASSERT_EQ(target.download(), expected) << each.extents.size() << " dimensions";
  }
}

TEST_P(kernels, of_values_refuse_other_widths) {
  if (GetParam().name == "sim") {
    GTEST_SKIP() << "the width is looked at when the operation runs";
  }
  const device_memory memory(work(), bytes(64, 1));
  EXPECT_THROW(table().fill_nulls(handle(), memory.data(), 0, memory.data(), 3, 1, 0, memory.data()), error);
  strided_values one;
  one.first = memory.data();
  EXPECT_THROW(table().gather_strided(handle(), one, 16, memory.data()), error);
}

TEST_P(kernels, run_in_stream_order) {
  constexpr std::int64_t length = 100'000;
  const device_memory first(work(), random_bytes(length));
  const device_memory packed(work(), bitmap_bytes(length));
  const device_memory second(work(), length);
  const device_memory null_count(work(), sizeof(std::int64_t));

  table().pack_bool(handle(), first.data(), length, packed.data());
  table().unpack_bool(handle(), packed.data(), 0, length, second.data());
  device().fill(first.data(), 0, length, handle());
  table().pack_bool(handle(), first.data(), length, packed.data());
  table().count_nulls(handle(), packed.data(), 0, length, null_count.as<std::int64_t>());

  EXPECT_EQ(read_count(null_count), length);
  const bytes unpacked = second.download();
  EXPECT_GT(std::count(unpacked.begin(), unpacked.end(), 1), length / 4);
}

SAETA_CONFORMANCE_SUITE(kernels);

} // namespace
} // namespace saeta::conformance
