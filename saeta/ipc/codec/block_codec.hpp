// Compression of one buffer by several threads.
//
// What      A codec of libarrow. A buffer larger than `whole_below` is compressed in parallel blocks: LZ4
//           makes one frame of independent blocks, which readers may also decode in parallel. ZSTD makes one
//           frame per block, since readers accept consecutive frames. libarrow's codec compresses smaller
//           buffers.
// Owner     Borrows the team.
// Thread    Any that may call `write_team::run`.
// Failure   arrow::Status with the failure of the team (arrow_status.hpp).
#pragma once

#include "saeta/ipc/write/write_team.hpp"
#include "saeta/ipc/writer.hpp"

#include <arrow/type_fwd.h>
#include <arrow/util/compression.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace saeta::ipc::detail {

class block_codec final : public arrow::util::Codec {
public:
  static constexpr std::int64_t block_bytes = std::int64_t{4}
                                              << 20; ///< bytes of values; the largest LZ4 block size
  static constexpr std::int64_t whole_below = std::int64_t{16} << 20;

  block_codec(compression kind, write_team& team);
  ~block_codec() override = default;

  arrow::Result<std::int64_t> Compress(std::int64_t bytes, const std::uint8_t* values, std::int64_t room,
                                       std::uint8_t* target) override;
  std::int64_t MaxCompressedLen(std::int64_t bytes, const std::uint8_t* values) override;
  /// Compresses one block of a buffer. The caller concatenates `front()`, the blocks in order and
  /// `end_bytes()`.
  /// Any thread.
  /// @param bytes  1 to `block_bytes`.
  [[nodiscard]] std::shared_ptr<arrow::Buffer> block(std::int64_t bytes, const std::uint8_t* values,
                                                     arrow::MemoryPool* pool) const;
  [[nodiscard]] std::string_view front() const noexcept;
  [[nodiscard]] std::string_view end_bytes() const noexcept;
  arrow::Result<std::int64_t> Decompress(std::int64_t bytes, const std::uint8_t* compressed,
                                         std::int64_t room, std::uint8_t* target) override {
    return whole_->Decompress(bytes, compressed, room, target);
  }
  arrow::Result<std::shared_ptr<arrow::util::Compressor>> MakeCompressor() override {
    return whole_->MakeCompressor();
  }
  arrow::Result<std::shared_ptr<arrow::util::Decompressor>> MakeDecompressor() override {
    return whole_->MakeDecompressor();
  }
  [[nodiscard]] arrow::Compression::type compression_type() const override {
    return whole_->compression_type();
  }
  [[nodiscard]] int minimum_compression_level() const override { return whole_->minimum_compression_level(); }
  [[nodiscard]] int maximum_compression_level() const override { return whole_->maximum_compression_level(); }
  [[nodiscard]] int default_compression_level() const override { return whole_->default_compression_level(); }

private:
  [[nodiscard]] std::int64_t max_block_bytes(std::int64_t bytes = block_bytes) const;
  /// Compresses one block with its header to `target`. Returns the bytes written.
  /// @param room  bytes at `target`, at least `max_block_bytes(bytes)`.
  std::int64_t compress_block(std::int64_t bytes, const std::uint8_t* values, std::int64_t room,
                              std::uint8_t* target) const;

  write_team& team_;
  bool lz4_;
  std::unique_ptr<arrow::util::Codec> whole_;
  std::unique_ptr<arrow::util::Codec> block_; ///< LZ4 without a frame, or ZSTD
};

} // namespace saeta::ipc::detail
