// The messages of a source in reading order, the same for both containers.
//
// What      A stream's messages as they come. A file's are picked through its footer: schema, dictionaries, then only the
//           batches asked for. So one decoder reads both, and whatever is not compressed stays a view of the bytes
//           (libarrow's own file reader copies when columns are selected).
// Owner     Messages share the bytes.
// Order     Record batches outside [first, last) are passed over without being decoded.
// Thread    One.
// Failure   error from the constructor and `close_range`; arrow::Status from `ReadNextMessage`.
#pragma once

#include "saeta/ipc/detail/message_metadata.hpp"
#include "saeta/ipc/detail/source.hpp"

#include <arrow/io/memory.h>
#include <arrow/ipc/message.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace saeta::ipc::detail {

/// Batches by number, [first, second).
using batch_range = std::optional<std::pair<std::int64_t, std::int64_t>>;

class message_source final : public arrow::ipc::MessageReader {
public:
  message_source(const source& from, const batch_range& range);

  /// Null after the last message of the range.
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> ReadNextMessage() override;

  [[nodiscard]] container format() const noexcept { return format_; }
  /// Of the whole source, before any projection.
  [[nodiscard]] const std::shared_ptr<arrow::Schema>& described() const noexcept { return schema_; }
  [[nodiscard]] arrow::ipc::MetadataVersion version() const noexcept { return version_; }
  /// Batches in the range; -1 for a stream.
  [[nodiscard]] std::int64_t batch_count() const noexcept;
  /// Number in the source of the record batch that comes next.
  [[nodiscard]] std::int64_t next_batch() const noexcept { return next_batch_; }
  /// Bytes of the record batch bodies that were given out.
  [[nodiscard]] std::uint64_t body_bytes() const noexcept { return body_bytes_; }
  /// To be called at the end of a stream. @throws error out_of_range when it has fewer batches than were asked for.
  void close_range() const;

private:
  void open_file(const source& from);
  void open_stream();
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> next_of_file();
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> next_of_stream();

  std::string name_;
  container format_;
  batch_range range_;
  std::shared_ptr<arrow::io::BufferReader> input_;
  std::unique_ptr<arrow::ipc::MessageReader> stream_; ///< of a stream only
  footer_blocks blocks_;                              ///< of a file only
  std::size_t next_dictionary_ = 0;
  std::unique_ptr<arrow::ipc::Message> first_; ///< the schema message, until it has been given out
  std::shared_ptr<arrow::Schema> schema_;
  arrow::ipc::MetadataVersion version_{};
  std::int64_t next_batch_ = 0;
  std::uint64_t body_bytes_ = 0;
};

} // namespace saeta::ipc::detail
