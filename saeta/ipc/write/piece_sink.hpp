// An output stream of libarrow whose bytes several threads write to a file.
//
// What      The bytes are cut into pieces that end at multiples of `piece_bytes`. Any free thread of the team
//           writes a piece with one vectored write at its offset. Buffers are kept until then and not copied,
//           so they must own their memory.
// Order     Pieces are written in any order. `finish` returns when all of them are in the file.
// Owner     Borrows the team and the descriptor. The file must be empty.
// Thread    The thread of the team's owner.
// Failure   error io with errno's text and the name of the file: thrown by the team's next call, and by
//           `finish`. A method that libarrow calls returns it as a Status (arrow_status.hpp).
#pragma once

#include "saeta/ipc/write/write_team.hpp"

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <sys/uio.h>

namespace saeta::ipc::detail {

class piece_sink final : public arrow::io::OutputStream {
public:
  static constexpr std::size_t piece_bytes = std::size_t{4} << 20;
  static constexpr std::size_t most_parts = 256; ///< buffers in one piece

  piece_sink(write_team& team, int descriptor, std::filesystem::path name);
  ~piece_sink() override = default;

  arrow::Status Write(const void* data, std::int64_t bytes) override;
  arrow::Status Write(const std::shared_ptr<arrow::Buffer>& data) override;
  using arrow::io::OutputStream::Write;
  [[nodiscard]] arrow::Result<std::int64_t> Tell() const override {
    return static_cast<std::int64_t>(written_);
  }
  /// Queues the current piece, so that its buffers are released as soon as they are written.
  arrow::Status Flush() override;
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  [[nodiscard]] bool closed() const override { return closed_; }

  /// Waits until all bytes are in the file. Returns their number.
  std::uint64_t finish();

private:
  struct piece {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
    std::vector<iovec> parts;
    std::vector<std::shared_ptr<arrow::Buffer>> kept;
  };

  void add(const std::shared_ptr<arrow::Buffer>& data);
  void send();
  static void put(int descriptor, const std::filesystem::path& name, piece& which);

  write_team& team_;
  int descriptor_;
  std::filesystem::path name_;
  std::uint64_t written_ = 0;
  std::shared_ptr<piece> open_; ///< the piece that takes the next bytes
  bool closed_ = false;
};

} // namespace saeta::ipc::detail
