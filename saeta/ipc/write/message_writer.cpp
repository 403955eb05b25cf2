#include "saeta/ipc/write/message_writer.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/write/value_bits.hpp"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <utility>

namespace saeta::ipc::detail {
namespace {

/// Whether values contain dictionaries. Deltas of such values can't be read.
bool has_dictionaries_inside(const arrow::ArrayData& values) {
  if (values.type->id() == arrow::Type::DICTIONARY) {
    return true;
  }
  for (const auto& child : values.child_data) {
    if (has_dictionaries_inside(*child)) {
      return true;
    }
  }
  return false;
}

} // namespace

message_writer::message_writer(arrow::io::OutputStream* sink, const std::shared_ptr<arrow::Schema>& described,
                               arrow::ipc::IpcWriteOptions encoding, container format, std::string name)
    : encoding_(std::move(encoding)), format_(format), name_(std::move(name)), fields_(*described),
      target_(take(format == container::file
                       ? arrow::ipc::internal::MakePayloadFileWriter(sink, described, encoding_)
                       : arrow::ipc::internal::MakePayloadStreamWriter(sink, encoding_),
                   name_)) {
  check(target_->Start(), name_);
  arrow::ipc::IpcPayload schema_message;
  check(arrow::ipc::GetSchemaPayload(*described, encoding_, fields_, &schema_message), name_);
  put(schema_message);
}

arrow::ipc::IpcPayload message_writer::encode(const arrow::RecordBatch& rows, std::int64_t number) const {
  return encode(rows, number, encoding_);
}

arrow::ipc::IpcPayload message_writer::encode(const arrow::RecordBatch& rows, std::int64_t number,
                                              std::shared_ptr<arrow::util::Codec> codec) const {
  arrow::ipc::IpcWriteOptions encoding = encoding_;
  encoding.codec = std::move(codec);
  return encode(rows, number, encoding);
}

arrow::ipc::IpcPayload message_writer::encode(const arrow::RecordBatch& rows, std::int64_t number,
                                              const arrow::ipc::IpcWriteOptions& encoding) const {
  const auto place = concat(name_, ": batch ", number);
  check(rows.Validate(), place);
  arrow::ipc::IpcPayload made;
  check(arrow::ipc::GetRecordBatchPayload(rows, encoding, &made), place);
  return made;
}

void message_writer::write(const arrow::RecordBatch& rows, const arrow::ipc::IpcPayload& encoded) {
  write_dictionaries(rows);
  put(encoded);
}

void message_writer::write_dictionaries(const arrow::RecordBatch& rows) {
  for (const auto& [id, values] : take(arrow::ipc::CollectDictionaries(rows, fields_), name_)) {
    write_dictionary(id, values);
  }
}

void message_writer::write_dictionary(std::int64_t id, const std::shared_ptr<arrow::Array>& values) {
  auto& known = written_[id];
  std::int64_t from = 0;
  if (known != nullptr) {
    const std::int64_t before = known->length();
    if (known->data() == values->data() || same_bits(*known, *values)) {
      return;
    }
    const bool grown = encoding_.emit_dictionary_deltas && values->length() > before &&
                       !has_dictionaries_inside(*values->data()) && same_bits(*known, *values, before);
    from = grown ? before : 0;
    if (from == 0 && format_ == container::file) {
      throw error(errc::unsupported,
                  concat(name_, ": the dictionary with id ", id,
                         " changes between batches, and a file holds one: combine_chunks() makes one of ",
                         "them, and a stream (format=\"stream\") holds them all"));
    }
  }
  arrow::ipc::IpcPayload message;
  check(arrow::ipc::GetDictionaryPayload(id, from != 0, from != 0 ? values->Slice(from) : values, encoding_,
                                         &message),
        name_);
  put(message);
  known = values;
}

void message_writer::put(const arrow::ipc::IpcPayload& message) {
  check(target_->WritePayload(message), name_);
}

void message_writer::close() { check(target_->Close(), name_); }

} // namespace saeta::ipc::detail
