// The upper bound for the decoded size of compressed bytes: never too small, and close to the real size.

#include "saeta/base/error.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/ipc/codec/codecs.hpp"

#include <arrow/buffer.h>
#include <arrow/util/compression.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

using bridge::take;

std::vector<std::byte> compress(std::string_view codec, const std::string& text) {
  const auto made = take(
      arrow::util::Codec::Create(codec == "lz4" ? arrow::Compression::LZ4_FRAME : arrow::Compression::ZSTD),
      codec);
  const auto* const data = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto size = static_cast<std::int64_t>(text.size());
  std::vector<std::byte> packed(static_cast<std::size_t>(made->MaxCompressedLen(size, data)));
  packed.resize(static_cast<std::size_t>(
      take(made->Compress(size, data, std::ssize(packed), reinterpret_cast<std::uint8_t*>(packed.data())),
           codec)));
  return packed;
}

std::string text_of(std::size_t bytes, unsigned different) {
  std::mt19937 random(7);
  std::string text(bytes, 'a');
  for (char& each : text) {
    each = static_cast<char>('a' + random() % different);
  }
  return text;
}

TEST(decoded_bound, is_at_least_the_decoded_size) {
  for (const std::string_view codec : {"lz4", "zstd"}) {
    for (const std::size_t bytes :
         {1U, 100U, 255U, 256U, 257U, 65'535U, 65'536U, 70'000U, 300'000U, 9'000'000U}) {
      for (const unsigned different : {1U, 3U, 200U}) {
        const auto packed = compress(codec, text_of(bytes, different));
        EXPECT_GE(max_decoded_bytes(codec, packed), bytes) << codec << ' ' << different;
      }
    }
  }
}

TEST(decoded_bound, is_close_to_the_decoded_size) {
  constexpr std::size_t bytes = 9'000'000;
  for (const unsigned different : {1U, 3U, 200U}) {
    const std::string text = text_of(bytes, different);
    EXPECT_EQ(max_decoded_bytes("zstd", compress("zstd", text)), bytes) << "its header says it";
    const auto packed = compress("lz4", text);
    EXPECT_LE(max_decoded_bytes("lz4", packed),
              std::max(bytes + (std::size_t{4} << 20), 255 * packed.size()));
  }
  const std::string noise = text_of(1'000'000, 251);
  EXPECT_LE(max_decoded_bytes("lz4", compress("lz4", noise)), std::size_t{4} << 20);
}

