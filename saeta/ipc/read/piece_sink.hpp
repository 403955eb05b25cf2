// An output stream of libarrow that threads put into a file, each piece at its place.
//
// What      What is written becomes pieces of the file, which end at multiples of `piece_bytes`; each is one vectored write by
//           whatever thread of the team is free. Buffers are kept until then and not copied, so they
//           own their memory.
// Order     None among the pieces. `finish` returns when all of them are in the file.
// Owner     Borrows the team and the descriptor, whose file is empty.
// Thread    That of the team's owner.
// Failure   error io with errno's text and the name of the file: thrown by the team's next call, and by `finish`. A method that
//           libarrow calls returns it as a Status (arrow_status.hpp).
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
  static constexpr std::size_t most_parts = 256; ///< buffers of one piece

  piece_sink(write_team& team, int descriptor, std::filesystem::path name);
  ~piece_sink() override = default;

  arrow::Status Write(const void* data, std::int64_t bytes) override;
  arrow::Status Write(const std::shared_ptr<arrow::Buffer>& data) override;
  using arrow::io::OutputStream::Write;
  [[nodiscard]] arrow::Result<std::int64_t> Tell() const override {
    return static_cast<std::int64_t>(written_);
  }
  /// Ends the piece that has begun, so that its buffers are kept no longer than it takes to write them.
  arrow::Status Flush() override;
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  [[nodiscard]] bool closed() const override { return closed_; }

  /// Waits until everything is in the file. Returns its bytes.
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
  std::shared_ptr<piece> open_; ///< the piece that what comes next belongs to
  bool closed_ = false;
};

} // namespace saeta::ipc::detail
