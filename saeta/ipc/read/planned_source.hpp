// What a plan needs to know of a source: where its messages are, and the trees of the columns to read.
//
// What      It is found once, before any body is read. All windows of the source share it.
// Owner     Keeps the source. The trees refer to types that it holds, so it is not moved.
// Thread    Immutable.
// Failure   error format with the batch, io, out_of_range (a stream has fewer batches than requested).
#pragma once

#include "saeta/column/schema_index.hpp"
#include "saeta/interop/validation.hpp"
#include "saeta/ipc/container.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/io/source.hpp"
#include "saeta/ipc/read/planned_messages.hpp"
#include "saeta/ipc/read/projection.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {

/// What is read of a source.
struct read_request {
  source from;
  container format = container::file;
  std::span<const std::byte> front;              ///< the metadata that has the schema (message_source)
  std::shared_ptr<const schema_index> described; ///< of the source
  const projection* projected = nullptr;
  std::shared_ptr<const schema_index> fields; ///< of the requested columns
  /// Batches [first, second) by number; second may be beyond the end of a stream.
  std::pair<std::int64_t, std::int64_t> batches;
  validation check = validation::full;
  bool texts = false; ///< also check that strings are UTF-8
};

/// The messages of one dictionary, in the order of the source.
struct dictionary_messages {
  std::vector<planned_message> messages;
  std::vector<bool> deltas; ///< whether each one adds to the values before it
};

class planned_source {
public:
  /// Returns null if a plan can't take the source, for example older metadata or another byte order.
  static std::shared_ptr<const planned_source> find(const read_request& request);
  planned_source(const planned_source&) = delete;
  planned_source& operator=(const planned_source&) = delete;
  ~planned_source() = default;

  [[nodiscard]] const std::string& name() const noexcept { return from_->name(); }
  /// The bytes of the source. Valid as long as this object lives.
  [[nodiscard]] const scatter_source& bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::shared_ptr<const schema_index>& fields() const noexcept { return fields_; }
  [[nodiscard]] validation check() const noexcept { return check_; }
  [[nodiscard]] bool texts() const noexcept { return texts_; }
  /// In a file all dictionaries apply to all batches. In a stream those before a batch apply.
  [[nodiscard]] bool is_file() const noexcept { return is_file_; }
  [[nodiscard]] const std::vector<planned_message>& batches() const noexcept { return batches_; }
  /// Bytes of the bodies of all batches, as the source claims.
  [[nodiscard]] std::uint64_t body_bytes() const noexcept { return body_bytes_; }
  [[nodiscard]] const column_tree& tree() const noexcept { return tree_; }
  /// For each requested column, its index among the columns of the tree.
  [[nodiscard]] const std::vector<int>& order() const noexcept { return order_; }
  [[nodiscard]] const dictionary_trees& dictionaries() const noexcept { return trees_; }
  /// The messages of each dictionary.
  [[nodiscard]] const std::vector<dictionary_messages>& dictionary_batches() const noexcept {
    return dictionary_batches_;
  }
  /// Returns, for example, "a.arrow: batch 3".
  [[nodiscard]] std::string label_of(const planned_message& batch) const;

private:
  explicit planned_source(const read_request& request);
  bool take_messages(const read_request& request);

  source from_;
  scatter_source bytes_;
  std::shared_ptr<const schema_index> described_; ///< the tree borrows its fields
  std::shared_ptr<const schema_index> fields_;
  validation check_;
  bool texts_;
  bool is_file_ = false;
  std::vector<planned_message> batches_;
  std::uint64_t body_bytes_ = 0;
  std::vector<int> order_;
  column_tree tree_;
  dictionary_trees trees_;
  std::vector<dictionary_messages> dictionary_batches_;
};

} // namespace saeta::ipc::detail