TEST(decoded_bound, finds_the_content_size_after_a_dictionary_id) {
  const auto plain = compress("zstd", text_of(300'000, 3));
  const auto flags = std::to_integer<unsigned>(plain[4]);
  const bool single = (flags & 32U) != 0; // single-segment frames have no window descriptor
  const auto number_at = plain.begin() + (single ? 5 : 6);
  for (const auto& [code, bytes] : {std::pair{1U, 1U}, std::pair{2U, 2U}, std::pair{3U, 4U}}) {
    std::vector<std::byte> changed(plain.begin(), number_at);
    changed[4] |= static_cast<std::byte>(code);
    changed.insert(changed.end(), bytes, std::byte{0x77});
    changed.insert(changed.end(), number_at, plain.end());
    EXPECT_EQ(max_decoded_bytes("zstd", changed), 300'000U) << bytes;
  }
}

TEST(decoded_bound, adds_up_frames_and_ignores_skippable_frames) {
  for (const std::string_view codec : {"lz4", "zstd"}) {
    const auto one = compress(codec, text_of(100'000, 200));
    const auto most = max_decoded_bytes(codec, one);
    std::vector<std::byte> all = one;
    const std::array<std::uint32_t, 3> skipped{0x184D2A53, 4, 0xFFFFFFFF};
    const auto raw = std::as_bytes(std::span(skipped));
    all.insert(all.end(), raw.begin(), raw.end());
    all.insert(all.end(), one.begin(), one.end());
    EXPECT_EQ(max_decoded_bytes(codec, all), 2 * most) << codec;
    all.push_back(std::byte{1});
    EXPECT_EQ(max_decoded_bytes(codec, all), 2 * most) << "bytes after an invalid frame don't count";
  }
}

TEST(decoded_bound, skips_checksums_of_contents) {
  for (const std::string_view codec : {"lz4", "zstd"}) {
    const auto one = compress(codec, text_of(100'000, 200));
    std::vector<std::byte> with_checksum = one;
    with_checksum[4] |= std::byte{4};
    with_checksum.insert(with_checksum.end(), 4, std::byte{0x99});
    std::vector<std::byte> all = with_checksum;
    all.insert(all.end(), one.begin(), one.end());
    EXPECT_EQ(max_decoded_bytes(codec, all), 2 * max_decoded_bytes(codec, one)) << codec;
  }
}

void append(std::vector<std::byte>& to, std::uint64_t number, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    to.push_back(static_cast<std::byte>(number >> 8 * i));
  }
}

TEST(decoded_bound, reads_all_optional_fields_of_lz4_frames) {
  constexpr std::uint64_t number = 1, content_checksum = 4, content_size = 8, block_checksum = 16;
  const auto behind = compress("lz4", text_of(100'000, 200));
  for (std::uint64_t flags = 0; flags < 32; ++flags) {
    if ((flags & 2) != 0) {
      continue; // reserved
    }
    std::vector<std::byte> frame;
    append(frame, 0x184D2204, 4);
    append(frame, 0x60 | flags, 1);
    append(frame, 0x40, 1); // blocks of 64 KiB at most
    append(frame, 1000, (flags & content_size) != 0 ? 8 : 0);
    append(frame, 0x77777777, (flags & number) != 0 ? 4 : 0);
    append(frame, 0x55, 1);
    for (const std::size_t stored : {std::size_t{300}, std::size_t{500}}) {
      append(frame, 0x80000000 | stored, 4);
      frame.insert(frame.end(), stored, std::byte{'x'});
      append(frame, 0x99999999, (flags & block_checksum) != 0 ? 4 : 0);
    }
    append(frame, 40, 4); // size of a compressed block
    frame.insert(frame.end(), 40, std::byte{0});
    append(frame, 0x99999999, (flags & block_checksum) != 0 ? 4 : 0);
    append(frame, 0, 4);
    append(frame, 0x99999999, (flags & content_checksum) != 0 ? 4 : 0);
    const std::uint64_t expected = (flags & content_size) != 0 ? 1000 : 800 + 255 * 40;
    EXPECT_EQ(max_decoded_bytes("lz4", frame), expected) << flags;
    frame.insert(frame.end(), behind.begin(), behind.end());
    EXPECT_EQ(max_decoded_bytes("lz4", frame), expected + max_decoded_bytes("lz4", behind)) << flags;
  }
}

TEST(decoded_bound, counts_run_length_blocks_at_their_decoded_size) {
  std::vector<std::byte> frame;
  append(frame, 0xFD2FB528, 4);
  append(frame, 0, 1);    // header without content size and checksum
  append(frame, 0x58, 1); // window descriptor
  append(frame, 90'000 << 3 | 1 << 1, 3);
  append(frame, 'x', 1);
  append(frame, 5 << 3 | 1, 3);
  append(frame, 0x7878787878, 5);
  EXPECT_EQ(max_decoded_bytes("zstd", frame), 90'005U);
  const auto behind = compress("zstd", text_of(100'000, 3));
  frame.insert(frame.end(), behind.begin(), behind.end());
  EXPECT_EQ(max_decoded_bytes("zstd", frame), 190'005U);
}

TEST(decoded_bound, of_truncated_bytes_is_no_larger_and_of_changed_bytes_is_memory_safe) {
  std::mt19937_64 random(3);
  for (const std::string_view codec : {"lz4", "zstd"}) {
    const auto whole = compress(codec, text_of(500'000, 3));
    const auto most = max_decoded_bytes(codec, whole);
    for (std::size_t size = 0; size < whole.size(); size += 1 + size / 20) {
      const std::vector<std::byte> exact(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_LE(max_decoded_bytes(codec, exact), most);
    }
    for (int i = 0; i < 2000; ++i) {
      auto changed = whole;
      changed[random() % 40] = static_cast<std::byte>(random() % 256);
      static_cast<void>(max_decoded_bytes(codec, changed));
    }
  }
}

/// The memory that a decoder takes for a frame, by its header.
std::uint64_t memory_for(body_codec codec, const std::vector<std::byte>& frame) {
  return decoder_memory(codec, frame.size(), [&](std::uint64_t at, std::size_t bytes) {
    return std::span<const std::byte>(frame).subspan(at, bytes);
  });
}

TEST(decoder_memory, of_lz4_is_that_of_its_largest_blocks) {
  constexpr std::uint64_t kib = 1024;
  std::vector<std::byte> frame = compress("lz4", "text");
  for (const auto& [id, block] : {std::pair(4, 64 * kib), std::pair(5, 256 * kib), std::pair(6, 1024 * kib),
                                  std::pair(7, 4096 * kib), std::pair(0, 64 * kib)}) {
    frame[5] = static_cast<std::byte>(id << 4);
    EXPECT_EQ(memory_for(body_codec::lz4, frame), 2 * block + 128 * kib);
  }
  EXPECT_EQ(memory_for(body_codec::zstd, frame), 0U) << "not a frame of this codec";
}

TEST(decoder_memory, of_zstd_is_that_of_its_window) {
  constexpr std::uint64_t kib = 1024;
  constexpr std::uint64_t besides = 512 * kib; // the context, and two blocks
  const auto with_window = [](int byte) {
    std::vector<std::byte> frame = compress("zstd", "text");
    frame[4] = std::byte{0}; // the window is given, the size of the content is not
    frame[5] = static_cast<std::byte>(byte);
    return memory_for(body_codec::zstd, frame);
  };
  EXPECT_EQ(with_window(0), kib + besides);
  EXPECT_EQ(with_window(3), kib + 3 * kib / 8 + besides);
  EXPECT_EQ(with_window(10 << 3), 1024 * kib + besides);
  EXPECT_EQ(with_window(31 << 3), 128 * 1024 * kib + besides) << "larger windows are refused";
  EXPECT_EQ(memory_for(body_codec::zstd, compress("zstd", text_of(5000, 200))), 5000 + besides)
      << "one segment: the content is the window";
  EXPECT_EQ(memory_for(body_codec::lz4, compress("zstd", "text")), 0U);
}

} // namespace
} // namespace saeta::ipc::detail
