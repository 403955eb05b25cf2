// Compressed blocks of words: the kernels of a backend and the reference read what the other one wrote, and no
// damaged byte stays unnoticed.
#include "conformance/harness/context_test.hpp"
#include "saeta/device/compression.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

namespace saeta::conformance {
namespace {

using block_format::blocks_of;

/// A window in host memory, as a kernel leaves it.
struct compressed {
  std::vector<compressed_block> headers;
  std::vector<std::uint32_t> payload;
};

class compressed_blocks : public context_test {
protected:
  template <class T>
  [[nodiscard]] buffer upload(const std::vector<T>& values) const {
    const buffer made = make(values.size() * sizeof(T));
    use_token token(ctx()->work_stream(), {writes(made)});
    ctx()->copies().send_description(token.span<T>(made).data(), std::as_bytes(std::span(values)),
                                     token.stream());
    token.finish();
    return made;
  }
  template <class T>
  [[nodiscard]] std::vector<T> download(const buffer& of) const {
    const std::vector<std::uint8_t> bytes = read(of);
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }

  /// Runs with their numbers of blocks.
  [[nodiscard]] static std::vector<word_run> numbered(std::vector<word_run> runs) {
    std::int64_t blocks = 0;
    for (word_run& run : runs) {
      run.first_block = blocks;
      blocks += blocks_of(run);
    }
    return runs;
  }
  [[nodiscard]] static std::int64_t count_blocks(const std::vector<word_run>& runs) {
    return runs.back().first_block + blocks_of(runs.back());
  }

  /// @param capacity  units of the payload
  [[nodiscard]] compressed compress(const std::vector<std::uint8_t>& bytes, const std::vector<word_run>& runs,
                                    std::size_t capacity, std::uint64_t& needed) const {
    const std::int64_t blocks = count_blocks(runs);
    const buffer source = upload(bytes);
    const buffer described = upload(runs);
    const buffer headers = make(static_cast<std::size_t>(blocks) * sizeof(compressed_block));
    const buffer payload = make(std::max<std::size_t>(capacity, 1) * sizeof(std::uint32_t));
    const buffer count = make(sizeof(std::uint64_t));
    fill(headers, 0xab, ctx()->work_stream());
    fill(payload, 0xab, ctx()->work_stream());
    {
      use_token token(ctx()->work_stream(),
                      {reads(source), reads(described), writes(headers), writes(payload), writes(count)});
      compress_work work;
      work.source = token.span<const std::byte>(source).data();
      work.bytes = bytes.size();
      work.runs = token.span<const word_run>(described).data();
      work.run_count = static_cast<std::int64_t>(runs.size());
      work.blocks = blocks;
      work.headers = token.span<compressed_block>(headers).data();
      work.payload = token.span<std::uint32_t>(payload).data();
      work.capacity = capacity;
      work.needed = token.span<std::uint64_t>(count).data();
      ctx()->kernels().compress(token.stream().native_handle(), work);
      token.finish();
    }
    needed = download<std::uint64_t>(count).front();
    compressed made{download<compressed_block>(headers), download<std::uint32_t>(payload)};
    EXPECT_TRUE(std::all_of(made.payload.begin() +
                                static_cast<std::ptrdiff_t>(std::min<std::size_t>(needed, capacity)),
                            made.payload.end(), [](std::uint32_t unit) { return unit == 0xababababU; }));
    return made;
  }

  [[nodiscard]] std::vector<std::uint8_t> decompress(const compressed& from,
                                                     const std::vector<word_run>& runs, std::size_t bytes,
                                                     std::uint32_t& damaged) const {
    const buffer headers = upload(from.headers);
    const buffer payload = upload(from.payload);
    const buffer described = upload(runs);
    const buffer target = make(bytes);
    const buffer count = make_of<std::uint32_t>({0});
    fill(target, 0x5a, ctx()->work_stream());
    {
      use_token token(ctx()->work_stream(),
                      {reads(headers), reads(payload), reads(described), writes(target), updates(count)});
      decompress_work work;
      work.headers = token.span<const compressed_block>(headers).data();
      work.payload = token.span<const std::uint32_t>(payload).data();
      work.units = from.payload.size();
      work.runs = token.span<const word_run>(described).data();
      work.run_count = static_cast<std::int64_t>(runs.size());
      work.blocks = count_blocks(runs);
      work.target = token.span<std::byte>(target).data();
      work.bytes = bytes;
      work.damaged = token.span<std::uint32_t>(count).data();
      ctx()->kernels().decompress(token.stream().native_handle(), work);
      token.finish();
    }
    damaged = download<std::uint32_t>(count).front();
    return read(target);
  }

