#include "saeta/ipc/format/message_source.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/codec/decoded_bound.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/read/body_ranges.hpp"
#include "saeta/ipc/read/sparse_buffer.hpp"

#include <arrow/buffer.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace saeta::ipc::detail {
namespace {

using arrow::ipc::Message;
using arrow::ipc::MessageType;

constexpr std::uint64_t word = sizeof(std::uint32_t);

/// A part of a source's view. It keeps the source alive.
class viewed_buffer final : public arrow::Buffer {
public:
  viewed_buffer(source of, std::span<const std::byte> bytes)
      : arrow::Buffer(reinterpret_cast<const std::uint8_t*>(bytes.data()), std::ssize(bytes)),
        source_(std::move(of)) {}

private:
  source source_;
};

std::span<const std::byte> bytes_of(const arrow::Buffer& of) {
  return {reinterpret_cast<const std::byte*>(of.data()), static_cast<std::size_t>(of.size())};
}

void require_range(std::string_view name, const batch_range& range, std::int64_t batches) {
  if (range &&
      (range->first < 0 || range->second < range->first || (batches >= 0 && range->second > batches))) {
    throw error(errc::out_of_range,
                concat(name, ": batches [", range->first, ", ", range->second, ") are not a range of ",
                       batches < 0 ? "a stream" : concat(batches, " batches")));
  }
}

} // namespace

message_source::message_source(source from, const batch_range& range)
    : from_(std::move(from)), format_(recognise(*from_)), range_(range) {
  if (format_ == container::file) {
    open_file();
  } else {
    open_stream();
  }
  require_range(from_->name(), range_,
                format_ == container::file ? static_cast<std::int64_t>(footer_.batches.size()) : -1);
  next_batch_ = format_ == container::file && range_ ? range_->first : 0;
}

message_source::~message_source() = default;

void message_source::open_file() {
  const std::string label = concat(from_->name(), ": footer");
  constexpr std::uint64_t magic = 6;
  constexpr std::uint64_t front = 8; // the magic and its padding
  constexpr std::uint64_t word_bytes = sizeof(std::int32_t);
  constexpr std::uint64_t tail = word_bytes + magic;
  constexpr std::uint64_t expected = 4096; // most footers are read with the word of their size
  std::vector<std::byte> last(std::min(from_->size() - magic, expected));
  from_->read_at(from_->size() - magic - last.size(), last);
  std::int32_t size = 0;
  std::memcpy(&size, last.data() + last.size() - word_bytes, word_bytes);
  if (size <= 0 || from_->size() < front + tail ||
      static_cast<std::uint64_t>(size) > from_->size() - front - tail) {
    throw error(errc::format, concat(label, " of ", size, " bytes in a file of ", from_->size(), " bytes"));
  }
  const auto bytes = static_cast<std::size_t>(size);
  last.resize(last.size() - word_bytes);
  if (bytes <= last.size()) {
    front_.assign(last.end() - size, last.end());
  } else {
    front_.resize(bytes);
    from_->read_at(from_->size() - tail - bytes, front_);
  }
  try {
    footer_ = read_footer(front_);
  } catch (const error& failure) {
    rethrow(failure, label);
  }
}

void message_source::open_stream() {
  try {
    const auto at = take(find(0), "the first message");
    const auto metadata = at ? bytes_of(*at->metadata) : std::span<const std::byte>();
    if (metadata.empty() || read_header(metadata).kind != message_kind::schema) {
      throw error(errc::format, "its first message is not a schema");
    }
    if (at->body_bytes != 0) { // what it skips would be lost
      throw error(errc::format,
                  concat("its first message, the schema, has a body of ", at->body_bytes, " bytes"));
    }
    front_.assign(metadata.begin(), metadata.end());
    at_ = at->body;
  } catch (const error& failure) {
    rethrow(failure, from_->name());
  }
}

arrow::Result<std::unique_ptr<Message>> message_source::schema_of_front() const {
  auto metadata = format_ == container::file ? schema_message(front_) : front_;
  return Message::Open(arrow::Buffer::FromVector(std::move(metadata)), nullptr);
}

std::int64_t message_source::batch_count() const noexcept {
  if (format_ == container::stream) {
    return -1;
  }
  return range_ ? range_->second - range_->first : static_cast<std::int64_t>(footer_.batches.size());
}

std::shared_ptr<arrow::Buffer> message_source::read(std::uint64_t offset, std::int64_t bytes,
                                                    arrow::MemoryPool* pool) const {
  std::shared_ptr<arrow::Buffer> made = take(arrow::AllocateBuffer(bytes, pool), from_->name());
  from_->read_at(offset,
                 {reinterpret_cast<std::byte*>(made->mutable_data()), static_cast<std::size_t>(bytes)});
  return made;
}

