// The messages of a source in reading order, for files and streams.
//
// What      Messages of a stream come as they were sent. Messages of a file are found through its footer:
//           schema, dictionaries, then only the requested batches. So one decoder reads both, and
//           uncompressed bodies can be views of the source (libarrow's file reader copies when columns are
//           selected). Metadata is always read; `take_bodies` decides about bodies.
// Owner     Messages share ownership of their bytes.
// Order     Record batches outside [first, last) are skipped without reading their bodies.
// Thread    One.
// Failure   error from functions of ours; arrow::Status from `ReadNextMessage`. After a
//           failure the same message comes next.
#pragma once

#include "saeta/column/schema_index.hpp"
#include "saeta/ipc/codec/bounded_pool.hpp"
#include "saeta/ipc/format/message_metadata.hpp"
#include "saeta/ipc/io/source.hpp"

#include <arrow/ipc/message.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {

/// Batches by number, [first, second).
using batch_range = std::optional<std::pair<std::int64_t, std::int64_t>>;

/// How the body of a message is read.
enum class bodies {
  none,   ///< it is not read
  copied, ///< read into memory that is freed when the columns have been copied, so it is not charged
  viewed, ///< a view of the source; read into memory of the pool if compressed or if the source has no view
};

class message_source final : public arrow::ipc::MessageReader {
public:
  message_source(source from, const batch_range& range);
  message_source(const message_source&) = delete;
  message_source& operator=(const message_source&) = delete;
  ~message_source() override;

  /// Returns null after the last message of the range.
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> ReadNextMessage() override;
  /// Sets how the bodies of the next messages are read.
  /// @param pool  provides the memory of bodies that columns keep.
  void take_bodies(bodies how, bounded_pool& pool) noexcept {
    how_ = how;
    pool_ = &pool;
  }
  /// Sets the columns that are needed of record batch bodies. The bytes of other columns may be zeros.
  /// @param described  all columns of the source
  /// @param columns    ascending.
  void project(std::shared_ptr<const schema_index> described, std::vector<int> columns) {
    described_ = std::move(described);
    columns_ = std::move(columns);
  }
  /// Whether columns must be copied out of the body of the last record batch, because the body is temporary.
  [[nodiscard]] bool scratch() const noexcept { return scratch_; }
  /// Makes the last message come again, for example after its body or decoder got no memory. Returns false if
  /// that is not possible: the message was returned and is not a record batch.
  bool repeat();

  [[nodiscard]] container format() const noexcept { return format_; }
  /// The metadata with the schema: the footer of a file, the first message of a stream. It has a schema
  /// table (`schema_table`). It lives as long as this object.
  [[nodiscard]] std::span<const std::byte> front() const noexcept { return front_; }
  /// Batches in the range; -1 for a stream.
  [[nodiscard]] std::int64_t batch_count() const noexcept;
  /// Number in the source of the record batch that comes next.
  [[nodiscard]] std::int64_t next_batch() const noexcept { return next_batch_; }
  /// Whether the body that comes next is compressed and can't be viewed.
  [[nodiscard]] bool is_packed() const;
  /// Bytes of the record batch bodies that were returned.
  [[nodiscard]] std::uint64_t body_bytes() const noexcept { return body_bytes_; }
  /// Promises that the messages returned so far are not read again, by `repeat` or by a new message_source of
  /// this source.
  void forget_read() const;
  /// Call it at the end of a stream. @throws error out_of_range if it has fewer batches than requested.
  void close_range() const;

private:
  /// Position of a message.
  struct place {
    std::shared_ptr<arrow::Buffer> metadata;
    std::uint64_t offset = 0;
    std::uint64_t body = 0; ///< offset
    std::int64_t body_bytes = 0;
  };
  void open_file();
  void open_stream();
  [[nodiscard]] arrow::Result<std::unique_ptr<arrow::ipc::Message>> schema_of_front() const;
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> next_of_file();
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> next_of_stream();
  /// Finds the message that begins at an offset. Returns nullopt at the end of a stream.
  /// @param front_bytes  bytes before its body, as the footer states; -1: as the message states.
  [[nodiscard]] arrow::Result<std::optional<place>> find(std::uint64_t offset,
                                                         std::int64_t front_bytes = -1) const;
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> message_at(const place& at);
  /// Waits for a body. Fails if the source does not have all of it. @param kept  whether it will be read.
  [[nodiscard]] arrow::Status bring_body(const place& at, bool kept) const;
  [[nodiscard]] std::shared_ptr<arrow::Buffer> read(std::uint64_t offset, std::int64_t bytes,
                                                    arrow::MemoryPool* pool) const;
  /// Reads only the ranges of the projected columns. Returns null if they are half of the body or more.
  [[nodiscard]] std::shared_ptr<arrow::Buffer> read_some(const place& at, const batch_layout& batch);

  source from_;
  container format_;
  batch_range range_;
  bodies how_ = bodies::none;
  bool scratch_ = false;
  bounded_pool* pool_ = nullptr;                  ///< null if bodies are not read
  std::shared_ptr<const schema_index> described_; ///< null: nothing is projected
  std::vector<int> columns_;                      ///< empty: all
  std::uint64_t at_ = 0;                          ///< in a stream: where the next message begins
  bool ended_ = false;                            ///< the stream has ended
  bool failed_ = false;                           ///< the last message was not returned
  std::optional<std::pair<std::uint64_t, std::uint64_t>>
      last_batch_;               ///< where the last batch of a stream began, and its body bytes
  std::vector<std::byte> front_; ///< the footer of a file, the schema message of a stream
  file_footer footer_;           ///< for a file only
  std::size_t next_dictionary_ = 0;
  bool begun_ = false; ///< the schema message was returned
  std::int64_t next_batch_ = 0;
  std::uint64_t body_bytes_ = 0;
};

} // namespace saeta::ipc::detail
