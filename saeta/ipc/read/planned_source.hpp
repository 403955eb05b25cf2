// What a plan needs to know of sources: where their messages are, and the trees of the columns to read.
//
// What      It is found once, before any body is read. All windows share it. Several sources are one sequence
//           of batches, and their bytes are one range of positions: each source begins behind the one before
//           it. Dictionaries apply to messages of their own source alone. A file with the same bytes of
//           dictionaries as the file before it uses those, so that they are read once.
// Owner     Keeps the sources. The trees refer to types that it holds, so it is not moved.
// Thread    Immutable.
// Failure   error format with the batch, or a file gives a dictionary twice, or one has an id that is not in
//           the schema; io; out_of_range (a stream has fewer batches than requested).
#pragma once

#include "saeta/column/schema_index.hpp"
#include "saeta/interop/validation.hpp"
#include "saeta/ipc/container.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/io/source.hpp"
#include "saeta/ipc/read/planned_messages.hpp"
#include "saeta/ipc/read/projection.hpp"
#include "saeta/ipc/scan.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

/// The messages of one dictionary, in the order of the sources.
struct dictionary_messages {
  std::vector<planned_message> messages;
  std::vector<bool> deltas; ///< whether each one adds to the values before it
};

/// Returns how many messages of a dictionary come before the values that `user`, a batch or a dictionary,
/// refers to end. 0: its source has not given any.
std::size_t messages_before(std::span<const planned_message> dictionary, const planned_message& user);

class planned_source {
public:
  /// Returns null if a plan can't take the sources, for example older metadata or another byte order, or
  /// columns that are not at the same positions in the messages of each source.
  /// @param requests  at least one, with the same fields and checks
  static std::shared_ptr<const planned_source> find(std::span<const read_request> requests);
  planned_source(const planned_source&) = delete;
  planned_source& operator=(const planned_source&) = delete;
  ~planned_source() = default;

  /// Returns the name of the source at a position.
  [[nodiscard]] const std::string& name_at(std::uint64_t position) const noexcept;
  /// The bytes of the sources. Valid as long as this object lives.
  [[nodiscard]] const scatter_source& bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::shared_ptr<const schema_index>& fields() const noexcept { return fields_; }
  [[nodiscard]] validation check() const noexcept { return check_; }
  [[nodiscard]] bool texts() const noexcept { return texts_; }
  [[nodiscard]] const std::vector<planned_message>& batches() const noexcept { return batches_; }
  [[nodiscard]] planned_message message_of(const batch_span& span) const;
  [[nodiscard]] std::vector<planned_message> messages_of(std::span<const batch_span> spans) const;
  /// All rows of all batches.
  [[nodiscard]] scan_list everything() const;
  /// Bytes of the bodies of all batches, as the sources claim.
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
  bool add(const read_request& request, bool only);
  void require_dictionaries(const planned_messages& found, const dictionary_trees& trees,
                            const flat_table& schema) const;
  void add_messages(const planned_messages& found, const dictionary_trees& trees, bool only);
  void add_dictionaries(const planned_messages& found, const dictionary_trees& trees);
  [[nodiscard]] planned_message placed(planned_message message, bool of_file) const;
  [[nodiscard]] std::optional<std::vector<std::byte>> contents(const planned_messages& found,
                                                               const dictionary_trees& trees) const;
  void read(std::uint64_t position, std::span<std::byte> target) const;

  struct placed_source {
    source from;
    std::uint64_t begin = 0; ///< position of its first byte
  };
  [[nodiscard]] std::vector<placed_source>::const_iterator source_at(std::uint64_t position) const noexcept;

  std::vector<placed_source> sources_;
  scatter_source bytes_;
  std::shared_ptr<const schema_index> described_; ///< the tree borrows its fields
  std::shared_ptr<const schema_index> fields_;
  validation check_;
  bool texts_;
  std::vector<planned_message> batches_;
  std::size_t next_order_ = 0;
  std::uint64_t dictionaries_begin_ = 0;                ///< source of the dictionaries that were added last
  std::optional<std::vector<std::byte>> last_contents_; ///< of these dictionaries
  std::uint64_t body_bytes_ = 0;
  std::vector<int> order_;
  column_tree tree_;
  dictionary_trees trees_;
  std::vector<dictionary_messages> dictionary_batches_;
};

} // namespace saeta::ipc::detail
