// The positions of a source's messages, found before any body is read.
//
// What      Messages of a file are found in its footer, those of a stream by walking from message to message.
//           Only sources that a plan can take (whole_read.hpp) are supported: metadata version 5 in this
//           machine's byte order.
// Order     `order` numbers dictionaries and batches together. In a stream a dictionary applies to later
//           messages, in a file to all (`of_file`).
// Failure   error format with the batch, io.
// Standard  Arrow's File.fbs, Message.fbs and Schema.fbs.
#pragma once

#include "saeta/ipc/container.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/staging/scatter.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
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
  std::uint64_t metadata = 0; ///< position in the source where its FlatBuffer begins
  std::size_t metadata_bytes = 0;
  std::uint64_t body = 0; ///< position in the source
  std::size_t order = 0;
  bool prefixed = false;          ///< `metadata` begins with the prefix and may end with padding
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

/// Reads the prefix of a message. Returns the bytes of its FlatBuffer; -1: an older format; 0: the end of a
/// stream.
std::int64_t read_prefix(std::span<const std::byte> prefix);

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

} // namespace saeta::ipc::detail
