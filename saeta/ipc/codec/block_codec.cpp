#include "saeta/ipc/codec/block_codec.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/codec/codecs.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace saeta::ipc::detail {
namespace {

/// The header of a frame of independent blocks of at most 4 MiB, without checksums: magic number, flags,
/// block size class, and the second byte of the header's XXH32.
constexpr std::string_view lz4_head = "\x04\x22\x4D\x18\x60\x70\x73";
constexpr std::string_view lz4_end{"\0\0\0\0", 4}; ///< in place of the size of a further block
constexpr std::size_t lz4_size_bytes = 4;
constexpr std::uint32_t lz4_stored = 0x80000000U; ///< bit in a block's size: the block is not compressed

} // namespace

std::string_view block_codec::front() const noexcept { return lz4_ ? lz4_head : std::string_view(); }

std::string_view block_codec::end_bytes() const noexcept { return lz4_ ? lz4_end : std::string_view(); }

std::shared_ptr<const packed_memory> block_codec::whole(std::span<const std::byte> values,
                                                        const std::shared_ptr<budget>& charged) const {
  const auto claimed = static_cast<std::int64_t>(values.size());
  const std::size_t most = lz4_ ? max_lz4_frame_bytes(values.size()) : max_zstd_frame_bytes(values.size());
  auto memory = std::make_shared<packed_memory>(charged, sizeof claimed + most);
  const std::span<std::byte> frame = memory->bytes().subspan(sizeof claimed);
  std::memcpy(memory->bytes().data(), &claimed, sizeof claimed); // little-endian, like this machine
  memory->shrink(sizeof claimed + (lz4_ ? compress_lz4_frame(values, frame, level_)
                                        : compress_zstd_frame(values, frame, level_)));
  return memory;
}

std::shared_ptr<const packed_memory> block_codec::block(std::span<const std::byte> values,
                                                        const std::shared_ptr<budget>& charged) const {
  if (!lz4_) {
    auto frame = std::make_shared<packed_memory>(charged, max_zstd_frame_bytes(values.size()));
    frame->shrink(compress_zstd_frame(values, frame->bytes(), level_));
    return frame;
  }
  auto memory = std::make_shared<packed_memory>(charged, max_lz4_block_bytes(values.size()) + lz4_size_bytes);
  const std::span<std::byte> target = memory->bytes().subspan(lz4_size_bytes);
  std::size_t bytes = compress_lz4_block(values, target, level_);
  auto size = static_cast<std::uint32_t>(bytes);
  if (bytes >= values.size()) {
    std::ranges::copy(values, target.begin());
    bytes = values.size();
    size = static_cast<std::uint32_t>(bytes) | lz4_stored;
  }
  std::memcpy(memory->bytes().data(), &size, sizeof size); // little-endian
  memory->shrink(lz4_size_bytes + bytes);
  return memory;
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
