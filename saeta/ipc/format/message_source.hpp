// The batches of a source in reading order, dictionaries included, for files and streams.
//
// What      Messages of a stream come as they were sent. Messages of a file are found through its footer: all
//           dictionaries, then the requested batches. A message is checked (message_layout.hpp) before its
//           body is read. `take_bodies` decides about bodies.
// Owner     A message owns its metadata, and the body that was read for it. A body that views the source
//           shares it.
// Order     Record batches outside [first, last) are skipped without reading their bodies. A message comes
//           again until `accept`.
// Thread    One.
// Failure   format, unsupported, io; budget_exceeded and out_of_memory for a body.

#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/io/fetch_window.hpp"
#include "saeta/ipc/io/source.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace saeta {
class context;
}

namespace saeta::ipc::detail {

// Host memory for bodies that are read and for buffers that are decoded.
//
// What      Memory of a host context, which its columns may keep; for a device, ordinary memory that is freed
//           when the columns have been copied out of it.
// Owner     Each piece has an owner of its own.
// Budget    Charged while it lives: to the context's budget, for a device to that of page-locked memory.
// Failure   budget_exceeded, out_of_memory.

/// Bytes that begin at a multiple of 64.
struct owned_bytes {
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner;
};

owned_bytes allocate_body(const std::shared_ptr<context>& ctx, std::size_t bytes);
/// Memory that no budget is charged for. It holds a body whose columns are copied out at once.
owned_bytes allocate_uncharged(std::size_t bytes);
/// Allocates bytes of which only some ranges will be written: the system allocates only those pages. So the
/// offsets of a message stay valid when only some of its columns are read.
owned_bytes allocate_sparse(std::size_t bytes);

/// Batches by number, [first, second).
using batch_range = std::optional<std::pair<std::int64_t, std::int64_t>>;

/// How the body of a message is read.
enum class bodies {
  none,   ///< no body is read
  copied, ///< read into memory that is freed when the columns have been copied, so it is not charged
  viewed, ///< a view of the source; read into memory of the context if there is none, or it is compressed
};

/// A record batch, or the values of a dictionary.
struct source_message {
  std::vector<std::byte> front; ///< bytes of the message before its body; `layout` borrows them
  batch_layout layout;
  std::span<const std::byte> body; ///< empty if bodies are not read
  std::shared_ptr<void> owner;     ///< of the body
  /// Whether columns must be copied out of the body: only the ranges of their buffers were read.
  bool temporary = false;
};

class message_source {
public:
  message_source(source from, const batch_range& range);

  /// Returns the next message; nullopt after the last one of the range.
  std::optional<source_message> next();
  /// Goes behind the message that `next` returned last. It is not read again, not even by a new
  /// message_source of this source.
  void accept();
  /// Sets how the bodies of the next messages are read, and the context whose columns are made of them.
  void take_bodies(bodies how, const std::shared_ptr<context>& ctx);
  /// Sets the columns that are read. Dictionaries of others are skipped, and the bytes of others in bodies
  /// are not read where that saves much.
  /// @param described  all columns of the source
  /// @param columns    ascending.
  void project(std::shared_ptr<const schema_index> described, std::vector<int> columns);
  /// The columns that `project` set, in messages of a version.
  const read_columns& columns(std::int16_t version);