std::shared_ptr<arrow::Buffer> message_source::read_some(const place& at, const batch_layout& batch) {
  if (columns_.empty()) {
    return nullptr;
  }
  const auto ranges = body_ranges(described_->fields(), batch, columns_);
  std::int64_t needed = 0;
  for (const buffer_place& each : ranges) {
    needed += each.length;
  }
  if (needed >= at.body_bytes / 2) {
    return nullptr;
  }
  auto body = sparse_buffer::make(at.body_bytes);
  for (const buffer_place& each : ranges) {
    from_->read_at(at.body + static_cast<std::uint64_t>(each.offset),
                   {reinterpret_cast<std::byte*>(body->mutable_data()) + each.offset,
                    static_cast<std::size_t>(each.length)});
  }
  return body;
}

arrow::Result<std::optional<message_source::place>> message_source::find(std::uint64_t offset,
                                                                         std::int64_t front_bytes) const {
  // An old end mark is a single word of zeros. From a live stream nothing behind it may be requested.
  const std::uint64_t needed = from_->live() ? word : 2 * word;
  std::uint64_t there = from_->available(offset, needed);
  if (there == 0) {
    return std::nullopt;
  }
  std::array<std::uint32_t, 2> front{};
  const auto fill = [&](std::uint64_t first, std::uint64_t bytes) {
    from_->read_at(offset + first, std::as_writable_bytes(std::span(front)).subspan(first, bytes));
  };
  if (there >= word) {
    fill(0, there);
  }
  const bool marked = front[0] == continuation; // messages before 0.15 have no continuation mark
  const std::uint64_t prefix = marked ? 2 * word : word;
  if (there == word && there < prefix) {
    there += from_->available(offset + word, word);
    if (there == prefix) {
      fill(word, word);
    }
  }
  if (there < prefix) {
    return arrow::Status::Invalid("the message at offset ", offset, " is truncated in its prefix, after ",
                                  there, " bytes");
  }
  const auto bytes = static_cast<std::int32_t>(front[marked ? 1 : 0]);
  if (bytes == 0) {
    return std::nullopt;
  }
  const std::uint64_t left =
      bytes < 0 ? 0 : from_->available(offset + prefix, static_cast<std::uint64_t>(bytes));
  if (bytes < 0 || left < static_cast<std::uint64_t>(bytes)) {
    return arrow::Status::Invalid("the message at offset ", offset, " has ", bytes,
                                  " bytes of metadata, but only ", left, " are left");
  }
  place found;
  found.metadata = read(offset + prefix, bytes, arrow::default_memory_pool());
  const message_header header = read_header(bytes_of(*found.metadata));
  const std::uint64_t end = prefix + static_cast<std::uint64_t>(bytes);
  found.offset = offset;
  found.body = offset + (front_bytes < 0 ? end : static_cast<std::uint64_t>(front_bytes));
  found.body_bytes = header.body_bytes;
  if (front_bytes >= 0 && found.body > from_->size()) {
    return arrow::Status::Invalid("the message at offset ", offset, " of ", front_bytes,
                                  " bytes, as the footer says, exceeds a source of ", from_->size(),
                                  " bytes");
  }
  if (found.body < offset + end) {
    return arrow::Status::Invalid("the message at offset ", offset, " has ", end,
                                  " bytes before its body, the footer says ", front_bytes);
  }
  return found;
}

arrow::Status message_source::bring_body(const place& at, bool kept) const {
  const std::uint64_t there =
      at.body_bytes < 0 ? 0 : from_->available(at.body, static_cast<std::uint64_t>(at.body_bytes), kept);
  if (at.body_bytes < 0 || there < static_cast<std::uint64_t>(at.body_bytes)) {
    return arrow::Status::Invalid("the message at offset ", at.offset, " has a body of ", at.body_bytes,
                                  " bytes at offset ", at.body, " of a source of ", from_->size(), " bytes");
  }
  return arrow::Status::OK();
}

arrow::Result<std::unique_ptr<Message>> message_source::message_at(const place& at) {
  ARROW_ASSIGN_OR_RAISE(auto bare, Message::Open(at.metadata, nullptr));
  const bool kept = how_ != bodies::none && Message::HasBody(bare->type());
  ARROW_RETURN_NOT_OK(bring_body(at, kept));
  if (!kept) {
    return bare;
  }
  scratch_ = false;
  const batch_layout batch = read_layout(bytes_of(*at.metadata));
  const bool packed = batch.codec != body_codec::none;
  std::shared_ptr<arrow::Buffer> body;
  if (how_ == bodies::viewed && !packed) {
    if (const auto all = from_->view(); !all.empty()) {
      body = std::make_shared<viewed_buffer>(from_,
                                             all.subspan(at.body, static_cast<std::size_t>(at.body_bytes)));
    }
  }
  if (body == nullptr && bare->type() == MessageType::RECORD_BATCH) {
    body = read_some(at, batch);
    scratch_ = body != nullptr;
  }
  if (body == nullptr) {
    // A compressed body may have uncompressed buffers. libarrow views them, so the body may have to stay.
    body = read(at.body, at.body_bytes, how_ == bodies::viewed ? pool_ : arrow::default_memory_pool());
  }
  if (packed) {
    require_honest_sizes(batch, bytes_of(*body));
  }
  return Message::Open(at.metadata, std::move(body));
}

