// The codec that libarrow's writer is given.
//
// What      libarrow asks a codec for its kind and for compressed buffers, and nothing else. Buffers are
//           compressed by block_codec.hpp, or left empty in messages whose buffers are replaced afterwards.
// Thread    Any that may call `write_team::run`.
// Failure   arrow::Status with the failure of the block codec (arrow_status.hpp).
#pragma once

#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/codec/block_codec.hpp"

#include <arrow/util/compression.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace saeta::ipc::detail {

class writer_codec final : public arrow::util::Codec {
public:
  enum class output : std::uint8_t { compressed, empty };

  writer_codec(std::shared_ptr<const block_codec> by, output made) : by_(std::move(by)), made_(made) {}
  ~writer_codec() override = default;

  arrow::Result<std::int64_t> Compress(std::int64_t bytes, const std::uint8_t* values, std::int64_t room,
                                       std::uint8_t* target) override {
    if (made_ == output::empty) {
      return 0;
    }
    return run_guarded([&]() -> arrow::Result<std::int64_t> {
      return static_cast<std::int64_t>(
          by_->compress(std::as_bytes(std::span(values, static_cast<std::size_t>(bytes))),
                        std::as_writable_bytes(std::span(target, static_cast<std::size_t>(room)))));
    });
  }
  std::int64_t MaxCompressedLen(std::int64_t bytes, const std::uint8_t* /*values*/) override {
    return made_ == output::empty
               ? 0
               : static_cast<std::int64_t>(by_->max_bytes(static_cast<std::size_t>(bytes)));
  }
  [[nodiscard]] arrow::Compression::type compression_type() const override {
    return by_->kind() == compression::lz4 ? arrow::Compression::LZ4_FRAME : arrow::Compression::ZSTD;
  }

  arrow::Result<std::int64_t> Decompress(std::int64_t, const std::uint8_t*, std::int64_t,
                                         std::uint8_t*) override {
    return unused();
  }
  arrow::Result<std::shared_ptr<arrow::util::Compressor>> MakeCompressor() override { return unused(); }
  arrow::Result<std::shared_ptr<arrow::util::Decompressor>> MakeDecompressor() override { return unused(); }
  [[nodiscard]] int minimum_compression_level() const override { return 1; }
  [[nodiscard]] int maximum_compression_level() const override { return 1; }
  [[nodiscard]] int default_compression_level() const override { return 1; }

private:
  static arrow::Status unused() { return arrow::Status::NotImplemented("a codec of messages"); }

  std::shared_ptr<const block_codec> by_;
  output made_;
};

} // namespace saeta::ipc::detail
