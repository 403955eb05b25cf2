#include "saeta/ipc/inspect.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/format/arrow_bridge.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/ipc/read/body_ranges.hpp"

#include <arrow/buffer.h>
#include <arrow/extension_type.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>

#include <map>
#include <span>

namespace saeta::ipc {
namespace {

std::span<const std::byte> bytes_of(const arrow::Buffer& of) {
  return {reinterpret_cast<const std::byte*>(of.data()), static_cast<std::size_t>(of.size())};
}

bool is_encoded(const arrow::DataType& type) {
  const auto* const extension = dynamic_cast<const arrow::ExtensionType*>(&type);
  return (extension != nullptr ? extension->storage_id() : type.id()) == arrow::Type::DICTIONARY;
}

std::vector<column_summary> describe(const arrow::Schema& source) {
  std::vector<column_summary> columns;
  for (const auto& field : source.fields()) {
    columns.push_back({field->name(), field->type()->ToString(), field->nullable(),
                       detail::is_supported(*field), 0, is_encoded(*field->type()) ? 0 : -1});
  }
  return columns;
}

std::string version_name(arrow::ipc::MetadataVersion version) {
  return concat("V", static_cast<int>(version) - static_cast<int>(arrow::ipc::MetadataVersion::V1) + 1);
}

void add_batch(file_summary& summary, const arrow::Schema& described, const arrow::ipc::Message& message) {
  const auto batch = detail::read_batch_metadata(bytes_of(*message.metadata()));
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
    node += detail::parts_of(*described.field(static_cast<int>(i))->type(), message.metadata_version()).nodes;
  }
  summary.batch_rows.push_back(batch.rows);
}

/// Sizes of the dictionaries by their ids, as they are at the end of the source.
class dictionary_sizes {
public:
  void add(const arrow::ipc::Message& message) {
    const auto found = detail::read_dictionary_metadata(bytes_of(*message.metadata()));
    if (found.values < 0) {
      throw error(errc::format, concat("dictionary ", found.id, " has ", found.values, " values"));
    }
    std::int64_t& size = sizes_[found.id];
    size = checked_add(found.is_delta ? size : 0, found.values, "values of a dictionary");
  }

  void show(file_summary& summary, detail::message_source& messages) const {
    for (std::size_t i = 0; i < summary.columns.size(); ++i) {
      const auto id = messages.dictionary_of(static_cast<int>(i));
      const auto found = id && summary.columns[i].dictionary_values >= 0 ? sizes_.find(*id) : sizes_.end();
      if (found != sizes_.end()) {
        summary.columns[i].dictionary_values = found->second;
      }
    }
  }

private:
  std::map<std::int64_t, std::int64_t> sizes_;
};

file_summary summary_of(const detail::source& from) {
  detail::message_source messages(from, std::nullopt);
  const auto& described = *messages.described();

  file_summary summary;
  summary.format = messages.format();
  summary.compression = "none";
  summary.metadata_version = version_name(messages.version());
  if (described.metadata() != nullptr) {
    for (std::int64_t i = 0; i < described.metadata()->size(); ++i) {
      summary.metadata.emplace_back(described.metadata()->key(i), described.metadata()->value(i));
    }
  }
  summary.columns = describe(described);
  dictionary_sizes sizes;
  while (const auto message = take(messages.ReadNextMessage(), from->name())) {
    try {
      if (message->type() == arrow::ipc::MessageType::RECORD_BATCH) {
        summary.metadata_version = version_name(message->metadata_version());
        add_batch(summary, described, *message);
      } else if (message->type() == arrow::ipc::MessageType::DICTIONARY_BATCH) {
        sizes.add(*message);
      }
    } catch (const error& failure) {
      rethrow(failure, concat(from->name(), ": batch ", summary.batch_rows.size()));
    }
    messages.forget_read();
  }
  summary.bytes = from->size();
  sizes.show(summary, messages);
  return summary;
}

} // namespace

file_summary inspect(const std::filesystem::path& file) { return summary_of(detail::open_source(file)); }

file_summary inspect(std::span<const std::byte> bytes) {
  return summary_of(detail::source_of(bytes, nullptr));
}

file_summary inspect(std::string name, std::uint64_t size,
                     std::function<void(std::uint64_t, std::span<std::byte>)> read) {
  return summary_of(detail::source_of(std::move(name), size, std::move(read)));
}

file_summary inspect(std::string name, std::function<std::size_t(std::span<std::byte>)> read_some) {
  return summary_of(detail::live_source_of(std::move(name), std::move(read_some)));
}

} // namespace saeta::ipc