arrow::Result<std::unique_ptr<Message>> message_source::ReadNextMessage() {
  return run_guarded([this]() -> arrow::Result<std::unique_ptr<Message>> {
    if (!std::exchange(begun_, true)) {
      return schema_of_front();
    }
    last_batch_ = std::nullopt;
    failed_ = true;
    const std::uint64_t begin = at_;
    ARROW_ASSIGN_OR_RAISE(auto message, format_ == container::file ? next_of_file() : next_of_stream());
    failed_ = false;
    if (message != nullptr && message->type() == MessageType::RECORD_BATCH) {
      const auto bytes = static_cast<std::uint64_t>(read_header(bytes_of(*message->metadata())).body_bytes);
      ++next_batch_;
      body_bytes_ += bytes;
      last_batch_ = {begin, bytes};
    }
    return message;
  });
}

bool message_source::is_packed() const {
  std::uint64_t at = at_;
  std::int64_t front = -1;
  if (format_ == container::file) {
    if (next_batch_ == static_cast<std::int64_t>(footer_.batches.size())) {
      return false;
    }
    const message_block& block = footer_.batches[static_cast<std::size_t>(next_batch_)];
    at = static_cast<std::uint64_t>(block.offset);
    front = block.metadata_bytes;
  }
  try {
    const auto next = find(at, front);
    if (!next.ok() || !*next || !bring_body(**next, false).ok()) {
      return false;
    }
    const message_header header = read_header(bytes_of(*(*next)->metadata));
    return header.kind != message_kind::schema && read_layout(header).codec != body_codec::none;
  } catch (const error&) {
    return false; // reading the message reports the error
  }
}

bool message_source::repeat() {
  if (!last_batch_) {
    return failed_;
  }
  at_ = last_batch_->first;
  body_bytes_ -= last_batch_->second;
  --next_batch_;
  last_batch_ = std::nullopt;
  return true;
}

arrow::Result<std::unique_ptr<Message>> message_source::next_of_file() {
  const bool dictionary = next_dictionary_ < footer_.dictionaries.size();
  const auto end = range_ ? range_->second : static_cast<std::int64_t>(footer_.batches.size());
  if (!dictionary && next_batch_ == end) {
    return nullptr;
  }
  const auto& block = dictionary ? footer_.dictionaries[next_dictionary_]
                                 : footer_.batches[static_cast<std::size_t>(next_batch_)];
  const auto expected = dictionary ? MessageType::DICTIONARY_BATCH : MessageType::RECORD_BATCH;
  std::unique_ptr<Message> message;
  if (block.offset >= 0 && block.offset % 8 == 0 && block.metadata_bytes >= 0) {
    ARROW_ASSIGN_OR_RAISE(const auto at,
                          find(static_cast<std::uint64_t>(block.offset), block.metadata_bytes));
    if (at) {
      ARROW_ASSIGN_OR_RAISE(message, message_at(*at));
    }
  }
  if (message == nullptr || message->type() != expected) {
    return arrow::Status::Invalid("the footer names a ", FormatMessageType(expected), " at offset ",
                                  block.offset, ", found ",
                                  message ? FormatMessageType(message->type()) : "none");
  }
  next_dictionary_ += dictionary ? 1 : 0;
  return message;
}

arrow::Result<std::unique_ptr<Message>> message_source::next_of_stream() {
  while (!range_ || next_batch_ < range_->second) {
    if (ended_) {
      return nullptr;
    }
    ARROW_ASSIGN_OR_RAISE(const auto at, find(at_));
    if (!at) {
      ended_ = true; // bytes behind the end of the stream are not read
      return nullptr;
    }
    const std::uint64_t next = at->body + static_cast<std::uint64_t>(at->body_bytes);
    ARROW_ASSIGN_OR_RAISE(const auto bare, Message::Open(at->metadata, nullptr));
    if (bare->type() != MessageType::RECORD_BATCH || !range_ || next_batch_ >= range_->first) {
      ARROW_ASSIGN_OR_RAISE(auto message, message_at(*at));
      at_ = next;
      return message;
    }
    ARROW_RETURN_NOT_OK(bring_body(*at, false));
    at_ = next;
    ++next_batch_;
  }
  return nullptr;
}

void message_source::forget_read() const {
  if (format_ == container::stream) {
    from_->forget_before(at_);
  }
}

void message_source::close_range() const {
  if (format_ == container::stream && range_ && next_batch_ < range_->second) {
    throw error(errc::out_of_range, concat(from_->name(), ": batches [", range_->first, ", ", range_->second,
                                           ") of a stream that has ", next_batch_, " batches"));
  }
}

} // namespace saeta::ipc::detail
