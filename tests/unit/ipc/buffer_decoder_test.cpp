// Incremental decoding of compressed buffers whose frames are valid, broken, or claim a wrong size.

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

} // namespace
} // namespace saeta::ipc::detail
