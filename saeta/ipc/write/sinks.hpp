// Where the bytes of a file or stream go, in order.
//
// Owner     A target keeps the owner of bytes until they are written.
// Thread    The writing thread.
#pragma once

#include "saeta/executor/thread_pool.hpp"
#include "saeta/ipc/writer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <sys/uio.h>

namespace saeta::ipc::detail {

class byte_target {
public:
  byte_target() = default;
  byte_target(const byte_target&) = delete;
  byte_target& operator=(const byte_target&) = delete;
  virtual ~byte_target() = default;

  /// @param owner  of the bytes; null if they live as long as the program
  virtual void write(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner) = 0;
  /// Passes on what was gathered, so that its owners are released as soon as it is written.
  virtual void flush() = 0;
  /// Waits until everything is written. Returns the number of all bytes.
  virtual std::uint64_t finish() = 0;
  /// Bytes that were taken.
  [[nodiscard]] virtual std::uint64_t taken() const noexcept = 0;
};

/// Hands the bytes to a function, in order, on the writing thread. Small writes are gathered; a call passes
/// at most `piece_bytes`. Borrows the function, whose exceptions come out.
class ordered_sink final : public byte_target {
public:
  static constexpr std::size_t piece_bytes = std::size_t{4} << 20;
  static constexpr std::size_t gathered_bytes = std::size_t{64} << 10; ///< smaller writes are gathered

  explicit ordered_sink(const byte_sink& target) : target_(target) {}

  void write(std::span<const std::byte> bytes, const std::shared_ptr<const void>&) override {
    taken_ += bytes.size();
    if (gathered_.size() + bytes.size() > gathered_bytes) {
      flush();
    }
    if (bytes.size() < gathered_bytes) {
      gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
      return;
    }
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(piece_bytes, bytes.size()))) {
      target_(bytes.first(std::min(piece_bytes, bytes.size())));
    }
  }
  void flush() override {
    if (!gathered_.empty()) {
      target_(gathered_);
      gathered_.clear();
    }
  }
  std::uint64_t finish() override {
    flush();
    return taken_;
  }
  [[nodiscard]] std::uint64_t taken() const noexcept override { return taken_; }

private:
  const byte_sink& target_;
  std::vector<std::byte> gathered_;
  std::uint64_t taken_ = 0;
};

/// Lets several threads write the bytes to a file. They are cut into pieces that end at multiples of
/// `piece_bytes`. Any free thread of the pool writes a piece with one vectored write at its offset; the bytes
/// are kept until then and not copied. Borrows the pool and the descriptor of an empty file, on the thread of
/// the pool's owner. Failures, io with errno's text and the name of the file, come out of the pool's next
/// call and of `finish`, which returns when all pieces are in the file.
class piece_sink final : public byte_target {
public:
  static constexpr std::size_t piece_bytes = std::size_t{4} << 20;
  static constexpr std::size_t most_parts = 256; ///< parts of one piece

  piece_sink(thread_pool& pool, int descriptor, std::filesystem::path name);

  void write(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner) override;
  /// Queues the current piece.
  void flush() override;
  std::uint64_t finish() override;
  [[nodiscard]] std::uint64_t taken() const noexcept override { return taken_; }

private:
  struct piece {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
    std::vector<iovec> parts;
    std::vector<std::shared_ptr<const void>> kept;
  };

  static void put(int descriptor, const std::filesystem::path& name, piece& which);

  thread_pool& pool_;
  int descriptor_;
  std::filesystem::path name_;
  std::uint64_t taken_ = 0;
  std::shared_ptr<piece> open_; ///< the piece that takes the next bytes
};

} // namespace saeta::ipc::detail
