// The message of a batch that is downloaded window by window (transfer/column_stream.hpp).
//
// What      Uncompressed: windows are downloaded while the message is written, each while threads write the
//           previous one to the file. At most `most_windows` are in memory. Compressed: sizes precede the
//           body, so the whole body is compressed before the message is written. Each window is downloaded
//           while threads compress the previous one; two windows are in memory.
// Owner     Borrows the messages and the team. Compressed bytes are charged as the messages' are.
// Thread    The thread of the team's owner.
// Failure   The errors of the download, and of the budget.
#pragma once

#include "saeta/ipc/codec/block_codec.hpp"
#include "saeta/ipc/write/message_writer.hpp"
#include "saeta/ipc/write/write_team.hpp"
#include "saeta/transfer/column_stream.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace saeta::ipc::detail {

class streamed_messages {
public:
  static constexpr std::size_t most_windows = 3;

  /// @param codec  null: bodies are not compressed.
  streamed_messages(const message_writer& messages, write_team& team,
                    std::shared_ptr<const block_codec> codec, std::shared_ptr<budget> charged)
      : messages_(messages), team_(team), codec_(std::move(codec)), charged_(std::move(charged)) {}

  /// Encodes a message.
  /// @param bytes  the stream of buffers that are still on the device. Null: all are in memory. Their blocks
  ///               are then compressed in parallel.
  [[nodiscard]] encoded_rows encode(const host_batch& rows, std::int64_t number,
                                    const std::shared_ptr<const column_stream>& bytes) const;

private:
  void stream(encoded_rows& of, const std::shared_ptr<const column_stream>& bytes) const;
  void compress(encoded_rows& of, const column_stream* bytes) const;

  const message_writer& messages_;
  write_team& team_;
  std::shared_ptr<const block_codec> codec_;
  std::shared_ptr<budget> charged_;
  std::shared_ptr<std::atomic<std::size_t>> alive_ =
      std::make_shared<std::atomic<std::size_t>>(0); ///< live windows of uncompressed messages
};

} // namespace saeta::ipc::detail
