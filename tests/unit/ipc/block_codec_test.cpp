// libarrow can decode buffers that several threads have compressed.
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/ipc/codec/block_codec.hpp"
#include "saeta/ipc/codec/codecs.hpp"

#include <arrow/util/compression.h>
#include <gtest/gtest.h>

#include <random>
#include <span>
#include <vector>

namespace saeta::ipc::detail {
namespace {

using bridge::take;

class blocks : public ::testing::TestWithParam<body_codec> {
protected:
  std::vector<std::uint8_t> compressed(const std::vector<std::uint8_t>& values) {
    block_codec codec(GetParam(), 0, pool_);
    std::vector<std::uint8_t> made(codec.max_bytes(values.size()));
    made.resize(codec.compress(std::as_bytes(std::span(values)), std::as_writable_bytes(std::span(made))));
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

  thread_pool pool_{3};
};

TEST_P(blocks, of_any_size_and_content_round_trip) {
  constexpr std::size_t block = block_codec::block_bytes;
  constexpr std::size_t whole = block_codec::whole_below;
  std::mt19937_64 random(7);
  for (const std::size_t bytes : {std::size_t{1}, whole, whole + 1, whole + block, 5 * block - 3}) {
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
  }
}

TEST_P(blocks, are_not_compressed_after_the_pool_failed) {
  const auto fail = [&] { // either call may throw the failure
    pool_.queue(1, [] { throw error(errc::io, "full"); });
    pool_.wait_until([] { return false; });
  };
  EXPECT_THROW(fail(), error);
  const std::vector<std::uint8_t> values(block_codec::whole_below + 1);
  try {
    compressed(values);
    FAIL() << "compressed";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::io);
  }
}

INSTANTIATE_TEST_SUITE_P(codecs, blocks, ::testing::Values(body_codec::lz4, body_codec::zstd),
                         [](const auto& of) { return of.param == body_codec::lz4 ? "lz4" : "zstd"; });

} // namespace
} // namespace saeta::ipc::detail
