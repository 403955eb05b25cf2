// The message of a batch that comes to the host window by window (transfer/column_stream.hpp).
//
// What      Plain: windows are brought while the message is written, each while threads put the one before into the file; there are
//           at most `most_windows` of them. Compressed: sizes stand in front of the body, so all of it is compressed before the
//           message is written; each window is brought while threads compress the one before, two windows at a time.
// Owner     Borrows the messages, the team and the pool, which is charged for what is compressed.
// Thread    That of the team's owner.
// Failure   As the download and the pool; error format where libarrow's message is not what was expected.
#pragma once

#include "saeta/ipc/codec/block_codec.hpp"
#include "saeta/ipc/write/message_writer.hpp"
#include "saeta/ipc/write/write_team.hpp"
#include "saeta/transfer/column_stream.hpp"

#include <arrow/ipc/writer.h>
#include <arrow/type_fwd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace saeta::ipc::detail {

class streamed_messages {
public:
  static constexpr std::size_t most_windows = 3;

  /// @param codec  null: bodies are plain.
  streamed_messages(const message_writer& messages, write_team& team, std::shared_ptr<block_codec> codec,
                    arrow::MemoryPool* pool)
      : messages_(messages), team_(team), codec_(std::move(codec)), pool_(pool) {}

  /// To be written to a `streamed_sink`.
  /// @param bytes  where the buffers of the batch are, as far as they are not in memory. Null: all are, and blocks of all of them
  ///               are compressed side by side.
  [[nodiscard]] arrow::ipc::IpcPayload encode(const arrow::RecordBatch& rows, std::int64_t number,
                                              const std::shared_ptr<const column_stream>& bytes) const;

private:
  [[nodiscard]] arrow::ipc::IpcPayload plain(const arrow::RecordBatch& rows, std::int64_t number,
                                             const std::shared_ptr<const column_stream>& bytes) const;
  [[nodiscard]] arrow::ipc::IpcPayload compressed(const arrow::RecordBatch& rows, std::int64_t number,
                                                  const column_stream* bytes) const;

  const message_writer& messages_;
  write_team& team_;
  std::shared_ptr<block_codec> codec_;
  arrow::MemoryPool* pool_;
  std::shared_ptr<std::atomic<std::size_t>> alive_ =
      std::make_shared<std::atomic<std::size_t>>(0); ///< windows of plain messages
};

} // namespace saeta::ipc::detail
