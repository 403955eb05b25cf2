#include "saeta/ipc/codec/codecs.hpp"

#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"

#include <lz4.h>
#include <lz4frame.h>
#include <lz4hc.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace saeta::ipc::detail {
namespace {

/// What liblz4 allocates for frames of these blocks: one block of input, one of output, and the 64 KiB before
/// it twice.
constexpr std::uint64_t lz4_memory(std::uint64_t block) { return 2 * block + (std::uint64_t{128} << 10); }

/// @param id  the size class in the header of a frame: 4 to 7, or 0 for the smallest
constexpr std::uint64_t lz4_block_bytes(std::uint64_t id) {
  return std::uint64_t{1} << (8 + 2 * (id == 0 ? 4 : id));
}

/// The size that a function of liblz4 returned.
std::size_t require_size(std::size_t size, std::size_t bytes, std::size_t room) {
  if (size == 0 || LZ4F_isError(size) != 0) {
    throw error(errc::invalid_argument,
                concat("lz4: ", bytes, " bytes do not fit in the ", room, " bytes of the target"));
  }
  return size;
}

class lz4_decoder final : public frame_decoder {
public:
  lz4_decoder() {
    LZ4F_dctx* dctx = nullptr;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&dctx, LZ4F_VERSION)) != 0) {
      throw error(errc::out_of_memory, "lz4: no memory for a context");
    }
    context_.reset(dctx);
  }
  ~lz4_decoder() override = default;

  std::uint64_t memory() override {
    LZ4F_frameInfo_t info{};
    const std::byte none{};
    std::size_t no_bytes = 0;
    if (LZ4F_isError(LZ4F_getFrameInfo(context_.get(), &info, &none, &no_bytes)) == 0) { // within a frame
      memory_ = std::max(memory_, lz4_memory(lz4_block_bytes(info.blockSizeID)));
    }
    return memory_;
  }

private:
  struct free_context {
    void operator()(LZ4F_dctx* context) const noexcept { LZ4F_freeDecompressionContext(context); }
  };

  part step(std::span<const std::byte> input, std::span<std::byte> target, bool& ended) override {
    const std::byte none{}; // liblz4 adds to the address, which must not be null
    const std::byte* const from = input.empty() ? &none : input.data();
    part done{input.size(), target.size()};
    const std::size_t left =
        LZ4F_decompress(context_.get(), target.data(), &done.made, from, &done.read, nullptr);
    if (LZ4F_isError(left) != 0) {
      const std::string_view name = LZ4F_getErrorName(left); // the codes are not in the stable interface
      refuse(name == "ERROR_allocation_failed", concat("lz4: ", name));
    }
    ended = left == 0;
    return done;
  }
  void restart() override { LZ4F_resetDecompressionContext(context_.get()); }

  std::unique_ptr<LZ4F_dctx, free_context> context_;
  std::uint64_t memory_ = 0;
};

constexpr int fastest_zstd = 1; ///< as pyarrow writes: higher levels take several times as long

bool is_no_memory(std::size_t result) { return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation; }

std::string reason_of(std::size_t result) {
  const ZSTD_ErrorCode code = ZSTD_getErrorCode(result);
  return concat("zstd: ", ZSTD_getErrorName(result), " (error ", static_cast<int>(code),
                code == ZSTD_error_frameParameter_windowTooLarge ? ": a window of more than 128 MiB)" : ")");
}

/// Keeps the largest window that libzstd allows by default.
class zstd_decoder final : public frame_decoder {
public:
  zstd_decoder() : context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) {
      throw error(errc::out_of_memory, "zstd: no memory for a context");
    }
  }
  ~zstd_decoder() override = default;

  std::uint64_t memory() override { return ZSTD_sizeof_DCtx(context_.get()); }

private:
  struct free_context {
    void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
  };

  part step(std::span<const std::byte> input, std::span<std::byte> target, bool& ended) override {
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer out{target.data(), target.size(), 0};
    const std::size_t left = ZSTD_decompressStream(context_.get(), &out, &in);
    if (ZSTD_isError(left) != 0) {
      refuse(is_no_memory(left), reason_of(left));
    }
    ended = left == 0;
    return {in.pos, out.pos};
  }
  void restart() override { ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only); }

  std::unique_ptr<ZSTD_DCtx, free_context> context_;
};

} // namespace

void frame_decoder::reset() {
  restart();
  read_ = 0;
  made_ = 0;
  finished_ = false;
}

frame_decoder::part frame_decoder::decode(std::span<const std::byte> input, std::span<std::byte> target) {
  bool ended = false;
  const part done = step(input, target, ended);
  finished_ = ended || (finished_ && done.read == 0 && done.made == 0);
  read_ += done.read;
  made_ += done.made;
  return done;
}

