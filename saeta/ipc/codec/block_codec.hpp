// Compression of one buffer by several threads.
//
// What      A buffer larger than `whole_below` is compressed in parallel blocks: LZ4 makes one frame of
//           independent blocks, which readers may also decode in parallel. ZSTD makes one frame per block,
//           since readers accept consecutive frames. Smaller buffers become one frame by one thread.
// Owner     `block_codec` borrows the pool.
// Thread    Any that may call `thread_pool::run`.
// Failure   error out_of_memory; the failure of the pool; budget_exceeded of `block`.
#pragma once

#include "saeta/budget/budget.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/ipc/codec/codecs.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace saeta::ipc::detail {

/// Ordinary host memory for compressed bytes, whose number is known only afterwards. It is charged while it
/// lives.
class packed_memory {
public:
  packed_memory(std::shared_ptr<budget> charged, std::size_t bytes);
  packed_memory(const packed_memory&) = delete;
  packed_memory& operator=(const packed_memory&) = delete;
  ~packed_memory();

  /// Frees all but the first `bytes` bytes.
  void shrink(std::size_t bytes) noexcept;
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {at_, bytes_}; }

private:
  std::shared_ptr<budget> charged_;
  std::byte* at_ = nullptr;
  std::size_t bytes_;
};

class block_codec {
public:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20; ///< of values; the largest LZ4 block size
  static constexpr std::size_t whole_below = std::size_t{16} << 20;

  /// @param kind   lz4 or zstd
  /// @param level  as in codecs.hpp
  block_codec(body_codec kind, int level, thread_pool& pool)
      : pool_(pool), lz4_(kind == body_codec::lz4), level_(level) {}

  [[nodiscard]] body_codec kind() const noexcept { return lz4_ ? body_codec::lz4 : body_codec::zstd; }
  /// The most bytes that `compress` makes, and its target must have.
  [[nodiscard]] std::size_t max_bytes(std::size_t bytes) const;
  /// Compresses a whole buffer. Returns the bytes written.
  [[nodiscard]] std::size_t compress(std::span<const std::byte> values, std::span<std::byte> target) const;
  /// Compresses one block of a buffer. The caller concatenates `front()`, the blocks in order and
  /// `end_bytes()`.
  /// Any thread.
  /// @param values  1 to `block_bytes` bytes.
  [[nodiscard]] std::shared_ptr<const packed_memory> block(std::span<const std::byte> values,
                                                           const std::shared_ptr<budget>& charged) const;
  [[nodiscard]] std::string_view front() const noexcept;
  [[nodiscard]] std::string_view end_bytes() const noexcept;

private:
  [[nodiscard]] std::size_t max_block_bytes(std::size_t bytes) const;
  /// Compresses one block with its header to `target`. Returns the bytes written.
  /// @param target  at least `max_block_bytes` of the values.
  [[nodiscard]] std::size_t compress_block(std::span<const std::byte> values,
                                           std::span<std::byte> target) const;

  thread_pool& pool_;
  bool lz4_;
  int level_;
};

} // namespace saeta::ipc::detail
