#include "saeta/ipc/detail/message_source.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/ipc/arrow_status.hpp"

#include <arrow/buffer.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/type.h>

namespace saeta::ipc::detail {
namespace {

using arrow::ipc::Message;
using arrow::ipc::MessageType;

/// Bytes that live as long as a slice of them does.
class held_buffer final : public arrow::Buffer {
public:
  explicit held_buffer(const source& from)
      : arrow::Buffer(reinterpret_cast<const std::uint8_t*>(from.bytes.data()),
                      checked_cast<std::int64_t>(from.bytes.size(), "bytes of the source")),
        keepalive_(from.keepalive) {}

private:
  std::shared_ptr<const void> keepalive_;
};

void require_range(std::string_view name, const batch_range& range, std::int64_t batches) {
  if (range &&
      (range->first < 0 || range->second < range->first || (batches >= 0 && range->second > batches))) {
    throw error(errc::out_of_range, concat(name, ": batches [", range->first, ", ", range->second, ") of ",
                                           batches < 0 ? "a stream" : concat(batches)));
  }
}

} // namespace

message_source::message_source(const source& from, const batch_range& range)
    : name_(from.name), format_(recognise(from)), range_(range),
      input_(std::make_shared<arrow::io::BufferReader>(std::make_shared<held_buffer>(from))) {
  if (format_ == container::file) {
    open_file(from);
  } else {
    open_stream();
  }
  if (first_ == nullptr || first_->type() != MessageType::SCHEMA) {
    throw error(errc::format, concat(name_, ": its first message is no schema"));
  }
  arrow::ipc::DictionaryMemo memo;
  schema_ = take(arrow::ipc::ReadSchema(*first_, &memo), name_);
  version_ = first_->metadata_version();
  require_range(name_, range_,
                format_ == container::file ? static_cast<std::int64_t>(blocks_.batches.size()) : -1);
  next_batch_ = format_ == container::file && range_ ? range_->first : 0;
}

void message_source::open_file(const source& from) {
  // Opening verifies the footer, whose blocks libarrow keeps to itself.
  const auto verified = take(arrow::ipc::RecordBatchFileReader::Open(input_), concat(name_, ": footer"));
  blocks_ = read_footer_blocks(from.bytes);
  constexpr std::int64_t after_magic = 8;
  check(input_->Seek(after_magic), name_);
  first_ = take(arrow::ipc::ReadMessage(input_.get()), name_);
  if (first_ != nullptr && first_->type() == MessageType::SCHEMA) {
    arrow::ipc::DictionaryMemo memo;
    const auto leading = take(arrow::ipc::ReadSchema(*first_, &memo), name_);
    // The footer's schema was made native already; only fields are compared.
    if (!arrow::Schema(leading->fields()).Equals(arrow::Schema(verified->schema()->fields()))) {
      throw error(errc::format, concat(name_, ": the schema at the beginning is not the one in the footer"));
    }
  }
}

void message_source::open_stream() {
  stream_ = arrow::ipc::MessageReader::Open(input_);
  first_ = take(stream_->ReadNextMessage(), name_);
}

std::int64_t message_source::batch_count() const noexcept {
  if (format_ == container::stream) {
    return -1;
  }
  return range_ ? range_->second - range_->first : static_cast<std::int64_t>(blocks_.batches.size());
}

arrow::Result<std::unique_ptr<Message>> message_source::ReadNextMessage() {
  if (first_ != nullptr) {
    return std::move(first_);
  }
  ARROW_ASSIGN_OR_RAISE(auto message, format_ == container::file ? next_of_file() : next_of_stream());
  if (message != nullptr && message->type() == MessageType::RECORD_BATCH) {
    ++next_batch_;
    body_bytes_ += static_cast<std::uint64_t>(message->body_length());
  }
  return message;
}

arrow::Result<std::unique_ptr<Message>> message_source::next_of_file() {
  const bool dictionary = next_dictionary_ < blocks_.dictionaries.size();
  const auto end = range_ ? range_->second : static_cast<std::int64_t>(blocks_.batches.size());
  if (!dictionary && next_batch_ == end) {
    return nullptr;
  }
  const auto& block = dictionary ? blocks_.dictionaries[next_dictionary_++]
                                 : blocks_.batches[static_cast<std::size_t>(next_batch_)];
  ARROW_ASSIGN_OR_RAISE(auto message,
                        arrow::ipc::ReadMessage(block.offset, block.metadata_bytes, input_.get()));
  const auto expected = dictionary ? MessageType::DICTIONARY_BATCH : MessageType::RECORD_BATCH;
  if (message == nullptr || message->type() != expected) {
    return arrow::Status::Invalid("the footer names a ", FormatMessageType(expected), " at offset ",
                                  block.offset, ", there is ",
                                  message ? FormatMessageType(message->type()) : "none");
  }
  return message;
}

arrow::Result<std::unique_ptr<Message>> message_source::next_of_stream() {
  while (!range_ || next_batch_ < range_->second) {
    ARROW_ASSIGN_OR_RAISE(auto message, stream_->ReadNextMessage());
    const bool passed_over = message != nullptr && message->type() == MessageType::RECORD_BATCH && range_ &&
                             next_batch_ < range_->first;
    if (!passed_over) {
      return message;
    }
    ++next_batch_;
  }
  return nullptr;
}

void message_source::close_range() const {
  if (format_ == container::stream && range_ && next_batch_ < range_->second) {
    throw error(errc::out_of_range, concat(name_, ": batches [", range_->first, ", ", range_->second,
                                           ") of a stream that has ", next_batch_));
  }
}

} // namespace saeta::ipc::detail
