// What plans know about sources: the positions of messages, and the trees of the columns to read.
//
// What      Both are found once, before any body is read. Messages of a file are found in its footer, those
//           of a stream by walking from message to message. Only sources that a plan can take
//           (whole_read.hpp) are supported: metadata version 5 in this machine's byte order. Several sources
//           are one sequence of batches, and their bytes are one range of positions: each source begins
//           behind the one before it. Dictionaries apply to messages of their own source alone. A file with
//           the same bytes of dictionaries as the file before it uses those, so that they are read once.
// Owner     Keeps the sources. The trees refer to types that it holds, so it is not moved.
// Order     `order` numbers dictionaries and batches together. In a stream a dictionary applies to later
//           messages, in a file to all (`of_file`).
// Thread    Immutable, and shared by all windows.
// Failure   error format with the batch, or a file gives a dictionary twice, or one has an id that is not in
//           the schema; io; out_of_range (a stream has fewer batches than requested).
// Standard  Arrow's File.fbs, Message.fbs and Schema.fbs.

#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/interop/options.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/io/fetch_window.hpp"
#include "saeta/ipc/io/source.hpp"
#include "saeta/ipc/scan.hpp"
#include "saeta/staging/scatter.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {

/// Reads ranges of a source into its own memory. The source must outlive it.
class source_window {
public:
  explicit source_window(const scatter_source& from) : from_(from) {}
  /// The result is valid until the next call that reads other bytes.
  /// @throws error format if the source has fewer bytes.
  [[nodiscard]] std::span<const std::byte> read(std::uint64_t position, std::size_t bytes);
  [[nodiscard]] std::uint64_t size() const noexcept { return from_.bytes; }

private:
  const scatter_source& from_;
  std::vector<std::byte> memory_;
  std::uint64_t held_at_ = 0;
  std::size_t held_ = 0; ///< valid bytes in the memory
};

struct planned_message {
  std::uint64_t metadata = 0; ///< position in the source where its prefix begins
  std::size_t metadata_bytes = 0;
  std::uint64_t body = 0; ///< position in the source
  std::size_t order = 0;
  std::uint64_t body_bytes = 0;   ///< as the footer of a file or the message of a stream claims
  std::uint64_t begin = 0;        ///< position where its source begins, if several are read as one
  std::uint64_t end = 0;          ///< position where its source ends
  std::uint64_t dictionaries = 0; ///< position where the source of its dictionaries begins
  bool of_file = false;
  // For a record batch:
  std::int64_t number = 0;    ///< in the source
  std::int64_t first_row = 0; ///< the first row that is read
  std::int64_t rows = -1;     ///< rows that are read; -1: all that follow
};

struct planned_dictionary {
  planned_message message;
  std::int64_t id = 0;
  bool delta = false;
};

/// Reads the metadata of a record batch, or of the values of a dictionary, whose body lies in the source.
/// Returns nullopt if a plan can't take it. The result is valid until the next call for `from`.
/// @param tree  of the columns that are read
/// @throws error format.
std::optional<batch_layout> read_batch_message(source_window& from, const planned_message& message,
                                               const column_tree& tree);

/// The bytes of a message before its body.
struct message_prefix {
  std::size_t bytes = prefix_bytes; ///< before the metadata; 4 before format version 0.15
  std::int64_t metadata = 0;        ///< 0: the end of a stream. More than any source has, if it is negative
  /// Whether it is a message of before that version. The end of a stream is the same in all.
  [[nodiscard]] bool is_old() const noexcept { return bytes != prefix_bytes && metadata != 0; }
};

/// Reads the prefix of a message, from 4 bytes of it or more.
message_prefix read_prefix(std::span<const std::byte> message);

struct planned_messages {
  std::vector<planned_message> batches; ///< batches in the range
  std::vector<planned_dictionary> dictionaries;
  std::int64_t passed = 0; ///< batches of a stream up to the end of the range or of the stream
  bool file = false;
};

/// Returns nullopt if a plan can't take the source.
/// @param front  the FlatBuffer with the schema table: the footer of a file, the first message of a stream.
/// @param range  batches [first, second) of the source; second may be beyond the end of a stream.
std::optional<planned_messages> find_messages(source_window& from, container format,
                                              std::span<const std::byte> front, const std::string& name,
                                              const std::pair<std::int64_t, std::int64_t>& range);

/// The part of a source that is read.
struct SAETA_LOCAL read_request {
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

class SAETA_LOCAL planned_source {
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
  /// Whether all sources fetch ahead.
  [[nodiscard]] bool fetches_ahead() const noexcept;
  /// Begins to read ranges of positions, as byte_source::fetch_ahead.
  [[nodiscard]] std::shared_ptr<void> fetch_ahead(std::span<const byte_range> ranges) const;
  /// The messages of spans, for a window that fetches them. This object and the spans must outlive it.
  [[nodiscard]] fetch_window::messages messages_to_fetch(std::span<const batch_span> spans) const;
  /// Returns, for example, "a.arrow: batch 3".
  [[nodiscard]] std::string label_of(const planned_message& batch) const;

private:
  explicit planned_source(const read_request& request);
  bool add(const read_request& request, bool only);
  void require_dictionaries(const planned_messages& messages, const dictionary_trees& trees,
                            const flat_table& schema) const;
  void add_messages(const planned_messages& messages, const dictionary_trees& trees, bool only);
  void add_dictionaries(const planned_messages& messages, const dictionary_trees& trees);
  [[nodiscard]] planned_message placed(planned_message message, bool of_file) const;
  [[nodiscard]] std::optional<std::vector<std::byte>> contents(const planned_messages& messages,
                                                               const dictionary_trees& trees) const;
  void read(std::uint64_t position, std::span<std::byte> target) const;
  [[nodiscard]] std::vector<byte_range> ranges_of(const planned_message& message) const;

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
