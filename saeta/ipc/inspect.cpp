#include "saeta/ipc/inspect.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/detail/arrow_bridge.hpp"
#include "saeta/ipc/detail/bounded_pool.hpp"
#include "saeta/ipc/detail/message_source.hpp"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>

namespace saeta::ipc {
namespace {

/// Field nodes that a column of this type takes in a batch; a dictionary's values lie in messages of their own.
std::size_t node_count(const arrow::DataType& type) {
  if (const auto* const extension = dynamic_cast<const arrow::ExtensionType*>(&type)) {
    return node_count(*extension->storage_type());
  }
  std::size_t nodes = 1;
  for (const auto& child : type.fields()) {
    nodes += node_count(*child->type());
  }
  return nodes;
}

bool is_encoded(const arrow::DataType& type) {
  const auto* const extension = dynamic_cast<const arrow::ExtensionType*>(&type);
  return (extension != nullptr ? extension->storage_id() : type.id()) == arrow::Type::DICTIONARY;
}

std::vector<column_summary> describe(const arrow::Schema& source) {
  std::vector<column_summary> columns;
  for (const auto& field : source.fields()) {
    columns.push_back({field->name(), field->type()->ToString(), field->nullable(), detail::carried(*field),
                       0, is_encoded(*field->type()) ? 0 : -1});
  }
  return columns;
}

std::string version_name(arrow::ipc::MetadataVersion version) {
  return concat("V", static_cast<int>(version) - static_cast<int>(arrow::ipc::MetadataVersion::V1) + 1);
}

void add_batch(file_summary& summary, const arrow::Schema& described, const arrow::ipc::Message& message) {
  const auto metadata = message.metadata();
  const auto batch = detail::read_batch_metadata(
      {reinterpret_cast<const std::byte*>(metadata->data()), static_cast<std::size_t>(metadata->size())});
  if (summary.batch_rows.empty()) {
    summary.compression = batch.compression;
  }
  std::size_t node = 0;
  for (std::size_t i = 0; i < summary.columns.size(); ++i) {
    if (node >= batch.nodes.size()) {
      throw error(errc::format, concat("column '", summary.columns[i].name, "' is missing"));
    }
    summary.columns[i].nulls =
        checked_add(summary.columns[i].nulls, batch.nodes[node].null_count, "null count");
    node += node_count(*described.field(static_cast<int>(i))->type());
  }
  summary.batch_rows.push_back(batch.rows);
}

/// Sizes of the dictionaries at the end of the source. A file has them all before its first batch.
void count_dictionary_values(file_summary& summary, const detail::source& from) {
  std::vector<int> encoded;
  for (std::size_t i = 0; i < summary.columns.size(); ++i) {
    if (summary.columns[i].dictionary_values >= 0) {
      encoded.push_back(static_cast<int>(i));
    }
  }
  if (encoded.empty()) {
    return;
  }
  const auto pool = detail::bounded_pool::make(detail::default_decode_limit(from.bytes.size()));
  auto decoding = arrow::ipc::IpcReadOptions::Defaults();
  decoding.memory_pool = pool.get();
  decoding.included_fields = encoded;
  const auto stream = take(arrow::ipc::RecordBatchStreamReader::Open(
                               std::make_unique<detail::message_source>(from, std::nullopt), decoding),
                           from.name);
  std::shared_ptr<arrow::RecordBatch> batch;
  do {
    detail::check_decoded(stream->ReadNext(&batch), *pool, from.bytes.size(), from.name);
    for (int i = 0; batch != nullptr && i < batch->num_columns(); ++i) {
      const auto column = static_cast<std::size_t>(encoded[static_cast<std::size_t>(i)]);
      summary.columns[column].dictionary_values = batch->column_data(i)->dictionary->length;
    }
  } while (batch != nullptr && summary.format == container::stream);
}

} // namespace

file_summary inspect(const std::filesystem::path& file) {
  const auto from = detail::open_source(file);
  detail::message_source messages(from, std::nullopt);
  const auto& described = *messages.described();

  file_summary summary;
  summary.format = messages.format();
  summary.bytes = from.bytes.size();
  summary.compression = "none";
  summary.metadata_version = version_name(messages.version());
  if (described.metadata() != nullptr) {
    for (std::int64_t i = 0; i < described.metadata()->size(); ++i) {
      summary.metadata.emplace_back(described.metadata()->key(i), described.metadata()->value(i));
    }
  }
  summary.columns = describe(described);
  while (const auto message = take(messages.ReadNextMessage(), from.name)) {
    if (message->type() == arrow::ipc::MessageType::RECORD_BATCH) {
      try {
        add_batch(summary, described, *message);
      } catch (const error& failure) {
        rethrow(failure, concat(from.name, ": batch ", summary.batch_rows.size()));
      }
    }
  }
  count_dictionary_values(summary, from);
  return summary;
}

} // namespace saeta::ipc
