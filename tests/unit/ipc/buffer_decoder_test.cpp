// Incremental decoding of compressed buffers whose frames are valid, broken, or claim a wrong size, as a whole and
// in parts.

#include "saeta/base/error.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/ipc/codec/decoded_buffers.hpp"

#include <arrow/util/compression.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

using bridge::take;

constexpr std::array codecs{body_codec::none, body_codec::lz4, body_codec::zstd};

std::string packed(body_codec codec, const std::string& text) {
  if (codec == body_codec::none) {
    return text;
  }
  const auto made = take(arrow::util::Codec::Create(codec == body_codec::lz4 ? arrow::Compression::LZ4_FRAME
                                                                             : arrow::Compression::ZSTD),
                         name_of(codec));
  const auto* const data = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto size = static_cast<std::int64_t>(text.size());
  std::string bytes(static_cast<std::size_t>(made->MaxCompressedLen(size, data)), '\0');
  bytes.resize(static_cast<std::size_t>(
      take(made->Compress(size, data, std::ssize(bytes), reinterpret_cast<std::uint8_t*>(bytes.data())),
           "packed")));
  return bytes;
}

/// Random text that a codec compresses to about half.
std::string noise(std::size_t bytes) {
  std::mt19937 random(11);
  std::string text(bytes, '\0');
  for (char& each : text) {
    each = static_cast<char>(random() % 16);
  }
  return text;
}

scatter_source source_of(const std::string& bytes) {
  return {bytes.size(), [&bytes](std::uint64_t position, std::span<std::byte> target) {
            ASSERT_LE(position + target.size(), bytes.size());
            std::memcpy(target.data(), bytes.data() + position, target.size());
          }};
}

packed_buffer buffer_in(body_codec codec, std::size_t front, std::size_t packed_bytes, std::size_t bytes) {
  packed_buffer made;
  made.source = front;
  made.packed_bytes = packed_bytes;
  made.bytes = bytes;
  made.codec = codec;
  return made;
}

std::string read(buffer_decoder& from, std::size_t bytes) {
  std::string made(bytes, '?');
  from.read(std::as_writable_bytes(std::span(made)));
  return made;
}

std::string refusal(buffer_decoder& from, const packed_buffer& of) {
  try {
    from.begin(of);
    from.finish();
  } catch (const error& failure) {
    EXPECT_EQ(name_of(failure.code()), name_of(errc::format));
    return failure.message();
  }
  return "none";
}

