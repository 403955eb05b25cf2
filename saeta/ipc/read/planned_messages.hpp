// Where the messages of a source lie, found before a body is read.
//
// What      Of a file from its footer, of a stream by a walk from message to message. Only what a plan over
//           the whole read can take is found (whole_read.hpp): messages of metadata version 5 in this
//           machine's byte order.
// Order     Dictionaries are numbered together with the batches: one counts for what comes after it, of a
//           file for everything.
// Failure   error format naming the batch, io.
// Standard  Arrow's File.fbs, Message.fbs and Schema.fbs.
#pragma once

#include "saeta/ipc/container.hpp"
#include "saeta/ipc/format/flat_table.hpp"
#include "saeta/ipc/format/message_metadata.hpp"
#include "saeta/staging/scatter.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

/// Bytes of a source by position, in memory of this. The source outlives it.
class source_window {
public:
  explicit source_window(const scatter_source& from) : from_(from) {}
  /// Valid until the next call that reads other bytes. @throws error format where the source has fewer.
  [[nodiscard]] std::span<const std::byte> read(std::uint64_t position, std::size_t bytes);
  [[nodiscard]] std::uint64_t size() const noexcept { return from_.bytes; }

private:
  const scatter_source& from_;
  std::vector<std::byte> memory_;
  std::uint64_t held_at_ = 0;
  std::size_t held_ = 0; ///< bytes of the memory that are those of the source
};

struct planned_message {
  std::uint64_t metadata = 0; ///< byte of the source where its FlatBuffer begins
  std::size_t metadata_bytes = 0;
  std::uint64_t body = 0; ///< byte of the source
  std::size_t order = 0;
  bool prefixed = false; ///< `metadata` begins with the prefix, and may end with padding
};

struct planned_dictionary {
  planned_message message;
  std::int64_t id = 0;
  bool delta = false;
};

/// What a message says of itself.
struct message_header {
  static constexpr int schema = 1;
  static constexpr int dictionary_batch = 2;
  static constexpr int record_batch = 3;

  bool planned = false; ///< of the version that plans take
  int kind = 0;
  std::int64_t body_bytes = 0;
  std::optional<flat_table> header;
};

/// @throws error format.
message_header read_header(std::span<const std::byte> metadata);

/// The prefix of a message: the bytes of its FlatBuffer, -1 for one of older versions, 0 for the end of a
/// stream.
std::int64_t read_prefix(std::span<const std::byte> prefix);

struct planned_messages {
  std::vector<planned_message> batches; ///< those of the range
  std::vector<planned_dictionary> dictionaries;
  std::int64_t first_batch = 0; ///< number of the first of them in the source
  std::int64_t passed = 0;      ///< batches of a stream up to the end of the range, or its own
  bool file = false;
  std::vector<std::byte> schema; ///< FlatBuffer with the schema table
};

/// Nothing where a plan can't take the source.
/// @param range  [first, second) in batches of the source; the second may be beyond a stream's end.
std::optional<planned_messages> find_messages(source_window& from, container format, const std::string& name,
                                              const std::pair<std::int64_t, std::int64_t>& range);

/// The schema table of `found.schema`.
flat_table schema_table(const planned_messages& found);

} // namespace saeta::ipc::detail
