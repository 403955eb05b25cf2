// Encodes messages of a file or stream in any thread and writes them in order.
//
// What      Batches are encoded independently, several in parallel. A dictionary is written before the first
//           batch that needs it, once if it stays the same. If it only grew, a delta adds the new values, in a
//           file always and in a stream if that was requested. Otherwise a stream writes it again. A file keeps
//           a longer dictionary that begins with the values of a batch.
//           Compressed: sizes precede the body, so the whole body is compressed before the message is written,
//           its blocks in parallel. A batch that is still on the device is downloaded window by window
//           (transfer/column_stream.hpp), each window while threads compress the one before, or write it to the
//           file: then at most `most_windows` are in memory.
// Owner     Borrows the target, which is not finished by `close`, and the pool.
// Thread    The thread of the pool's owner.
// Failure   format and out_of_range: a column that contradicts itself; unsupported: a dictionary that would
//           have to be replaced in a file; budget_exceeded. The message begins with `name`, the file.
// Standard  Arrow IPC format.

#pragma once

#include "saeta/compute/pack_columns.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/ipc/codec/codecs.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/metadata_encoder.hpp"
#include "saeta/ipc/write/sinks.hpp"
#include "saeta/transfer/column_stream.hpp"
#include "saeta/transfer/host_array.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {

inline constexpr std::size_t body_unit = 8; ///< alignment of buffers in a body

// A record batch in the form of a message: its nodes, and the bytes of each buffer.
//
// What      Arrays may be slices. Offsets begin at 0 in the message and bits at a whole byte, so these are
//           copied where a slice begins elsewhere. All other bytes are those of the arrays. Validities are
//           left out where there are no nulls. The children of list views and dense unions are written as a
//           whole (compute/compact.hpp has left out before what few rows don't need).
// Owner     Each buffer shares the owner of its bytes.
// Failure   error format: offsets or children that contradict each other.
// Standard  Arrow IPC format, "RecordBatch message".

/// Bytes that are downloaded while they are written.
class late_bytes {
public:
  late_bytes() = default;
  late_bytes(const late_bytes&) = delete;
  late_bytes& operator=(const late_bytes&) = delete;
  virtual ~late_bytes() = default;

  /// Writes all bytes, once.
  virtual void write(byte_target& target) = 0;
};

struct body_buffer {
  std::span<const std::byte> bytes; ///< of late bytes only the size is used
  std::shared_ptr<const void> owner{};
  std::shared_ptr<late_bytes> late{}; ///< null: the bytes are in memory
};

struct encoded_rows {
  packed_rows layout{};
  std::vector<body_buffer> body{}; ///< of each buffer of the layout
  std::int64_t body_bytes = 0;     ///< with the padding behind each buffer
  body_codec codec = body_codec::none;

  /// Sets the places of all buffers and `body_bytes` by the sizes in `body`.
  void place_body();
};

/// @param arrays  of one length. `keepalive` owns their bytes.
encoded_rows encode_rows(std::int64_t rows, std::span<const host_array> arrays,
                         const std::shared_ptr<const void>& keepalive);

/// Options of all messages of a file or stream.
struct message_options {
  container format = container::file;
  bool deltas = false;              ///< in streams; files always have them
  std::optional<block_codec> codec; ///< nullopt: bodies are not compressed
  std::shared_ptr<budget> charged;  ///< compressed bytes; null: none are made
};

class message_writer {
public:
  static constexpr std::size_t most_windows = 3;

  /// Writes the schema.
  message_writer(byte_target& target, const schema& described, message_options options, std::string name,
                 thread_pool& pool);

  /// Encodes batches.
  /// @param number  of the first batch, for messages
  /// @param bytes   the stream of buffers that are still on the device, of the single batch; null: all are in
  ///                memory
  [[nodiscard]] std::vector<encoded_rows> encode(std::span<const host_batch> batches, std::int64_t number,
                                                 const std::shared_ptr<const column_stream>& bytes) const;
  /// Writes the dictionaries of a batch, as far as they are not written, and the batch.
  /// @param rows     their dictionaries own their memory
  /// @param encoded  what `encode` returned for the batch
  void write(const host_batch& rows, const encoded_rows& encoded);
  /// Writes the end-of-stream marker or the footer.
  void close();

private:
  void compress(std::span<encoded_rows> of, const column_stream* bytes) const;
  void stream(encoded_rows& of, const std::shared_ptr<const column_stream>& bytes) const;
  void write_dictionaries(const column_tree& tree, std::size_t node, const host_array& of);
  void write_dictionary(std::size_t number, const std::shared_ptr<const host_array>& values);
  [[noreturn]] void refuse_change(std::size_t number) const;
  /// Writes a message, and notes where it is.
  void put(const encoded_rows& encoded, const batch_kind& kind, std::vector<message_block>& blocks);
  void put_front(std::vector<std::byte> bytes);
  void put_body(const encoded_rows& encoded);

  byte_target& target_;
  schema described_;
  message_options options_;
  std::string name_;
  thread_pool& pool_;
  std::vector<std::byte> flat_; ///< the schema message
  read_columns columns_;
  std::vector<std::shared_ptr<const host_array>> written_; ///< values of each dictionary in its last message
  file_footer blocks_;
  std::shared_ptr<std::atomic<std::size_t>> alive_ =
      std::make_shared<std::atomic<std::size_t>>(0); ///< live windows of uncompressed messages
};

} // namespace saeta::ipc::detail
