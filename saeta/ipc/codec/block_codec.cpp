#include "saeta/ipc/codec/block_codec.hpp"

#include "saeta/base/interrupt.hpp"
#include "saeta/ipc/arrow_status.hpp"

#include <arrow/buffer.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

namespace saeta::ipc::detail {
namespace {

/// The header of a frame of independent blocks of at most 4 MiB, without checksums: magic number, flags,
/// block size class, and the second byte of the header's XXH32.
constexpr std::array<std::uint8_t, 7> lz4_head{0x04, 0x22, 0x4D, 0x18, 0x60, 0x70, 0x73};
constexpr std::int64_t lz4_end_bytes = 4; ///< zeros after the last block
constexpr std::int64_t lz4_size_bytes = 4;
constexpr std::uint32_t lz4_stored = 0x80000000U; ///< bit in a block's size: the block is not compressed

std::unique_ptr<arrow::util::Codec> codec(arrow::Compression::type kind) {
  return take(arrow::util::Codec::Create(kind), "compression");
}

std::int64_t blocks_of(std::int64_t bytes) {
  return (bytes + block_codec::block_bytes - 1) / block_codec::block_bytes;
}

} // namespace

block_codec::block_codec(compression kind, write_team& team)
    : team_(team), lz4_(kind == compression::lz4),
      whole_(codec(lz4_ ? arrow::Compression::LZ4_FRAME : arrow::Compression::ZSTD)),
      block_(codec(lz4_ ? arrow::Compression::LZ4 : arrow::Compression::ZSTD)) {}

std::int64_t block_codec::max_block_bytes(std::int64_t bytes) const {
  return block_->MaxCompressedLen(bytes, nullptr) + lz4_size_bytes;
}

std::string_view block_codec::front() const noexcept {
  return lz4_ ? std::string_view(reinterpret_cast<const char*>(lz4_head.data()), lz4_head.size())
              : std::string_view();
}

std::string_view block_codec::end_bytes() const noexcept {
  return {"\0\0\0", lz4_ ? static_cast<std::size_t>(lz4_end_bytes) : 0};
}

std::shared_ptr<arrow::Buffer> block_codec::block(std::int64_t bytes, const std::uint8_t* values,
                                                  arrow::MemoryPool* pool) const {
  const std::int64_t room = max_block_bytes(bytes);
  auto made = take(arrow::AllocateResizableBuffer(room, pool), "compression");
  check(made->Resize(compress_block(bytes, values, room, made->mutable_data())), "compression");
  return made;
}

std::int64_t block_codec::MaxCompressedLen(std::int64_t bytes, const std::uint8_t* values) {
  return bytes <= whole_below ? whole_->MaxCompressedLen(bytes, values)
                              : std::ssize(lz4_head) + blocks_of(bytes) * max_block_bytes() + lz4_end_bytes;
}

std::int64_t block_codec::compress_block(std::int64_t bytes, const std::uint8_t* values, std::int64_t room,
                                         std::uint8_t* target) const {
  const std::string_view label = "compression";
  if (!lz4_) {
    return take(block_->Compress(bytes, values, room, target), label);
  }
  auto made = take(block_->Compress(bytes, values, room - lz4_size_bytes, target + lz4_size_bytes), label);
  auto size = static_cast<std::uint32_t>(made);
  if (made >= bytes) {
    std::memcpy(target + lz4_size_bytes, values, static_cast<std::size_t>(bytes));
    made = bytes;
    size = static_cast<std::uint32_t>(bytes) | lz4_stored;
  }
  std::memcpy(target, &size, sizeof(size)); // little-endian, like this machine
  return made + lz4_size_bytes;
}

arrow::Result<std::int64_t> block_codec::Compress(std::int64_t bytes, const std::uint8_t* values,
                                                  std::int64_t room, std::uint8_t* target) {
  if (bytes <= whole_below) {
    return whole_->Compress(bytes, values, room, target);
  }
  return run_guarded([&]() -> arrow::Result<std::int64_t> {
    const std::int64_t head = lz4_ ? std::ssize(lz4_head) : 0;
    const std::int64_t step = max_block_bytes();
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(blocks_of(bytes)));
    team_.run(sizes.size(), [&](std::size_t block) {
      const auto number = static_cast<std::int64_t>(block);
      const std::int64_t first = number * block_bytes;
      sizes[block] = compress_block(std::min(block_bytes, bytes - first), values + first, step,
                                    target + head + number * step);
    });
    std::copy_n(lz4_head.begin(), head, target);
    std::uint8_t* end = target + head;
    for (std::size_t block = 0; block < sizes.size(); ++block) {
      std::memmove(end, target + head + static_cast<std::int64_t>(block) * step,
                   static_cast<std::size_t>(sizes[block]));
      end += sizes[block];
    }
    end = std::fill_n(end, lz4_ ? lz4_end_bytes : 0, std::uint8_t{0});
    return end - target;
  });
}

} // namespace saeta::ipc::detail