void frame_decoder::refuse(bool no_memory, std::string_view reason) const {
  throw error(no_memory ? errc::out_of_memory : errc::format,
              concat(reason, ", after ", read_, " bytes that decode to ", made_));
}

std::size_t max_lz4_block_bytes(std::size_t bytes) {
  return static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(bytes)));
}

std::size_t compress_lz4_block(std::span<const std::byte> values, std::span<std::byte> target, int level) {
  const auto* const from = reinterpret_cast<const char*>(values.data());
  auto* const to = reinterpret_cast<char*>(target.data());
  const auto [size, room] = std::pair(static_cast<int>(values.size()), static_cast<int>(target.size()));
  const int bytes = level < LZ4HC_CLEVEL_MIN ? LZ4_compress_default(from, to, size, room)
                                             : LZ4_compress_HC(from, to, size, room, level);
  return require_size(static_cast<std::size_t>(bytes), values.size(), target.size());
}

std::size_t max_lz4_frame_bytes(std::size_t bytes) { return LZ4F_compressFrameBound(bytes, nullptr); }

std::size_t compress_lz4_frame(std::span<const std::byte> values, std::span<std::byte> target, int level) {
  LZ4F_preferences_t preferences{};
  preferences.compressionLevel = level;
  return require_size(
      LZ4F_compressFrame(target.data(), target.size(), values.data(), values.size(), &preferences),
      values.size(), target.size());
}

std::unique_ptr<frame_decoder> make_lz4_decoder() { return std::make_unique<lz4_decoder>(); }

std::size_t max_zstd_frame_bytes(std::size_t bytes) { return ZSTD_compressBound(bytes); }

std::size_t compress_zstd_frame(std::span<const std::byte> values, std::span<std::byte> target, int level) {
  const std::size_t result = ZSTD_compress(target.data(), target.size(), values.data(), values.size(),
                                           std::max(level, fastest_zstd));
  if (ZSTD_isError(result) != 0) {
    throw error(is_no_memory(result) ? errc::out_of_memory : errc::invalid_argument,
                concat(reason_of(result), " for ", values.size(), " bytes with ", target.size(), " of room"));
  }
  return result;
}

std::unique_ptr<frame_decoder> make_zstd_decoder() { return std::make_unique<zstd_decoder>(); }

namespace {

/// Reads consecutive little-endian numbers. `ended` is true once there were too few bytes.
class walker {
public:
  walker(std::uint64_t bytes, const range_reader& read) : bytes_(bytes), read_(read) {}

  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    const std::uint64_t at = at_;
    if (skip(bytes)) {
      std::memcpy(&value, read_(at, bytes).data(), bytes);
    }
    return value;
  }
  bool skip(std::uint64_t bytes) {
    ended_ = ended_ || bytes > bytes_ - at_;
    at_ = ended_ ? bytes_ : at_ + bytes;
    return !ended_;
  }
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  [[nodiscard]] bool empty() const noexcept { return at_ == bytes_; }

private:
  std::uint64_t bytes_;
  const range_reader& read_;
  std::uint64_t at_ = 0;
  bool ended_ = false;
};

constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();

/// Decoded bytes per compressed byte that a buffer may claim unchecked. A smaller false claim costs no more
/// memory than a few files of that size.
constexpr std::uint64_t modest_expansion = 4;

constexpr std::uint64_t lz4_magic = 0x184D2204;
constexpr std::uint64_t zstd_magic = 0xFD2FB528;

bool is_skippable(std::uint64_t magic) { return (magic & 0xFFFFFFF0) == 0x184D2A50; }

bool bit(std::uint64_t of, int number) { return (of >> number & 1) != 0; }

/// Returns the bound of one frame. `from` stands behind the magic number.
std::uint64_t lz4_frame(walker& from) {
  constexpr std::uint64_t most_expansion = 255;
  const std::uint64_t flags = from.number(1);
  const std::uint64_t largest = lz4_block_bytes(from.number(1) >> 4 & 7);
  const std::uint64_t content = bit(flags, 3) ? from.number(8) : unknown;
  from.skip((bit(flags, 0) ? 4U : 0U) + 1U); // dictionary id and header checksum
  std::uint64_t sum = 0;
  while (!from.ended()) {
    const std::uint64_t head = from.number(4);
    const std::uint64_t size = head & 0x7FFFFFFF;
    if (size == 0) {
      break;
    }
    from.skip(size + (bit(flags, 4) ? 4U : 0U));
    sum += bit(head, 31) ? size : std::min(largest, most_expansion * size);
  }
  from.skip(bit(flags, 2) ? 4U : 0U);
  return std::min(sum, content);
}