  [[nodiscard]] container format() const noexcept { return format_; }
  /// The metadata with the schema: the footer of a file, the first message of a stream. It has a schema
  /// table (`schema_table`). It lives as long as this object.
  [[nodiscard]] std::span<const std::byte> front() const noexcept { return front_; }
  /// Lets the source fetch the next messages of a file, as `next` does, too. Bodies of a source that fetches
  /// ahead are always read. Returns the bytes that it has fetched ahead.
  std::uint64_t fetch_ahead();
  /// Batches in the range; -1 for a stream.
  [[nodiscard]] std::int64_t batch_count() const noexcept;
  /// Number in the source of the record batch that comes next.
  [[nodiscard]] std::int64_t next_batch() const noexcept { return next_batch_; }
  /// Whether the body that comes next is compressed and can't be viewed.
  [[nodiscard]] bool is_packed() const;
  /// Bytes of the record batch bodies that were accepted.
  [[nodiscard]] std::uint64_t body_bytes() const noexcept { return body_bytes_; }
  /// Call it at the end of a stream. @throws error out_of_range if it has fewer batches than requested.
  void close_range() const;

private:
  /// A message whose metadata was read.
  struct found_message {
    std::vector<std::byte> front; ///< bytes of the message before its body, or some more
    std::size_t prefix = 0;       ///< bytes of `front` before the metadata
    message_header header;
    std::uint64_t offset = 0;
    std::uint64_t body = 0; ///< offset
  };
  void open_file();
  void open_stream();
  /// Finds the message that begins at an offset. Returns nullopt at the end of a stream.
  /// @param front_bytes  bytes before its body, as the footer states; -1: as the message states.
  [[nodiscard]] std::optional<found_message> find(std::uint64_t offset, std::int64_t front_bytes = -1) const;
  [[nodiscard]] std::optional<found_message> find_next();
  [[nodiscard]] std::optional<found_message> find_in_file() const;
  [[nodiscard]] std::optional<found_message> find_in_stream();
  void require_same_form(const found_message& next);
  /// The columns that a message has; null for a dictionary that nobody reads.
  [[nodiscard]] const column_tree* tree_of(const message_header& header);
  void read_body(const found_message& at, const column_tree* tree, source_message& message);
  /// The ranges of the projected columns in the body of a batch; nullopt if they are half of it or more.
  [[nodiscard]] std::optional<std::vector<buffer_place>> few_ranges(const batch_layout& layout,
                                                                    const column_tree& tree) const;
  /// Waits for a body. @throws error format if the source does not have all of it. @param kept  whether it
  /// will be read.
  void bring_body(const found_message& at, bool kept) const;
  [[nodiscard]] std::int64_t end_of_range() const noexcept;
  [[nodiscard]] fetch_window::messages all_messages();
  /// Returns memory of the context for a body that is fetched ahead; null unless as much stays free.
  /// @param held  bytes that are held already
  [[nodiscard]] std::shared_ptr<std::byte> memory_ahead(std::uint64_t bytes, std::uint64_t held) const;
  /// Returns memory for the body of the message that comes next. What was fetched ahead may be in it.
  [[nodiscard]] owned_bytes body_memory(std::uint64_t at, std::size_t bytes);
  /// The number, among `all_messages`, of the one that comes next.
  [[nodiscard]] std::size_t next_message() const noexcept;
  [[nodiscard]] const message_block& block(std::size_t number) const noexcept;
  [[nodiscard]] std::vector<byte_range> ranges_of(std::size_t number);

  source from_;
  container format_;
  batch_range range_;
  bodies how_ = bodies::none;
  std::shared_ptr<context> ctx_;                  ///< null if bodies are not read
  std::shared_ptr<const schema_index> described_; ///< null: nothing is projected
  std::vector<int> columns_;
  std::array<std::unique_ptr<read_columns>, 2> trees_; ///< for versions 4 and 5
  known_ids known_ids_;
  std::optional<std::pair<std::int16_t, std::size_t>> form_; ///< of all messages: version, prefix bytes
  std::uint64_t at_ = 0;                                     ///< in a stream: where the next message begins
  bool ended_ = false;                                       ///< the stream has ended
  bool views_ = false; ///< the body of the last message was a view, so metadata is read in memory too
  std::vector<std::byte> front_;        ///< the footer of a file, the schema message of a stream
  file_footer footer_;                  ///< for a file only
  std::unique_ptr<fetch_window> ahead_; ///< for a file whose source fetches ahead
  std::size_t next_dictionary_ = 0;
  std::int64_t next_batch_ = 0;
  std::uint64_t body_bytes_ = 0;
  message_kind given_ = message_kind::schema; ///< of the message that was returned last; a schema: none
  std::uint64_t given_end_ = 0;               ///< end of that message in the source
  std::uint64_t given_bytes_ = 0;             ///< bytes of its body
  std::uint64_t given_front_ = 0;             ///< bytes before its body
  std::uint64_t usual_front_ = 4096;          ///< `given_front_` of the previous message, or a guess
};

inline constexpr std::int64_t small_gap = 4096; ///< bytes; reading them costs less than another call

/// Returns the ranges of the columns, ascending. Ranges with gaps of at most so many bytes are joined; -1: none
/// are.
/// @param batch  has the entries that the tree needs.
std::vector<buffer_place> body_ranges(const batch_layout& batch, const column_tree& tree,
                                      std::int64_t joined_gap = small_gap);

} // namespace saeta::ipc::detail
