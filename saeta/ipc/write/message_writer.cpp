#include "saeta/ipc/write/message_writer.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/format/arrow_bridge.hpp"
#include "saeta/ipc/write/value_bits.hpp"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <utility>
#include <vector>

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

/// Whether the dictionary with that id is of the field at `path` or inside its type.
bool has_dictionary(const arrow::DataType& of, std::vector<int>& path, std::int64_t id,
                    const arrow::ipc::DictionaryFieldMapper& ids) {
  const arrow::DataType& type = storage_of(of);
  if (type.id() == arrow::Type::DICTIONARY) {
    return take(ids.GetFieldId(path), "dictionary") == id;
  }
  for (int i = 0; i < type.num_fields(); ++i) {
    path.push_back(i);
    if (has_dictionary(*type.field(i)->type(), path, id, ids)) {
      return true;
    }
    path.pop_back();
  }
  return false;
}

} // namespace

message_writer::message_writer(arrow::io::OutputStream* sink, const std::shared_ptr<arrow::Schema>& described,
                               arrow::ipc::IpcWriteOptions encoding, container format, std::string name)
    : encoding_(std::move(encoding)), format_(format), name_(std::move(name)), described_(described),
      fields_(*described),
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
  bool grown = false;
  if (known != nullptr) {
    const bool in_file = format_ == container::file;
    if (known->data() == values->data() || same_bits(*known, *values) ||
        (in_file && values->length() < known->length() && same_bits(*known, *values, values->length()))) {
      return;
    }
    grown = (in_file || encoding_.emit_dictionary_deltas) && values->length() > known->length() &&
            !has_dictionaries_inside(*values->data()) && same_bits(*known, *values, known->length());
    if (in_file && !grown) {
      refuse_change(id);
    }
  }
  arrow::ipc::IpcPayload message;
  check(arrow::ipc::GetDictionaryPayload(id, grown, grown ? values->Slice(known->length()) : values,
                                         encoding_, &message),
        name_);
  put(message);
  known = values;
}

void message_writer::refuse_change(std::int64_t id) const {
  std::string column;
  for (int i = 0; i < described_->num_fields() && column.empty(); ++i) {
    std::vector<int> path{i};
    if (has_dictionary(*described_->field(i)->type(), path, id, fields_)) {
      column = concat("column '", described_->field(i)->name(), "': ");
    }
  }
  throw error(
      errc::unsupported,
      concat(name_, ": ", column, "its dictionary changes between batches, and a file holds one, to ",
             "which values may only be added. Write one table of all batches, whose dictionaries are ",
             "united, or a stream (format=\"stream\"), which holds them all"));
}

void message_writer::put(const arrow::ipc::IpcPayload& message) {
  check(target_->WritePayload(message), name_);
}

void message_writer::close() { check(target_->Close(), name_); }

} // namespace saeta::ipc::detail
