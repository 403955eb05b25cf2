#include "saeta/ipc/inspect.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/codec/codecs.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/message_source.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace saeta::ipc {
namespace {

std::vector<column_summary> describe(const detail::source_schema& source) {
  std::vector<column_summary> columns;
  for (std::size_t i = 0; i < source.fields.fields.size(); ++i) {
    const field& field = source.fields.fields[i];
    columns.push_back({field.name, field.type.name(), field.nullable, !source.obstacles.contains(i), 0, -1});
  }
  return columns;
}

/// The first version has the number 0.
std::string version_name(std::int16_t version) { return concat("V", version + 1); }

/// Footers of format 0.14 have no version, and the oldest one that is read is 4.
std::int16_t version_of(const detail::message_source& messages) {
  return std::max(detail::flat_table::root(messages.front()).scalar<std::int16_t>(detail::message_version, 0),
                  detail::version_4);
}

void add_batch(file_summary& summary, const detail::column_tree& tree, const detail::batch_layout& batch) {
  summary.metadata_version = version_name(batch.version);
  if (summary.batch_rows.empty()) {
    summary.compression = name_of(batch.codec);
  }
  for (std::size_t i = 0; i < summary.columns.size(); ++i) {
    const detail::tree_node& node = tree.nodes[tree.roots[i]];
    summary.columns[i].nulls =
        checked_add(summary.columns[i].nulls, batch.nodes[node.row].null_count, "null count");
  }
  summary.batch_rows.push_back(batch.rows);
}

/// Sizes of the dictionaries by their ids, as they are at the end of the source.
class dictionary_sizes {
public:
  void add(const detail::batch_layout& layout) {
    const std::int64_t id = layout.dictionary.value();
    if (layout.is_delta && !sizes_.contains(id)) {
      throw detail::delta_of_nothing(id);
    }
    std::int64_t& size = sizes_[id];
    size = checked_add(layout.is_delta ? size : 0, layout.rows, "values of a dictionary");
  }

  void show(file_summary& summary, const detail::read_columns& columns) const {
    for (std::size_t i = 0; i < summary.columns.size(); ++i) {
      const std::size_t number = columns.tree.nodes[columns.tree.roots[i]].dictionary;
      if (number != detail::no_node) {
        const auto entry = sizes_.find(columns.dictionaries.ids[number]);
        summary.columns[i].dictionary_values = entry == sizes_.end() ? 0 : entry->second;
      }
    }
  }

private:
  std::map<std::int64_t, std::int64_t> sizes_;
};

detail::source_schema schema_of(const detail::message_source& messages, const std::string& name) {
  try {
    return detail::read_schema(messages.format(), messages.front());
  } catch (const error& failure) {
    rethrow(failure, name);
  }
}

file_summary summary_of(const detail::source& from) {
  detail::message_source messages(from, std::nullopt);
  detail::source_schema described = schema_of(messages, from->name());

  file_summary summary;
  summary.format = messages.format();
  summary.compression = "none";
  summary.metadata_version = version_name(version_of(messages));
  summary.metadata = described.fields.metadata;
  summary.columns = describe(described);
  std::vector<int> all(summary.columns.size());
  std::iota(all.begin(), all.end(), 0);
  messages.project(std::make_shared<const schema_index>(std::move(described.fields)), std::move(all));
  dictionary_sizes sizes;
  try {
    while (const auto message = messages.next()) {
      if (message->layout.dictionary) {
        sizes.add(message->layout);
      } else {
        add_batch(summary, messages.columns(message->layout.version).tree, message->layout);
      }
      messages.accept();
    }
  } catch (const error& failure) {
    rethrow(failure, concat(from->name(), ": batch ", summary.batch_rows.size()));
  }
  summary.bytes = from->size();
  sizes.show(summary, messages.columns(detail::version_5));
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

namespace {

/// A message and its columns.
struct checked_message {
  checked_message(std::span<const std::byte> schema, std::span<const std::byte> metadata,
                  std::uint64_t body_bytes)
      : described(detail::read_schema(container::stream, schema).fields) {
    const detail::message_header header = detail::read_header(metadata);
    tree = detail::make_tree(described, detail::schema_table(container::stream, schema), dictionaries,
                             header.version);
    batch = detail::read_layout(header, &tree);
    batch.require_entries(tree);
    if (static_cast<std::uint64_t>(batch.body_bytes) > body_bytes) {
      throw error(errc::format, concat("its body has ", batch.body_bytes, " bytes, found ", body_bytes));
    }
  }

  [[nodiscard]] bool is_compressed() const { return batch.codec != detail::body_codec::none; }

  saeta::schema described; ///< the tree borrows its fields
  detail::dictionary_trees dictionaries;
  detail::column_tree tree;
  detail::batch_layout batch;
};

} // namespace

bool check_body(std::span<const std::byte> schema, std::span<const std::byte> metadata,
                std::uint64_t body_bytes) {
  return checked_message(schema, metadata, body_bytes).is_compressed();
}

bool check_body(std::span<const std::byte> schema, std::span<const std::byte> metadata,
                std::span<const std::byte> body) {
  const checked_message message(schema, metadata, body.size());
  if (message.is_compressed()) {
    detail::require_honest_sizes(message.batch, message.tree, body);
  }
  return message.is_compressed();
}

} // namespace saeta::ipc
