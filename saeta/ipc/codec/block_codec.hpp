// Compression of one buffer, whose blocks several threads may compress.
//
// What      A buffer of more than one block becomes one LZ4 frame of independent blocks, which readers may also
//           decode in parallel, or one ZSTD frame per block, since readers accept consecutive frames. A smaller
//           one becomes one frame.
// Thread    Any.
// Failure   error out_of_memory, budget_exceeded.
#pragma once

#include "saeta/budget/budget.hpp"
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

  /// @param kind   lz4 or zstd
  /// @param level  as in codecs.hpp
  block_codec(body_codec kind, int level) : lz4_(kind == body_codec::lz4), level_(level) {}

  [[nodiscard]] body_codec kind() const noexcept { return lz4_ ? body_codec::lz4 : body_codec::zstd; }
  /// Compresses a whole buffer: the number of its bytes, as bodies have it, and one frame.
  /// @param values  1 to `block_bytes` bytes.
  [[nodiscard]] std::shared_ptr<const packed_memory> whole(std::span<const std::byte> values,
                                                           const std::shared_ptr<budget>& charged) const;
  /// Compresses one block of a buffer. The caller concatenates `front()`, the blocks in order and
  /// `end_bytes()`.
  /// @param values  1 to `block_bytes` bytes.
  [[nodiscard]] std::shared_ptr<const packed_memory> block(std::span<const std::byte> values,
                                                           const std::shared_ptr<budget>& charged) const;
  [[nodiscard]] std::string_view front() const noexcept;
  [[nodiscard]] std::string_view end_bytes() const noexcept;

private:
  bool lz4_;
  int level_;
};

} // namespace saeta::ipc::detail