  [[nodiscard]] static std::vector<std::uint8_t>
  decompress_on_host(const compressed& from, const std::vector<word_run>& runs, std::size_t bytes) {
    std::vector<std::uint8_t> made(bytes, 0x5a);
    std::uint32_t damaged = 0;
    decompress_work work;
    work.headers = from.headers.data();
    work.payload = from.payload.data();
    work.units = from.payload.size();
    work.runs = runs.data();
    work.run_count = static_cast<std::int64_t>(runs.size());
    work.blocks = count_blocks(runs);
    work.target = reinterpret_cast<std::byte*>(made.data());
    work.bytes = bytes;
    work.damaged = &damaged;
    reference_kernels().decompress({}, work);
    EXPECT_EQ(damaged, 0U);
    return made;
  }

  /// Compresses and decompresses. Returns the units of the payload.
  std::uint64_t expect_equal(const std::vector<std::uint8_t>& bytes,
                             const std::vector<word_run>& runs) const {
    std::uint64_t needed = 0;
    const std::size_t capacity =
        bytes.size() / 2 + static_cast<std::size_t>(count_blocks(runs)) * 32 + 512 * 64;
    const compressed made = compress(bytes, runs, capacity, needed);
    std::uint32_t damaged = 0;
    EXPECT_TRUE(decompress(made, runs, bytes.size(), damaged) == bytes);
    EXPECT_EQ(damaged, 0U);
    EXPECT_TRUE(decompress_on_host(made, runs, bytes.size()) == bytes);
    return needed;
  }

