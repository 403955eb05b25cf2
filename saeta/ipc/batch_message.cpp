#include "saeta/ipc/batch_message.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/codec/decoded_bound.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/schema_metadata.hpp"

#include <numeric>
#include <vector>

namespace saeta::ipc {
namespace {

/// A message and its columns.
struct checked_message {
  checked_message(std::span<const std::byte> schema, std::span<const std::byte> metadata,
                  std::uint64_t body_bytes)
      : described(detail::read_schema(container::stream, schema).fields) {
    const detail::message_header header = detail::read_header(metadata);
    std::vector<int> all(described.fields.size());
    std::iota(all.begin(), all.end(), 0);
    tree = detail::make_tree(described, all, detail::schema_table(container::stream, schema), dictionaries,
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
