// LZ4 and ZSTD frames and blocks are compatible with libarrow's in both directions, however the input is
// split.

#include "saeta/base/error.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/ipc/codec/codecs.hpp"

#include <arrow/util/compression.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>

namespace saeta::ipc::detail {
namespace {

using bridge::take;

using ::testing::HasSubstr;

std::unique_ptr<arrow::util::Codec> peer(arrow::Compression::type kind) {
  return take(arrow::util::Codec::Create(kind), "test");
}

const std::uint8_t* data_of(const std::string& text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

std::string decoded_by(arrow::util::Codec& codec, const std::string& packed, std::size_t bytes) {
  std::string text(bytes, '?');
  const auto made = take(codec.Decompress(std::ssize(packed), data_of(packed), std::ssize(text),
                                          reinterpret_cast<std::uint8_t*>(text.data())),
                         "test");
  text.resize(static_cast<std::size_t>(made));
  return text;
}

std::string compressed_by(arrow::util::Codec& codec, const std::string& text) {
  std::string packed(static_cast<std::size_t>(codec.MaxCompressedLen(std::ssize(text), data_of(text))), '?');
  const auto made = take(codec.Compress(std::ssize(text), data_of(text), std::ssize(packed),
                                        reinterpret_cast<std::uint8_t*>(packed.data())),
                         "test");
  packed.resize(static_cast<std::size_t>(made));
  return packed;
}

/// Text that is partly compressible.
std::string text_of(std::size_t bytes) {
  std::mt19937 random(5);
  std::string text(bytes, 'a');
  for (std::size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>(i / 1000 % 3 == 0 ? random() : 'a' + random() % 3);
  }
  return text;
}

class frames : public ::testing::TestWithParam<bool> {
protected:
  [[nodiscard]] static std::unique_ptr<frame_decoder> decoder() {
    return GetParam() ? make_lz4_decoder() : make_zstd_decoder();
  }
  [[nodiscard]] static std::unique_ptr<arrow::util::Codec> other() {
    return peer(GetParam() ? arrow::Compression::LZ4_FRAME : arrow::Compression::ZSTD);
  }
  [[nodiscard]] static std::size_t compress(const std::string& text, std::span<std::byte> target) {
    const auto values = std::as_bytes(std::span(text));
    return GetParam() ? compress_lz4_frame(values, target) : compress_zstd_frame(values, target);
  }
  [[nodiscard]] static std::string frame(const std::string& text) {
    std::string packed(GetParam() ? max_lz4_frame_bytes(text.size()) : max_zstd_frame_bytes(text.size()),
                       '?');
    packed.resize(compress(text, std::as_writable_bytes(std::span(packed))));
    return packed;
  }
  /// Decodes all of `packed` and appends it to `text`, at most `room` bytes at a time.
  static void decode(frame_decoder& by, std::string_view packed, std::string& text, std::size_t room) {
    std::string part(room, '?');
    auto input = std::as_bytes(std::span(packed));
    frame_decoder::part done;
    do {
      done = by.decode(input, std::as_writable_bytes(std::span(part)));
      input = input.subspan(done.read);
      text.append(part, 0, done.made);
    } while (done.made != 0 || (done.read != 0 && !input.empty()));
    EXPECT_TRUE(input.empty());
  }
  [[nodiscard]] static std::string refusal(frame_decoder& by, const std::string& packed) {
    try {
      std::string text;
      by.reset();
      decode(by, packed, text, 100'000);
    } catch (const error& failure) {
      EXPECT_EQ(name_of(failure.code()), name_of(errc::format));
      return failure.message();
    }
    return "none";
  }
};

TEST_P(frames, are_those_of_libarrow) {
  const auto by = decoder();
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{300'000}, std::size_t{9} << 20}) {
    const std::string text = text_of(bytes);
    const std::string packed = frame(text);
    EXPECT_TRUE(decoded_by(*other(), packed, bytes) == text) << bytes;
    for (const std::string& each : {packed, compressed_by(*other(), text)}) {
      for (const std::size_t room : {std::size_t{70'001}, std::size_t{10} << 20}) {
        by->reset();
        std::string seen;
        decode(*by, each, seen, room);
        EXPECT_TRUE(by->finished());
        EXPECT_TRUE(seen == text) << bytes;
      }
    }
  }
}

TEST_P(frames, are_decoded_from_input_split_at_any_byte) {
  const std::string first = text_of(1500);
  const std::string second = "and another";
  const std::string skipped{"\x5A\x2A\x4D\x18\x03\0\0\0...", 11};
  const std::string packed = frame(first) + skipped + frame("") + frame(second);
  const auto by = decoder();
  for (const std::size_t room : {1U, 7U, 5000U}) {
    for (std::size_t at = 0; at <= packed.size(); ++at) {
      by->reset();
      std::string seen;
      decode(*by, std::string_view(packed).substr(0, at), seen, room);
      decode(*by, std::string_view(packed).substr(at), seen, room);
      EXPECT_EQ(seen, first + second) << at;
    }
  }
  by->reset();
  std::string seen;
  for (std::size_t at = 0; at < packed.size(); ++at) {
    decode(*by, std::string_view(packed).substr(at, 1), seen, 1);
  }
  EXPECT_EQ(seen, first + second);
}

TEST_P(frames, stop_at_the_end_of_the_frame) {
  const std::string packed = frame("some text");
  const std::string more = packed + frame("more");
  const auto by = decoder();
  std::array<std::byte, 100> room{};
  const auto done = by->decode(std::as_bytes(std::span(more)), room);
  EXPECT_EQ(done.read, packed.size());
  EXPECT_EQ(done.made, 9U);
  EXPECT_TRUE(by->finished());
  static_cast<void>(by->decode({}, room));
  EXPECT_TRUE(by->finished()) << "there were no further bytes";
  by->reset();
  EXPECT_FALSE(by->finished());
  std::string seen;
  decode(*by, std::string_view(packed).substr(0, packed.size() - 1), seen, 100);
  EXPECT_FALSE(by->finished()) << "the last byte is missing";
}

TEST_P(frames, with_errors_are_refused_with_the_reason) {
  const std::string good = frame(text_of(5000));
  const auto by = decoder();
  const char* const reason =
      GetParam() ? "lz4: ERROR_frameType_unknown" : "zstd: Unknown frame descriptor (error 10)";
  EXPECT_THAT(refusal(*by, "no frame at all"), HasSubstr(reason));
  EXPECT_THAT(refusal(*by, good + "trailing bytes"), HasSubstr(reason));
  EXPECT_THAT(refusal(*by, good + "trailing bytes"),
              HasSubstr(", after " + std::to_string(good.size()) + " bytes that decode to 5000"));
  EXPECT_EQ(refusal(*by, good), "none") << "and goes on";
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    std::string changed = good;
    changed[random() % changed.size()] = static_cast<char>(random());
    static_cast<void>(refusal(*by, changed)); // an error or other values
  }
  EXPECT_EQ(refusal(*by, good), "none");
}

TEST_P(frames, are_not_compressed_without_enough_space) {
  const std::string text = text_of(1000);
  std::array<std::byte, 50> room{};
  try {
    static_cast<void>(compress(text, room));
    FAIL() << "compressed";
  } catch (const error& failure) {
    EXPECT_EQ(name_of(failure.code()), name_of(errc::invalid_argument));
    EXPECT_THAT(failure.message(), HasSubstr("1000 bytes"));
    EXPECT_THAT(failure.message(), HasSubstr("50"));
  }
}

INSTANTIATE_TEST_SUITE_P(codecs, frames, ::testing::Values(true, false),
                         [](const auto& of) { return of.param ? "lz4" : "zstd"; });

std::string refusal(frame_decoder& by, std::string_view packed) {
  std::array<std::byte, 1000> room{};
  try {
    static_cast<void>(by.decode(std::as_bytes(std::span(packed)), room));
  } catch (const error& failure) {
    EXPECT_EQ(name_of(failure.code()), name_of(errc::format));
    return failure.message();
  }
  return "none";
}

TEST(lz4, blocks_are_compatible_with_libarrow) {
  const auto other = peer(arrow::Compression::LZ4);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{70'000}, std::size_t{4} << 20}) {
    const std::string text = text_of(bytes);
    std::string packed(max_lz4_block_bytes(bytes), '?');
    packed.resize(
        compress_lz4_block(std::as_bytes(std::span(text)), std::as_writable_bytes(std::span(packed))));
    EXPECT_TRUE(decoded_by(*other, packed, bytes) == text) << bytes;
  }
  const std::string text = text_of(1000);
  std::array<std::byte, 50> room{};
  EXPECT_THROW(compress_lz4_block(std::as_bytes(std::span(text)), room), error);
}

TEST(lz4, a_frame_holds_the_bytes_that_it_claims) {
  // A frame of version 1 with a content size of 5 bytes and blocks of at most 64 KiB. It is followed by an
  // uncompressed block of 4 or 6 bytes.
  const std::string head{"\x04\x22\x4D\x18\x68\x40\x05\0\0\0\0\0\0\0\x61", 15};
  EXPECT_EQ(
      refusal(*make_lz4_decoder(), head + std::string("\x05\0\0\x80", 4) + "12345" + std::string(4, '\0')),
      "none");
  EXPECT_THAT(
      refusal(*make_lz4_decoder(), head + std::string("\x04\0\0\x80", 4) + "1234" + std::string(4, '\0')),
      HasSubstr("lz4: ERROR_frameSize_wrong"));
  EXPECT_THAT(
      refusal(*make_lz4_decoder(), head + std::string("\x06\0\0\x80", 4) + "123456" + std::string(4, '\0')),
      HasSubstr("lz4: ERROR_frameSize_wrong"));
}

TEST(zstd, a_frame_holds_the_bytes_that_it_claims) {
  // A single-segment frame with a content size of 5 bytes. It is followed by an uncompressed last block of 4,
  // 5 or 6.
  const std::string head = "\x28\xB5\x2F\xFD\x20\x05";
  EXPECT_EQ(refusal(*make_zstd_decoder(), head + std::string("\x29\0\0", 3) + "12345"), "none");
  for (const std::string_view block : {std::string_view("\x21\0\0"
                                                        "1234",
                                                        7),
                                       std::string_view("\x31\0\0"
                                                        "123456",
                                                        9)}) {
    EXPECT_THAT(refusal(*make_zstd_decoder(), head + std::string(block)),
                HasSubstr("zstd: Data corruption detected (error 20)"));
  }
}

TEST(zstd, a_window_beyond_the_limit_is_refused) {
  const auto of_window = [](char exponent) {
    const std::string head{"\x28\xB5\x2F\xFD\0", 5};
    return head + static_cast<char>(exponent << 3) + std::string("\x29\0\0", 3) + "12345";
  };
  EXPECT_EQ(refusal(*make_zstd_decoder(), of_window(20 - 10)), "none");
  EXPECT_THAT(
      refusal(*make_zstd_decoder(), of_window(28 - 10)),
      HasSubstr(
          "zstd: Frame requires too much memory for decoding (error 16: a window of more than 128 MiB)"));
}

} // namespace
} // namespace saeta::ipc::detail
