// Encodes messages of a file or stream in any thread and writes them in order.
//
// What      Batches are encoded independently, so several can be encoded in parallel. A dictionary is written
//           before the first batch that needs it, once if it stays the same. If it only grew, a delta adds
//           the new values, in a file always and in a stream if that was requested. Otherwise a stream writes
//           it again. A file keeps a longer dictionary that begins with the values of a batch.
// Owner     Borrows the target, which is not finished by `close`.
// Thread    `encode` and `compress`: any. Other methods: one.
// Failure   format and out_of_range: a column that contradicts itself; unsupported: a dictionary that would
//           have to be replaced in a file; budget_exceeded. The message begins with `name`, the file.
// Standard  Arrow IPC format.
#pragma once

#include "saeta/ipc/codec/block_codec.hpp"
#include "saeta/ipc/container.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/metadata_encoder.hpp"
#include "saeta/ipc/write/encoded_rows.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace saeta::ipc::detail {

/// What all messages of a file or stream have in common.
struct message_options {
  container format = container::file;
  bool deltas = false;                      ///< in streams; files always have them
  std::shared_ptr<const block_codec> codec; ///< null: bodies are not compressed
  std::shared_ptr<budget> charged;          ///< compressed bytes; null: none are made
};

class message_writer {
public:
  /// Writes the schema.
  message_writer(byte_target& target, const schema& described, message_options options, std::string name);

  /// @param number  of the batch, for messages
  [[nodiscard]] encoded_rows encode(const host_batch& rows, std::int64_t number) const;
  /// The same without compression.
  [[nodiscard]] encoded_rows encode_plain(const host_batch& rows, std::int64_t number) const;
  /// Writes the dictionaries of a batch, as far as they are not written, and the batch.
  /// @param rows     their dictionaries own their memory
  /// @param encoded  what `encode` returned for the batch
  void write(const host_batch& rows, const encoded_rows& encoded);
  /// Writes the end.
  void close();

private:
  void compress(encoded_rows& of) const;
  void write_dictionaries(const column_tree& tree, std::size_t node, const host_array& of);
  void write_dictionary(std::size_t number, const std::shared_ptr<const host_array>& values);
  [[noreturn]] void refuse_change(std::size_t number) const;
  /// Writes a message, and notes where it is.
  void put(const encoded_rows& encoded, const batch_kind& kind, std::vector<message_block>& blocks);
  void put_front(std::vector<std::byte> bytes);
  void put_body(const encoded_rows& encoded);

  byte_target& target_;
  schema described_;
  message_options options_;
  std::string name_;
  std::vector<std::byte> flat_; ///< the schema message
  read_columns columns_;
  std::vector<std::shared_ptr<const host_array>> written_; ///< values of each dictionary in its last message
  file_footer blocks_;
};

} // namespace saeta::ipc::detail
