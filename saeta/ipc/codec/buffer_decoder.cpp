#include "saeta/ipc/codec/buffer_decoder.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/codec/codecs.hpp"

#include <algorithm>
#include <cstring>

namespace saeta::ipc::detail {
namespace {

/// Compressed bytes per read: few enough that they are still in the processor's cache when they are decoded.
/// Reading whole buffers first made LZ4 a third slower. It made ZSTD no faster, although ZSTD then needs no
/// window of its own.
constexpr std::size_t most_input = 128u << 10;
constexpr std::size_t least_input = 64u << 10;
constexpr std::size_t passed_bytes = 64u << 10;

} // namespace

buffer_decoder::buffer_decoder(const scatter_source& from) : from_(from) {}
buffer_decoder::~buffer_decoder() = default;

void buffer_decoder::begin(const packed_buffer& of, seen_borders* seen) {
  of_ = of;
  seen_ = of.width == 0 ? nullptr : seen;
  position_ = 0;
  fetched_ = 0;
  left_ = {};
  decoder_ = nullptr;
  if (of.codec == body_codec::none) {
    return;
  }
  const bool lz4 = of.codec == body_codec::lz4;
  auto& kept = decoders_[lz4 ? 0 : 1];
  if (kept == nullptr) {
    kept = lz4 ? make_lz4_decoder() : make_zstd_decoder();
  } else {
    kept->reset();
  }
  decoder_ = kept.get();
}

/// Small buffers lie side by side, so the bytes that follow are read as well.
void buffer_decoder::refill() {
  const auto bytes =
      static_cast<std::size_t>(std::min<std::uint64_t>(of_.packed_bytes - fetched_, most_input));
  const std::uint64_t at = of_.source + fetched_;
  if (at < held_at_ || at - held_at_ > held_ || bytes > held_ - (at - held_at_)) {
    const auto ahead = static_cast<std::size_t>(
        std::max<std::uint64_t>(bytes, std::min<std::uint64_t>(least_input, from_.bytes - at)));
    if (room_ < ahead) {
      input_ = std::make_unique_for_overwrite<std::byte[]>(ahead);
      room_ = ahead;
    }
    held_ = 0; // the read may fail
    from_.read(at, {input_.get(), ahead});
    held_at_ = at;
    held_ = ahead;
  }
  fetched_ += bytes;
  left_ = {input_.get() + (at - held_at_), bytes};
}

/// Returns the number of decoded bytes. It may be 0 while input is consumed.
std::size_t buffer_decoder::decode(std::span<std::byte> target) {
  if (left_.empty() && fetched_ != of_.packed_bytes) {
    refill();
  }
  const frame_decoder::part done = decoder_->decode(left_, target);
  if (done.read == 0 && done.made == 0) {
    throw error(errc::format, concat("its ", of_.packed_bytes, " bytes of ", name_of(of_.codec),
                                     " decode to ", position_, " bytes, the buffer claims ", of_.bytes));
  }
  left_ = left_.subspan(done.read);
  return done.made;
}

void buffer_decoder::note(std::span<const std::byte> bytes) const {
  const auto take_number = [&](std::uint64_t at, std::int64_t& number) {
    // A number may be split between two calls.
    for (std::uint64_t i = 0; i < of_.width; ++i) {
      if (at + i >= position_ && at + i - position_ < bytes.size()) {
        std::memcpy(reinterpret_cast<std::byte*>(&number) + i, &bytes[at + i - position_], 1);
      }
    }
  };
  if (seen_ != nullptr) {
    take_number(of_.first_at, seen_->first);
    take_number(of_.last_at, seen_->last);
  }
}

void buffer_decoder::read(std::span<std::byte> target) {
  if (decoder_ == nullptr) {
    from_.read(of_.source + position_, target);
    note(target);
    position_ += target.size();
    return;
  }
  while (!target.empty()) {
    const std::size_t made = decode(target);
    note(target.first(made));
    position_ += made;
    target = target.subspan(made);
  }
}

void buffer_decoder::skip(std::uint64_t bytes) {
  if (decoder_ == nullptr && seen_ == nullptr) {
    position_ += bytes;
    return;
  }
  if (passed_ == nullptr && bytes != 0) {
    passed_ = std::make_unique_for_overwrite<std::byte[]>(passed_bytes);
  }
  while (bytes != 0) {
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, passed_bytes));
    read({passed_.get(), some});
    bytes -= some;
  }
}

void buffer_decoder::finish() {
  skip(of_.bytes - position_);
  // The remaining input may only end the frames. It must not decode to further bytes.
  while (decoder_ != nullptr && (!decoder_->finished() || !left_.empty() || fetched_ != of_.packed_bytes)) {
    std::byte more{};
    if (decode({&more, 1}) != 0) {
      throw error(errc::format,
                  concat("its ", of_.packed_bytes, " bytes of ", name_of(of_.codec),
                         " decode to more than the ", of_.bytes, " bytes that the buffer claims"));
    }
  }
}

} // namespace saeta::ipc::detail