constexpr std::uint64_t zstd_block = std::uint64_t{1} << 17; ///< the largest one

struct zstd_header {
  std::uint64_t content; ///< decoded bytes, or `unknown`
  std::uint64_t window;
  bool checksum;
};

/// `from` stands behind the magic number.
zstd_header read_zstd_header(walker& from) {
  const std::uint64_t flags = from.number(1);
  const bool single = bit(flags, 5);
  const std::uint64_t window = single ? 0 : from.number(1);
  from.skip(1U << (flags & 3) >> 1); // dictionary id
  const std::uint64_t width = flags >> 6;
  const std::uint64_t content = width == 0 ? (single ? from.number(1) : unknown)
                                           : from.number(std::size_t{1} << width) + (width == 1 ? 256U : 0U);
  const std::uint64_t power = std::uint64_t{1} << (10 + (window >> 3));
  return {content, single ? content : power + power / 8 * (window & 7), bit(flags, 2)};
}

std::uint64_t zstd_frame(walker& from) {
  const zstd_header header = read_zstd_header(from);
  std::uint64_t sum = 0;
  bool last = false;
  while (!last && !from.ended()) {
    const std::uint64_t head = from.number(3);
    const std::uint64_t size = head >> 3;
    const std::uint64_t kind = head >> 1 & 3;
    last = bit(head, 0);
    from.skip(kind == 1 ? 1 : size);
    sum += kind == 2 ? zstd_block : size;
  }
  from.skip(header.checksum ? 4U : 0U);
  return std::min(sum, header.content);
}

} // namespace

std::uint64_t decoder_memory(body_codec codec, std::uint64_t bytes, const range_reader& read) {
  constexpr std::uint64_t zstd_context = std::uint64_t{256} << 10;
  constexpr std::uint64_t zstd_largest = std::uint64_t{128} << 20; // larger windows are refused
  walker from(bytes, read);
  const std::uint64_t magic = from.number(4);
  if (codec == body_codec::zstd && magic == zstd_magic) {
    const std::uint64_t window = std::min(read_zstd_header(from).window, zstd_largest);
    return zstd_context + window + 2 * zstd_block;
  }
  if (codec == body_codec::lz4 && magic == lz4_magic) {
    from.skip(1);
    return lz4_memory(lz4_block_bytes(from.number(1) >> 4 & 7));
  }
  return 0;
}

std::uint64_t max_decoded_bytes(std::string_view codec, std::span<const std::byte> compressed) {
  return max_decoded_bytes(codec, compressed.size(), [&](std::uint64_t at, std::size_t bytes) {
    return compressed.subspan(at, bytes);
  });
}

std::uint64_t max_decoded_bytes(std::string_view codec, std::uint64_t bytes, const range_reader& read) {
  const bool lz4 = codec == "lz4";
  const std::uint64_t magic = lz4 ? lz4_magic : zstd_magic;
  walker from(bytes, read);
  std::uint64_t sum = 0;
  while (!from.empty()) {
    const std::uint64_t word = from.number(4);
    if (word == magic) {
      sum += lz4 ? lz4_frame(from) : zstd_frame(from);
    } else if (is_skippable(word)) {
      from.skip(from.number(4));
    } else {
      break;
    }
  }
  return sum;
}

packed_claim read_claim(std::size_t number, body_codec codec, std::uint64_t length,
                        const range_reader& read) {
  std::int64_t claimed = 0;
  if (length < sizeof claimed) {
    throw error(errc::format, concat("buffer ", number, " has ", length,
                                     " bytes, a compressed one begins with the 8 bytes of its size"));
  }
  std::memcpy(&claimed, read(0, sizeof claimed).data(), sizeof claimed);
  const std::uint64_t packed = length - sizeof claimed;
  if (claimed < -1) {
    throw error(errc::format, concat("buffer ", number, " claims ", claimed, " bytes when decoded"));
  }
  if (claimed == -1) {
    return {body_codec::none, packed, packed};
  }
  const packed_claim claim{codec, static_cast<std::uint64_t>(claimed), packed};
  if (claim.bytes / modest_expansion > packed) {
    const std::uint64_t most =
        max_decoded_bytes(name_of(codec), packed, [&](std::uint64_t at, std::size_t bytes) {
          return read(sizeof claimed + at, bytes);
        });
    if (claim.bytes > most) {
      throw error(errc::format, concat("buffer ", number, " claims ", claimed, " bytes when decoded, its ",
                                       packed, " bytes of ", name_of(codec), " decode to at most ", most));
    }
  }
  return claim;
}
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
