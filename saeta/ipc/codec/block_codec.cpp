#include "saeta/ipc/codec/block_codec.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/codec/codecs.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

/// The header of a frame of independent blocks of at most 4 MiB, without checksums: magic number, flags,
/// block size class, and the second byte of the header's XXH32.
constexpr std::string_view lz4_head = "\x04\x22\x4D\x18\x60\x70\x73";
constexpr std::string_view lz4_end{"\0\0\0\0", 4}; ///< in place of the size of a further block
constexpr std::size_t lz4_size_bytes = 4;
constexpr std::uint32_t lz4_stored = 0x80000000U; ///< bit in a block's size: the block is not compressed

std::size_t blocks_of(std::size_t bytes) {
  return (bytes + block_codec::block_bytes - 1) / block_codec::block_bytes;
}

} // namespace

std::string_view block_codec::front() const noexcept { return lz4_ ? lz4_head : std::string_view(); }

std::string_view block_codec::end_bytes() const noexcept { return lz4_ ? lz4_end : std::string_view(); }

std::shared_ptr<const packed_memory> block_codec::block(std::span<const std::byte> values,
                                                        const std::shared_ptr<budget>& charged) const {
  auto memory = std::make_shared<packed_memory>(charged, max_block_bytes(values.size()));
  memory->shrink(compress_block(values, memory->bytes()));
  return memory;
}

std::size_t block_codec::max_block_bytes(std::size_t bytes) const {
  return lz4_ ? max_lz4_block_bytes(bytes) + lz4_size_bytes : max_zstd_frame_bytes(bytes);
}

std::size_t block_codec::max_bytes(std::size_t bytes) const {
  if (bytes <= whole_below) {
    return lz4_ ? max_lz4_frame_bytes(bytes) : max_zstd_frame_bytes(bytes);
  }
  return front().size() + blocks_of(bytes) * max_block_bytes(block_bytes) + end_bytes().size();
}

std::size_t block_codec::compress_block(std::span<const std::byte> values,
                                        std::span<std::byte> target) const {
  if (!lz4_) {
    return compress_zstd_frame(values, target, level_);
  }
  std::size_t result = compress_lz4_block(values, target.subspan(lz4_size_bytes), level_);
  auto size = static_cast<std::uint32_t>(result);
  if (result >= values.size()) {
    std::ranges::copy(values, target.begin() + lz4_size_bytes);
    result = values.size();
    size = static_cast<std::uint32_t>(result) | lz4_stored;
  }
  std::memcpy(target.data(), &size, sizeof(size)); // little-endian, like this machine
  return result + lz4_size_bytes;
}

std::size_t block_codec::compress(std::span<const std::byte> values, std::span<std::byte> target) const {
  if (values.size() <= whole_below) {
    return lz4_ ? compress_lz4_frame(values, target, level_) : compress_zstd_frame(values, target, level_);
  }
  const std::size_t step = max_block_bytes(block_bytes);
  const std::span<std::byte> body = target.subspan(front().size());
  std::vector<std::size_t> sizes(blocks_of(values.size()));
  pool_.run(sizes.size(), [&](std::size_t, std::size_t block) {
    const std::size_t first = block * block_bytes;
    sizes[block] = compress_block(values.subspan(first, std::min(block_bytes, values.size() - first)),
                                  body.subspan(block * step, step));
  });
  auto end = std::ranges::copy(std::as_bytes(std::span(front())), target.begin()).out;
  for (std::size_t block = 0; block < sizes.size(); ++block) {
    end = std::ranges::copy(body.subspan(block * step, sizes[block]), end).out;
  }
  end = std::ranges::copy(std::as_bytes(std::span(end_bytes())), end).out;
  return static_cast<std::size_t>(end - target.begin());
}

packed_memory::packed_memory(std::shared_ptr<budget> charged, std::size_t bytes)
    : charged_(std::move(charged)), bytes_(bytes) {
  if (auto refused = charged_->charge_or_refuse(bytes)) {
    throw error(*std::move(refused));
  }
  at_ = static_cast<std::byte*>(std::malloc(bytes));
  if (at_ == nullptr) {
    charged_->refund(bytes);
    throw error(errc::out_of_memory, concat("no host memory for ", bytes, " compressed bytes"));
  }
}

packed_memory::~packed_memory() {
  std::free(at_);
  charged_->refund(bytes_);
}

void packed_memory::shrink(std::size_t bytes) noexcept {
  if (void* const kept = std::realloc(at_, bytes)) { // without memory for it, the block keeps its size
    at_ = static_cast<std::byte*>(kept);
    charged_->refund(std::exchange(bytes_, bytes) - bytes);
  }
}

} // namespace saeta::ipc::detail
