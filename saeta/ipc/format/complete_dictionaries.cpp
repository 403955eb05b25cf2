#include "saeta/ipc/format/complete_dictionaries.hpp"

#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/format/flat_table.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_metadata.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/util.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include <span>
#include <utility>

namespace saeta::ipc::detail {
namespace {

using arrow::ipc::MessageType;
using message_pointer = std::unique_ptr<arrow::ipc::Message>;

std::span<const std::byte> metadata_of(const arrow::ipc::Message& message) {
  const auto& bytes = *message.metadata();
  return {reinterpret_cast<const std::byte*>(bytes.data()), static_cast<std::size_t>(bytes.size())};
}

} // namespace

complete_dictionaries::complete_dictionaries(arrow::ipc::MessageReader& from) : from_(from) {}

complete_dictionaries::~complete_dictionaries() = default;

arrow::Result<message_pointer> complete_dictionaries::ReadNextMessage() {
  if (held_ == nullptr) {
    ARROW_ASSIGN_OR_RAISE(held_, from_.ReadNextMessage());
  }
  return run_guarded([this]() -> arrow::Result<message_pointer> {
    if (held_ == nullptr) { // a stream may end after some dictionaries, without batches
      return given_ && !missing_.empty() ? next_missing() : message_pointer();
    }
    switch (held_->type()) {
    case MessageType::SCHEMA:
      schema_ = held_->metadata();
      if (const auto schema = flat_table::root(metadata_of(*held_)).table(message_table)) {
        missing_ = dictionary_ids(*schema);
      }
      break;
    case MessageType::DICTIONARY_BATCH:
      missing_.erase(read_layout(metadata_of(*held_)).dictionary.value());
      given_ = true;
      break;
    default:
      if (!missing_.empty()) {
        return next_missing();
      }
    }
    return std::move(held_);
  });
}

arrow::Result<message_pointer> complete_dictionaries::next_missing() {
  if (types_ == nullptr) {
    types_ = std::make_unique<arrow::ipc::DictionaryMemo>();
    ARROW_ASSIGN_OR_RAISE(const auto described, arrow::ipc::Message::Open(schema_, nullptr));
    ARROW_RETURN_NOT_OK(arrow::ipc::ReadSchema(*described, types_.get()));
  }
  const std::int64_t id = missing_.extract(missing_.begin()).value();
  ARROW_ASSIGN_OR_RAISE(const auto type, types_->GetDictionaryType(id));
  ARROW_ASSIGN_OR_RAISE(const auto values, arrow::MakeEmptyArray(type));
  const auto options = arrow::ipc::IpcWriteOptions::Defaults();
  arrow::ipc::IpcPayload payload;
  ARROW_RETURN_NOT_OK(arrow::ipc::GetDictionaryPayload(id, false, values, options, &payload));
  ARROW_ASSIGN_OR_RAISE(const auto sink, arrow::io::BufferOutputStream::Create());
  std::int32_t metadata_bytes = 0;
  ARROW_RETURN_NOT_OK(arrow::ipc::WriteIpcPayload(payload, options, sink.get(), &metadata_bytes));
  ARROW_ASSIGN_OR_RAISE(const auto bytes, sink->Finish());
  arrow::io::BufferReader written(bytes);
  return arrow::ipc::ReadMessage(&written);
}

} // namespace saeta::ipc::detail
