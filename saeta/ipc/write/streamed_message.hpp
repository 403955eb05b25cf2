// The message of a batch that is downloaded window by window (transfer/column_stream.hpp).
//
// What      Uncompressed: windows are downloaded while the message is written, each while threads write the
//           previous one to the file. At most `most_windows` are in memory. Compressed: sizes precede the
//           body, so the whole body is compressed before the message is written. Each window is downloaded
//           while threads compress the previous one; two windows are in memory.
// Owner     Borrows the messages, the team and the pool. Compressed bytes are allocated from the pool.
// Thread    The thread of the team's owner.
// Failure   The errors of the download and of the pool; error format if libarrow's message is not as
//           expected.
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

  /// @param codec  null: bodies are not compressed.
  streamed_messages(const message_writer& messages, write_team& team, std::shared_ptr<block_codec> codec,
                    arrow::MemoryPool* pool)
      : messages_(messages), team_(team), codec_(std::move(codec)), pool_(pool) {}

  /// Encodes a message that must be written to a `streamed_sink`.
  /// @param bytes  the stream of buffers that are still on the device. Null: all are in memory. Their blocks
  ///               are then compressed in parallel.
  [[nodiscard]] arrow::ipc::IpcPayload encode(const arrow::RecordBatch& rows, std::int64_t number,
                                              const std::shared_ptr<const column_stream>& bytes) const;

private:
  [[nodiscard]] arrow::ipc::IpcPayload encode_plain(const arrow::RecordBatch& rows, std::int64_t number,
                                                    const std::shared_ptr<const column_stream>& bytes) const;
  [[nodiscard]] arrow::ipc::IpcPayload encode_compressed(const arrow::RecordBatch& rows, std::int64_t number,
                                                         const column_stream* bytes) const;

  const message_writer& messages_;
  write_team& team_;
  std::shared_ptr<block_codec> codec_;
  arrow::MemoryPool* pool_;
  std::shared_ptr<std::atomic<std::size_t>> alive_ =
      std::make_shared<std::atomic<std::size_t>>(0); ///< live windows of uncompressed messages
};

} // namespace saeta::ipc::detail
