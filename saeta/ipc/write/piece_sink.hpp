// A target whose bytes several threads write to a file.
//
// What      The bytes are cut into pieces that end at multiples of `piece_bytes`. Any free thread of the team
//           writes a piece with one vectored write at its offset. Bytes are kept until then and not copied.
// Order     Pieces are written in any order. `finish` returns when all of them are in the file.
// Owner     Borrows the team and the descriptor. The file must be empty.
// Thread    The thread of the team's owner.
// Failure   error io with errno's text and the name of the file: thrown by the team's next call, and by
//           `finish`.
#pragma once

#include "saeta/ipc/write/byte_target.hpp"
#include "saeta/ipc/write/write_team.hpp"

#include <filesystem>
#include <vector>

#include <sys/uio.h>

namespace saeta::ipc::detail {

class piece_sink final : public byte_target {
public:
  static constexpr std::size_t piece_bytes = std::size_t{4} << 20;
  static constexpr std::size_t most_parts = 256; ///< parts of one piece

  piece_sink(write_team& team, int descriptor, std::filesystem::path name);

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

  write_team& team_;
  int descriptor_;
  std::filesystem::path name_;
  std::uint64_t taken_ = 0;
  std::shared_ptr<piece> open_; ///< the piece that takes the next bytes
};

} // namespace saeta::ipc::detail