TEST(buffer_decoder, reads_and_skips_parts) {
  const std::string text = noise(300'000);
  for (const body_codec codec : codecs) {
    SCOPED_TRACE(name_of(codec));
    const std::string bytes = "in front" + packed(codec, text) + "behind";
    const scatter_source source = source_of(bytes);
    buffer_decoder decoder(source);
    for (const std::size_t step : {std::size_t{1000}, std::size_t{65'536}, text.size()}) {
      decoder.begin(buffer_in(codec, 8, bytes.size() - 14, text.size()));
      std::string seen;
      while (seen.size() < text.size()) {
        seen += read(decoder, std::min(step, text.size() - seen.size()));
      }
      decoder.finish();
      EXPECT_TRUE(seen == text);
    }
    decoder.begin(buffer_in(codec, 8, bytes.size() - 14, text.size()));
    decoder.skip(123'457);
    EXPECT_EQ(read(decoder, 1001), text.substr(123'457, 1001));
    EXPECT_EQ(decoder.position(), 124'458U);
    decoder.finish();
    EXPECT_EQ(decoder.position(), text.size());
  }
}

TEST(buffer_decoder, decodes_frames_larger_than_its_input_buffer) {
  const std::string text = noise(std::size_t{14} << 20);
  for (const body_codec codec : {body_codec::lz4, body_codec::zstd}) {
    const std::string bytes = packed(codec, text);
    ASSERT_GT(bytes.size(), std::size_t{5} << 20);
    const scatter_source source = source_of(bytes);
    buffer_decoder decoder(source);
    decoder.begin(buffer_in(codec, 0, bytes.size(), text.size()));
    EXPECT_TRUE(read(decoder, text.size()) == text);
    decoder.finish();
  }
}

TEST(buffer_decoder, decodes_several_frames) {
  const std::string text = noise(5000);
  for (const body_codec codec : {body_codec::lz4, body_codec::zstd}) {
    const std::string bytes = packed(codec, text) + packed(codec, text);
    const scatter_source source = source_of(bytes);
    buffer_decoder decoder(source);
    decoder.begin(buffer_in(codec, 0, bytes.size(), 2 * text.size()));
    EXPECT_TRUE(read(decoder, 2 * text.size()) == text + text);
    decoder.finish();
  }
}

TEST(buffer_decoder, reports_the_values_at_requested_positions) {
  std::string text = noise(200'000);
  const std::array<std::int64_t, 2> borders{5, -7};
  std::memcpy(text.data() + 400, &borders[0], sizeof(std::int64_t));
  std::memcpy(text.data() + 160'000, &borders[1], sizeof(std::int64_t));
  for (const body_codec codec : codecs) {
    SCOPED_TRACE(name_of(codec));
    const std::string bytes = packed(codec, text);
    const scatter_source source = source_of(bytes);
    packed_buffer of = buffer_in(codec, 0, bytes.size(), text.size());
    of.width = 8;
    of.first_at = 400;
    of.last_at = 160'000;
    buffer_decoder decoder(source);
    for (const std::size_t part : {std::size_t{0}, std::size_t{403}, text.size()}) {
      seen_borders seen;
      decoder.begin(of, &seen);
      static_cast<void>(read(decoder, part));
      decoder.finish();
      EXPECT_EQ(seen.first, 5);
      EXPECT_EQ(seen.last, -7);
    }
  }
}

TEST(buffer_decoder, refuses_frames_that_decode_to_another_size_than_claimed) {
  const std::string text = noise(10'000);
  for (const body_codec codec : {body_codec::lz4, body_codec::zstd}) {
    SCOPED_TRACE(name_of(codec));
    const std::string bytes = packed(codec, text);
    const scatter_source source = source_of(bytes);
    buffer_decoder decoder(source);
    EXPECT_EQ(refusal(decoder, buffer_in(codec, 0, bytes.size(), text.size())), "none");
    EXPECT_THAT(refusal(decoder, buffer_in(codec, 0, bytes.size(), text.size() + 1)),
                ::testing::HasSubstr("decode to 10000 bytes, the buffer claims 10001"));
    EXPECT_THAT(refusal(decoder, buffer_in(codec, 0, bytes.size(), text.size() - 1)),
                ::testing::HasSubstr("decode to more than the 9999 bytes that the buffer claims"));
    EXPECT_THAT(refusal(decoder, buffer_in(codec, 0, bytes.size(), 0)),
                ::testing::HasSubstr("decode to more than"));
    for (std::size_t left = 0; left < bytes.size(); left += 1 + left / 7) {
      EXPECT_NE(refusal(decoder, buffer_in(codec, 0, left, text.size())), "none") << left;
    }
    EXPECT_EQ(refusal(decoder, buffer_in(codec, 0, bytes.size(), text.size())), "none") << "and goes on";
  }
}

TEST(buffer_decoder, refuses_frames_after_the_claimed_size) {
  constexpr std::size_t input = 128u << 10; // size of the decoder's reads
  const std::string text = noise(10'000);
  for (const body_codec codec : {body_codec::lz4, body_codec::zstd}) {
    SCOPED_TRACE(name_of(codec));
    const std::string one = packed(codec, text);
    // A skippable frame that ends exactly at the end of the first read.
    const auto skipped = static_cast<std::uint32_t>(input - one.size() - 8);
    const std::array<std::uint32_t, 2> head{0x184D2A50, skipped};
    const std::string between(reinterpret_cast<const char*>(head.data()), sizeof head);
    for (const std::string& bytes : {one + one, one + between + std::string(skipped, 's') + one}) {
      const scatter_source source = source_of(bytes);
      buffer_decoder decoder(source);
      EXPECT_THAT(refusal(decoder, buffer_in(codec, 0, bytes.size(), text.size())),
                  ::testing::HasSubstr("decode to more than the 10000 bytes that the buffer claims"));
      EXPECT_EQ(refusal(decoder, buffer_in(codec, 0, bytes.size(), 2 * text.size())), "none");
    }
  }
}

TEST(buffer_decoder, discards_the_bytes_of_a_failed_read) {
  std::string bytes = packed(body_codec::lz4, noise(1000));
  const std::size_t one = bytes.size();
  bytes += packed(body_codec::zstd, noise(400'000));
  bool fails = false;
  const scatter_source source{bytes.size(), [&](std::uint64_t position, std::span<std::byte> target) {
                                std::memset(target.data(), 0xFF, target.size());
                                if (fails) {
                                  throw error(errc::io, "gone");
                                }
                                std::memcpy(target.data(), bytes.data() + position, target.size());
                              }};
  buffer_decoder decoder(source);
  EXPECT_EQ(refusal(decoder, buffer_in(body_codec::lz4, 0, one, 1000)), "none");
  fails = true;
  decoder.begin(buffer_in(body_codec::zstd, one, bytes.size() - one, 400'000));
  EXPECT_THROW(decoder.finish(), error);
  fails = false;
  EXPECT_EQ(refusal(decoder, buffer_in(body_codec::lz4, 0, one, 1000)), "none");
}

TEST(buffer_decoder, decodes_changed_bytes_or_throws) {
  const std::string text = noise(3000);
  std::mt19937 random(3);
  for (const body_codec codec : {body_codec::lz4, body_codec::zstd}) {
    std::string bytes = packed(codec, text);
    const scatter_source source = source_of(bytes);
    buffer_decoder decoder(source);
    for (std::size_t i = 0; i < 400; ++i) {
      const std::size_t at = random() % bytes.size();
      const char kept = std::exchange(bytes[at], static_cast<char>(random()));
      static_cast<void>(refusal(decoder, buffer_in(codec, 0, bytes.size(), text.size())));
      bytes[at] = kept;
    }
    EXPECT_EQ(refusal(decoder, buffer_in(codec, 0, bytes.size(), text.size())), "none");
  }
}

/// A buffer of offsets 0, 3, 6 and so on, compressed.
struct offsets_in_source {
  explicit offsets_in_source(body_codec codec, std::size_t count = 300'000) : values(count) {
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<std::int32_t>(3 * i);
    }
    std::string text(count * sizeof(std::int32_t), '\0');
    std::memcpy(text.data(), values.data(), text.size());
    bytes = packed(codec, text);
    source = {bytes.size(), [this](std::uint64_t position, std::span<std::byte> target) {
                ASSERT_LE(position + target.size(), bytes.size());
                std::memcpy(target.data(), bytes.data() + position, target.size());
                read += target.size();
              }};
    of.packed_bytes = bytes.size();
    of.bytes = text.size();
    of.codec = codec;
  }
  /// The buffer, with the offsets of rows [first, last).
  [[nodiscard]] packed_buffer rows(std::size_t first, std::size_t last) const {
    packed_buffer made = of;
    made.width = sizeof(std::int32_t);
    made.first_at = first * sizeof(std::int32_t);
    made.last_at = last * sizeof(std::int32_t);
    return made;
  }

  std::vector<std::int32_t> values;
  std::string bytes;
  scatter_source source;
  packed_buffer of;
  std::size_t read = 0;
};

std::vector<std::int32_t> numbers(part_decoder& from, std::size_t first, std::size_t count,
                                  std::size_t at_once) {
  std::vector<std::int32_t> made(count);
  auto target = std::as_writable_bytes(std::span(made));
  std::uint64_t position = first * sizeof(std::int32_t);
  while (!target.empty()) {
    const std::size_t bytes = std::min(at_once, target.size());
    from.read(position, target.first(bytes));
    position += bytes;
    target = target.subspan(bytes);
  }
  return made;
}

std::vector<std::int32_t> part_of(const std::vector<std::int32_t>& values, std::size_t first,
                                  std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

TEST(buffer_decoder, reads_small_neighbours_at_once_and_large_buffers_in_parts) {
  constexpr std::size_t kib = 1024;
  std::string bytes;
  std::vector<packed_buffer> buffers;
  for (const std::size_t size : {20'000U, 20'000U, 600'000U}) {
    const std::string text = noise(size);
    const std::string made = packed(body_codec::lz4, text);
    buffers.push_back(buffer_in(body_codec::lz4, bytes.size(), made.size(), text.size()));
    bytes += made;
  }
  std::vector<std::size_t> reads;
  const scatter_source from{bytes.size(), [&](std::uint64_t position, std::span<std::byte> target) {
                              reads.push_back(target.size());
                              std::memcpy(target.data(), bytes.data() + position, target.size());
                            }};
  buffer_decoder decoder(from);
  for (const packed_buffer& each : buffers) {
    decoder.begin(each);
    std::vector<std::byte> target(each.bytes);
    decoder.read(target);
    decoder.finish();
  }
  ASSERT_GT(buffers[2].packed_bytes, 256 * kib);
  ASSERT_GE(reads.size(), 4U);
  EXPECT_EQ(reads[0], 64 * kib) << "the first two buffers";
  EXPECT_EQ(reads[1], 128 * kib);
  EXPECT_EQ(reads[2], 128 * kib);
  EXPECT_EQ(buffer_decoder::most_input_memory, 192 * kib);
  EXPECT_GE(decoder.memory(), 128 * kib);
}

TEST(buffer_decoder, takes_memory_when_it_needs_it) {
  constexpr std::uint64_t kib = 1024;
  const std::string text = noise(1000);
  const scatter_source from = source_of(text);
  packed_buffer of = buffer_in(body_codec::none, 0, text.size(), text.size());
  of.width = 8;
  seen_borders seen;
  buffer_decoder decoder(from);
  decoder.begin(of, &seen);
  EXPECT_EQ(read(decoder, text.size()), text);
  decoder.finish();
  EXPECT_EQ(decoder.memory(), 0U);
  decoder.begin(of, &seen);
  decoder.skip(8); // looks at what it skips
  EXPECT_EQ(decoder.memory(), 64 * kib);
  const std::string made = packed(body_codec::zstd, text);
  const scatter_source compressed = source_of(made);
  buffer_decoder other(compressed);
  other.begin(buffer_in(body_codec::zstd, 0, made.size(), text.size()));
  const std::uint64_t context = other.memory();
  EXPECT_GT(context, 50 * kib);
  EXPECT_EQ(read(other, text.size()), text);
  other.finish();
  EXPECT_GE(other.memory(), context + made.size());
  EXPECT_LT(other.memory(), context + 8 * kib) << "no more than there is";
}

TEST(part_decoder, decodes_each_byte_once_if_parts_follow_each_other) {
  const auto charged = budget::create("test", 1 << 28);
  for (const body_codec codec : codecs) {
    for (const std::size_t at_once : {std::size_t{7}, std::size_t{1000}, std::size_t{1} << 19}) {
      SCOPED_TRACE(::testing::Message() << name_of(codec) << ", " << at_once);
      offsets_in_source offsets(codec, at_once < 100 ? 3000 : 300'000);
      part_decoder decoder(offsets.source, offsets.of, charged);
      const std::size_t rows = offsets.values.size() - 1;
      offsets.read = 0;
      std::size_t planned = 0;
      for (std::size_t first = 0; first < rows; first += 1000) { // planned two parts ahead of the reading
        while (planned < rows && planned < first + 2000) {
          const std::size_t end = std::min(rows, planned + 1000);
          const seen_borders seen = decoder.borders(offsets.rows(planned, end));
          EXPECT_EQ(seen.first, offsets.values[planned]);
          EXPECT_EQ(seen.last, offsets.values[end]);
          planned = end;
        }
        const std::size_t count = std::min<std::size_t>(1000, rows - first) + 1;
        EXPECT_EQ(numbers(decoder, first, count, at_once), part_of(offsets.values, first, count));
      }
      decoder.finish();
      if (codec != body_codec::none) {
        EXPECT_EQ(offsets.read, offsets.bytes.size());
      }
    }
  }
  EXPECT_EQ(charged->statistics().current, 0U);
}

TEST(part_decoder, begins_anew_for_bytes_that_are_not_kept) {
  const auto charged = budget::create("test", 1 << 28);
  for (const body_codec codec : codecs) {
    const offsets_in_source offsets(codec);
    part_decoder decoder(offsets.source, offsets.of, charged);
    for (const std::size_t first : std::array<std::size_t, 5>{200'000, 5, 120'000, 119'990, 0}) {
      EXPECT_EQ(decoder.borders(offsets.rows(first, first + 100)).last, offsets.values[first + 100]);
      EXPECT_EQ(numbers(decoder, first, 101, 1 << 20), part_of(offsets.values, first, 101));
    }
    decoder.finish();
  }
}

TEST(part_decoder, keeps_the_bytes_of_small_reads) {
  const auto charged = budget::create("test", 1 << 28);
  for (const body_codec codec : codecs) {
    const offsets_in_source offsets(codec);
    part_decoder decoder(offsets.source, offsets.of, charged);
    for (const auto& [first, count] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 4},
                                                                                       {3, 4},
                                                                                       {5, 2},
                                                                                       {6, 10},
                                                                                       {10, 15},
                                                                                       {24, 16},
                                                                                       {38, 17},
                                                                                       {54, 1},
                                                                                       {54, 3},
                                                                                       {50, 40},
                                                                                       {89, 2},
                                                                                       {80, 5}}) {
      EXPECT_EQ(numbers(decoder, first, count, 1 << 20), part_of(offsets.values, first, count)) << first;
    }
    EXPECT_EQ(decoder.borders(offsets.rows(100, 105)).first, offsets.values[100]);
    EXPECT_EQ(numbers(decoder, 101, 3, 1 << 20), part_of(offsets.values, 101, 3));
    decoder.finish();
  }
}

TEST(part_decoder, charges_what_its_codec_takes_and_no_more_than_its_values_need) {
  constexpr std::uint64_t kib = 1024;
  const auto said = [](body_codec codec, std::size_t count, bool whole = false) {
    const auto charged = budget::create("test", 1 << 28);
    const offsets_in_source offsets(codec, count);
    const part_decoder decoder(offsets.source, offsets.of, charged);
    if (whole) {
      EXPECT_EQ(charged->statistics().current,
                buffer_decoder::most_input_memory +
                    decoder_memory(codec, offsets.bytes.size(), [&](std::uint64_t at, std::size_t bytes) {
                      return std::as_bytes(std::span(offsets.bytes)).subspan(at, bytes);
                    }));
    }
    return charged->statistics().current;
  };
  EXPECT_EQ(said(body_codec::none, 300'000), 0U);
  EXPECT_GT(said(body_codec::zstd, 300'000, true), 1024 * kib);
  EXPECT_GT(said(body_codec::lz4, 300'000, true), 384 * kib);
  for (const body_codec codec : {body_codec::lz4, body_codec::zstd}) {
    EXPECT_LE(said(codec, 100), 2 * 400 + 512 * kib) << "it touches no more";
  }
  EXPECT_EQ(said(body_codec::zstd, 100), 2 * 400 + 512 * kib);
}

TEST(part_decoder, keeps_few_bytes_behind_small_parts) {
  for (const body_codec codec : {body_codec::lz4, body_codec::zstd}) {
    const auto charged = budget::create("test", 1 << 28);
    const offsets_in_source offsets(codec);
    part_decoder decoder(offsets.source, offsets.of, charged);
    EXPECT_EQ(numbers(decoder, 0, 10, 8), part_of(offsets.values, 0, 10));
    const std::uint64_t before = charged->statistics().current;
    const std::size_t read = offsets.read;
    EXPECT_EQ(numbers(decoder, 10, 5000, 8), part_of(offsets.values, 10, 5000));
    EXPECT_LE(charged->statistics().current, before + 1024);
    EXPECT_EQ(numbers(decoder, 5000, 3, 8), part_of(offsets.values, 5000, 3)) << "some are kept";
    EXPECT_EQ(numbers(decoder, 4998, 10, 40), part_of(offsets.values, 4998, 10));
    EXPECT_LE(offsets.read, read + (64U << 10)) << "it did not begin anew";
  }
}

TEST(part_decoder, charges_its_memory_before_it_decodes) {
  for (const body_codec codec : {body_codec::lz4, body_codec::zstd}) {
    const auto charged = budget::create("test", 4 << 20);
    const offsets_in_source offsets(codec);
    part_decoder decoder(offsets.source, offsets.of, charged);
    const std::uint64_t said = charged->statistics().current;
    EXPECT_GT(said, 128U << 10);
    EXPECT_LT(said, 2U << 20);
    EXPECT_EQ(numbers(decoder, 0, 250'000, 1 << 16), part_of(offsets.values, 0, 250'000));
    EXPECT_LE(charged->statistics().peak, said + (4U << 10)) << "the header of the frame said as much";
    EXPECT_EQ(decoder.borders(offsets.rows(250'000, 299'999)).last, 3 * 299'999);
    EXPECT_GE(charged->statistics().current, said + 49'999 * 4U);
    charged->set_limit(charged->statistics().current);
    EXPECT_THAT([&] { static_cast<void>(decoder.borders(offsets.rows(0, 299'999))); },
                ::testing::Throws<error>(::testing::Property(&error::code, errc::budget_exceeded)));
    EXPECT_EQ(decoder.borders(offsets.rows(10, 20)).last, 60) << "and goes on";
    const auto small = budget::create("small", said - 1);
    EXPECT_THAT([&] { part_decoder(offsets.source, offsets.of, small); },
                ::testing::Throws<error>(::testing::Property(&error::code, errc::budget_exceeded)));
    EXPECT_EQ(small->statistics().current, 0U);
  }
}

TEST(part_decoder, refuses_broken_frames_as_a_whole_decoding_does) {
  const auto charged = budget::create("test", 1 << 28);
  for (const body_codec codec : {body_codec::lz4, body_codec::zstd}) {
    const offsets_in_source offsets(codec, 5000);
    const auto refusal = [&](const packed_buffer& of, bool parts) -> std::string {
      try {
        buffer_decoder whole(offsets.source);
        part_decoder part(offsets.source, of, charged);
        std::vector<std::byte> target(of.bytes);
        if (!parts) {
          whole.begin(of);
          whole.read(target);
          whole.finish();
          return "none";
        }
        for (std::size_t first = 0; first < target.size(); first += 999) {
          part.read(first,
                    std::span(target).subspan(first, std::min<std::size_t>(999, target.size() - first)));
        }
        part.finish();
      } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::format);
        return failure.message();
      }
      return "none";
    };
    EXPECT_EQ(refusal(offsets.of, true), "none");
    packed_buffer wrong = offsets.of;
    for (wrong.packed_bytes = 0; wrong.packed_bytes < offsets.of.packed_bytes; wrong.packed_bytes += 97) {
      EXPECT_NE(refusal(wrong, true), "none");
      EXPECT_EQ(refusal(wrong, true).substr(0, 12), refusal(wrong, false).substr(0, 12));
    }
    wrong = offsets.of;
    wrong.bytes += 4;
    EXPECT_THAT(refusal(wrong, true), ::testing::HasSubstr("decode to 20000 bytes, the buffer claims 20004"));
    wrong.bytes -= 8;
    EXPECT_EQ(refusal(wrong, true), refusal(wrong, false));
    EXPECT_THAT(refusal(wrong, true), ::testing::HasSubstr("decode to more than the 19996 bytes"));
  }
}

} // namespace
} // namespace saeta::ipc::detail