  template <class T, class Value>
  [[nodiscard]] static std::vector<std::uint8_t> bytes_of(std::size_t count, const Value& value) {
    std::vector<T> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<T>(value(i));
    }
    std::vector<std::uint8_t> bytes(count * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  template <class T>
  [[nodiscard]] static std::vector<word_run> one_run(std::size_t count, std::int32_t stride = 1) {
    return {{.words = static_cast<std::int64_t>(count),
             .width = sizeof(T),
             .stride = stride,
             .floats = std::is_floating_point_v<T>}};
  }
  /// Bytes of a payload for each value.
  template <class T, class Value>
  [[nodiscard]] double bits_per_value(std::size_t count, const Value& value) const {
    return static_cast<double>(expect_equal(bytes_of<T>(count, value), one_run<T>(count))) * 32 /
           static_cast<double>(count);
  }

  mutable std::mt19937_64 random_{7};
};

TEST_P(compressed_blocks, take_as_many_bits_as_their_values_need) {
  constexpr std::size_t count = 4096;
  EXPECT_EQ(bits_per_value<std::int64_t>(count, [&](std::size_t) { return random_() % 64; }), 6);
  EXPECT_EQ(bits_per_value<std::int32_t>(count, [&](std::size_t i) { return i % 2 == 0 ? -500 : 500; }), 10);
  EXPECT_EQ(bits_per_value<std::int64_t>(count, [&](std::size_t i) { return 1'000'000'000 + 7 * i; }), 0);
  EXPECT_EQ(bits_per_value<std::int64_t>(count, [&](std::size_t i) { return 100 * i + random_() % 8; }), 4);
  EXPECT_EQ(bits_per_value<std::int16_t>(count, [&](std::size_t) { return random_() % 256; }), 8);
  EXPECT_EQ(
      bits_per_value<double>(count, [&](std::size_t) { return static_cast<double>(random_() % 1024) / 100; }),
      10);
  EXPECT_EQ(
      bits_per_value<float>(count, [&](std::size_t) { return static_cast<float>(random_() % 1024) / 10; }),
      10);
  EXPECT_EQ(bits_per_value<std::uint8_t>(count, [&](std::size_t) { return "RAN"[random_() % 3]; }), 2.25);
  EXPECT_EQ(bits_per_value<std::uint64_t>(count, [&](std::size_t) { return random_(); }), 64);
}

TEST_P(compressed_blocks, restore_every_bit) {
  const std::vector<double> odd{std::bit_cast<double>(0x7ff8'0000'dead'beefU),
                                std::bit_cast<double>(0xfff0'0000'0000'0001U),
                                -0.0,
                                std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::denorm_min(),
                                1.0 / 3,
                                1e300};
  for (const std::size_t every : {1UL, 7UL, 20UL, 600UL}) {
    const auto value = [&](std::size_t i) {
      return i % every == 0 ? odd[i % odd.size()] : static_cast<double>(i) / 4;
    };
    static_cast<void>(bits_per_value<double>(3000, value));
    static_cast<void>(bits_per_value<float>(3000, value));
  }
  for (const std::int64_t edge :
       {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    static_cast<void>(bits_per_value<std::int64_t>(
        2000, [&](std::size_t i) { return i % 3 == 0 ? edge : static_cast<std::int64_t>(i); }));
  }
}

TEST_P(compressed_blocks, have_any_number_of_words) {
  for (const std::size_t count : {1UL, 2UL, 31UL, 32UL, 33UL, 63UL, 1023UL, 1024UL, 1025UL, 2047UL, 3000UL}) {
    SCOPED_TRACE(count);
    static_cast<void>(bits_per_value<std::uint8_t>(count, [](std::size_t i) { return i * 7; }));
    static_cast<void>(bits_per_value<std::int16_t>(count, [](std::size_t i) { return i * i; }));
    static_cast<void>(bits_per_value<std::int32_t>(count, [](std::size_t i) { return i * i; }));
    static_cast<void>(bits_per_value<std::int64_t>(count, [](std::size_t i) { return i * i * i; }));
    static_cast<void>(bits_per_value<double>(
        count, [](std::size_t i) { return i % 40 == 3 ? 1.0 / 3 : 0.5 * static_cast<double>(i); }));
  }
}

TEST_P(compressed_blocks, interleave_the_words_of_wide_values) {
  for (const std::int32_t stride : {2, 3, 4}) {
    const std::size_t words = 1500 * static_cast<std::size_t>(stride);
    const auto value = [&](std::size_t i) { return i % static_cast<std::size_t>(stride) == 0 ? i : 0; };
    EXPECT_LT(expect_equal(bytes_of<std::int64_t>(words, value), one_run<std::int64_t>(words, stride)),
              words / 4);
    expect_equal(bytes_of<std::int16_t>(words, value), one_run<std::int16_t>(words, stride));
  }
}

TEST_P(compressed_blocks, of_many_runs_lie_side_by_side) {
  std::vector<word_run> runs;
  std::vector<std::uint8_t> bytes;
  for (std::size_t number = 0; number < 300; ++number) {
    const std::int32_t width = 1 << number % 4;
    const std::size_t words = 8 * (1 + random_() % 300);
    runs.push_back({.first_byte = static_cast<std::int64_t>(bytes.size()),
                    .words = static_cast<std::int64_t>(words),
                    .width = width,
                    .floats = width >= 4 && number % 8 >= 4});
    for (std::size_t i = 0; i < words * static_cast<std::size_t>(width); ++i) {
      bytes.push_back(static_cast<std::uint8_t>(i % 5 == 0 ? random_() : number));
    }
  }
  expect_equal(bytes, numbered(runs));
}

TEST_P(compressed_blocks, that_do_not_fit_are_counted) {
  const std::vector<std::uint8_t> bytes =
      bytes_of<std::uint64_t>(5000, [&](std::size_t) { return random_(); });
  std::uint64_t needed = 0;
  static_cast<void>(compress(bytes, one_run<std::uint64_t>(5000), 3000, needed));
  EXPECT_EQ(needed, 5U * 64 * 32);
}

TEST_P(compressed_blocks, that_are_damaged_are_noticed) {
  struct sample {
    std::vector<std::uint8_t> bytes;
    std::vector<word_run> runs;
  };
  const std::vector<sample> samples{
      {bytes_of<std::int32_t>(1100, [](std::size_t i) { return i * i % 5; }), one_run<std::int32_t>(1100)},
      {bytes_of<std::int64_t>(1024, [](std::size_t i) { return i * 9; }), one_run<std::int64_t>(1024)},
      {bytes_of<double>(1024,
                        [](std::size_t i) { return i % 100 == 0 ? 1.0 / 3 : static_cast<double>(i % 4); }),
       one_run<double>(1024)}, // 11 exceptions, the last place of which has half a unit
      {bytes_of<std::uint8_t>(1024, [](std::size_t i) { return i % 3; }), one_run<std::uint8_t>(1024)}};
  for (const sample& of : samples) {
    std::uint64_t needed = 0;
    compressed made = compress(of.bytes, of.runs, 4000, needed);
    made.payload.resize(needed);
    const auto damages = [&](std::uint8_t& byte) {
      std::uint32_t damaged = 0;
      byte ^= 0x24U;
      static_cast<void>(decompress(made, of.runs, of.bytes.size(), damaged));
      byte ^= 0x24U;
      return damaged;
    };
    const auto each = [&](auto& units, std::size_t bytes) {
      auto* const first = reinterpret_cast<std::uint8_t*>(units.data());
      const std::size_t step = ctx()->on_host() ? 1 : 13; // a device takes longer for each of them
      for (std::size_t at = 0; at < bytes; at += step) {
        EXPECT_EQ(damages(first[at]), 1U) << "byte " << at << " of " << bytes;
      }
    };
    each(made.headers, made.headers.size() * sizeof(compressed_block));
    each(made.payload, made.headers.back().exceptions % 2 == 0 ? needed * 4 : needed * 4 - 2);
  }
}

SAETA_CONFORMANCE_SUITE(compressed_blocks);

} // namespace
} // namespace saeta::conformance
