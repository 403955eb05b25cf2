// libarrow can decode buffers that several threads have compressed.
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/ipc/codec/codecs.hpp"

#include <arrow/util/compression.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

using bridge::take;

class blocks : public ::testing::TestWithParam<body_codec> {
protected:
  /// Returns the frames of a buffer, as a body has them behind the number of its bytes.
  std::vector<std::uint8_t> compressed(const std::vector<std::uint8_t>& values) {
    const block_codec codec(GetParam(), 0);
    const auto left = std::as_bytes(std::span(values));
    std::vector<std::uint8_t> made;
    const auto append = [&](std::span<const std::byte> bytes) {
      const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
      made.insert(made.end(), first, first + bytes.size());
    };
    if (left.size() <= block_codec::block_bytes) {
      const auto whole = codec.whole(left, charged_);
      std::int64_t claimed = 0;
      std::memcpy(&claimed, whole->bytes().data(), sizeof claimed);
      EXPECT_EQ(claimed, std::ssize(values));
      append(whole->bytes().subspan(sizeof claimed));
      return made;
    }
    append(std::as_bytes(std::span(codec.front())));
    for (std::size_t at = 0; at < left.size(); at += block_codec::block_bytes) {
      append(codec.block(left.subspan(at, std::min(block_codec::block_bytes, left.size() - at)), charged_)
                 ->bytes());
    }
    append(std::as_bytes(std::span(codec.end_bytes())));
    return made;
  }
  [[nodiscard]] static std::vector<std::uint8_t> decoded(const std::vector<std::uint8_t>& bytes,
                                                         std::size_t room) {
    const auto codec =
        take(arrow::util::Codec::Create(GetParam() == body_codec::lz4 ? arrow::Compression::LZ4_FRAME
                                                                      : arrow::Compression::ZSTD),
             "test");
    std::vector<std::uint8_t> made(room);
    made.resize(static_cast<std::size_t>(
        take(codec->Decompress(std::ssize(bytes), bytes.data(), std::ssize(made), made.data()), "test")));
    return made;
  }

  std::shared_ptr<budget> charged_ = budget::create("test", std::uint64_t{1} << 30);
};

TEST_P(blocks, of_any_size_and_content_round_trip) {
  constexpr std::size_t block = block_codec::block_bytes;
  std::mt19937_64 random(7);
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{1000}, block, block + 1, 2 * block, 5 * block - 3}) {
    std::vector<std::uint8_t> values(bytes);
    for (std::size_t i = 0; i < bytes; ++i) { // one incompressible block among others
      values[i] = static_cast<std::uint8_t>(i / block == 2 ? random() : i / 100);
    }
    const auto made = compressed(values);
    EXPECT_LT(made.size(), bytes / 2 + 100);
    EXPECT_EQ(decoded(made, bytes), values) << bytes;
    EXPECT_GE(
        max_decoded_bytes(GetParam() == body_codec::lz4 ? "lz4" : "zstd", std::as_bytes(std::span(made))),
        bytes)
        << "a reader would refuse it";
    EXPECT_EQ(charged_->statistics().current, 0U);
  }
}

TEST_P(blocks, of_a_higher_level_are_smaller) {
  std::mt19937_64 random(7);
  std::vector<std::byte> values(block_codec::block_bytes);
  for (std::byte& value : values) {
    value = static_cast<std::byte>(random() % 4);
  }
  const auto size_of = [&](int level) {
    const block_codec codec(GetParam(), level);
    return std::pair(codec.block(values, charged_)->bytes().size(),
                     codec.whole(values, charged_)->bytes().size());
  };
  const auto [block, whole] = size_of(0);
  const auto [best_block, best_whole] = size_of(9);
  EXPECT_LT(best_block, block);
  EXPECT_LT(best_whole, whole);
}

INSTANTIATE_TEST_SUITE_P(codecs, blocks, ::testing::Values(body_codec::lz4, body_codec::zstd),
                         [](const auto& of) { return of.param == body_codec::lz4 ? "lz4" : "zstd"; });

} // namespace
} // namespace saeta::ipc::detail
