// The messages of a source in reading order, the same for both containers.
//
// What      A stream's messages as they come. A file's are picked through its footer: schema, dictionaries, then only the
//           batches asked for. So one decoder reads both, and whatever is not compressed can stay a view of the bytes
//           (libarrow's own file reader copies when columns are selected). Metadata are always read; bodies as `take_bodies` says.
// Owner     Messages share what they are made of.
// Order     Record batches outside [first, last) are passed over without their bodies.
// Thread    One.
// Failure   error from the constructor and `close_range`; arrow::Status from `ReadNextMessage`, after which the same message
//           comes next.
#pragma once

#include "saeta/ipc/codec/bounded_pool.hpp"
#include "saeta/ipc/format/message_metadata.hpp"
#include "saeta/ipc/io/source.hpp"

#include <arrow/ipc/message.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {

/// Batches by number, [first, second).
using batch_range = std::optional<std::pair<std::int64_t, std::int64_t>>;

/// How a message has its body.
enum class bodies {
  none,   ///< it is not read
  copied, ///< read; it is gone when the columns have been copied, so it is not charged
  viewed, ///< where it lies; read into memory of the pool where it is compressed or the source can't be viewed
};

class message_source final : public arrow::ipc::MessageReader {
public:
  message_source(source from, const batch_range& range);
  message_source(const message_source&) = delete;
  message_source& operator=(const message_source&) = delete;
  ~message_source() override;

  /// Null after the last message of the range.
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> ReadNextMessage() override;
  /// For the messages that come next. @param pool  what bodies that stay are charged to.
  void take_bodies(bodies how, bounded_pool& pool) noexcept {
    how_ = how;
    pool_ = &pool;
  }
  /// Only these columns are needed of the bodies of record batches; the others' bytes may be zeros. @param columns  ascending.
  void project(std::vector<int> columns) { columns_ = std::move(columns); }
  /// Whether the body of the last record batch must not stay: columns are to be copied out of it.
  [[nodiscard]] bool scratch() const noexcept { return scratch_; }
  /// Lets the last message come again, whose body or decoder may have had no memory. False where that is not possible: it was
  /// given out and is no record batch.
  bool repeat();

  [[nodiscard]] container format() const noexcept { return format_; }
  /// Of the whole source, before any projection.
  [[nodiscard]] const std::shared_ptr<arrow::Schema>& described() const noexcept { return schema_; }
  /// The dictionary's number of a column; nothing for a column that is not a dictionary itself.
  [[nodiscard]] std::optional<std::int64_t> dictionary_of(int column) const;
  [[nodiscard]] arrow::ipc::MetadataVersion version() const noexcept { return version_; }
  /// Batches in the range; -1 for a stream.
  [[nodiscard]] std::int64_t batch_count() const noexcept;
  /// Number in the source of the record batch that comes next.
  [[nodiscard]] std::int64_t next_batch() const noexcept { return next_batch_; }
  /// Whether the body that comes next is compressed, so that nobody can view it.
  [[nodiscard]] bool packed() const;
  /// Bytes of the record batch bodies that were given out.
  [[nodiscard]] std::uint64_t body_bytes() const noexcept { return body_bytes_; }
  /// What was given out so far is not asked for again, neither by `repeat` nor by a message_source that begins anew.
  void forget_read() const;
  /// To be called at the end of a stream. @throws error out_of_range when it has fewer batches than were asked for.
  void close_range() const;

private:
  /// Where a message lies.
  struct place {
    std::shared_ptr<arrow::Buffer> metadata;
    std::uint64_t offset = 0;
    std::uint64_t body = 0; ///< offset
    std::int64_t body_bytes = 0;
  };
  void open_file();
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> next_of_file();
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> next_of_stream();
  /// The message that begins at an offset; nothing at the end of a stream. @param front_bytes  before its body, as a footer says;
  /// -1: as the message does.
  [[nodiscard]] arrow::Result<std::optional<place>> find(std::uint64_t offset,
                                                         std::int64_t front_bytes = -1) const;
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> message_at(const place& at);
  /// Refuses a body that the source does not have. @param kept  whether it will be read
  [[nodiscard]] arrow::Status bring_body(const place& at, bool kept) const;
  [[nodiscard]] std::shared_ptr<arrow::Buffer> read(std::uint64_t offset, std::int64_t bytes,
                                                    arrow::MemoryPool* pool) const;
  /// The ranges of the projected columns, where they are a small part; else null.
  [[nodiscard]] std::shared_ptr<arrow::Buffer> read_some(const place& at, const batch_metadata& batch) const;

  source from_;
  container format_;
  batch_range range_;
  bodies how_ = bodies::none;
  bool scratch_ = false;
  bounded_pool* pool_ = nullptr; ///< unless bodies are not read
  std::vector<int> columns_;     ///< empty: all
  std::uint64_t at_ = 0;         ///< of a stream: where the next message begins
  bool ended_ = false;           ///< a stream has come to its end
  bool failed_ = false;          ///< the last message was not given out
  std::optional<std::pair<std::uint64_t, std::uint64_t>>
      last_batch_;     ///< where a stream's last one began; bytes of its body
  file_footer footer_; ///< of a file only
  std::size_t next_dictionary_ = 0;
  std::unique_ptr<arrow::ipc::Message> first_; ///< the schema message, until it has been given out
  std::unique_ptr<arrow::ipc::DictionaryMemo> dictionaries_;
  std::shared_ptr<arrow::Schema> schema_;
  arrow::ipc::MetadataVersion version_{};
  std::int64_t next_batch_ = 0;
  std::uint64_t body_bytes_ = 0;
};

} // namespace saeta::ipc::detail
