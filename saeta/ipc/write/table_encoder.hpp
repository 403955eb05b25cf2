// Encodes tables, one after the other, into one file or stream.
//
// What      Each window of a table is downloaded while threads compress the previous one or write it. The
//           first table opens the file: its schema is written then, and its context pays for compressed
//           bytes. Dictionaries may grow from table to table (message_writer.hpp).
// Owner     Borrows the sink and the pool. Holds a table only while it is written.
// Thread    The thread of the pool's owner. It also calls the hook.
// Failure   As `write` in writer.hpp. After one, the encoder is of no use.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/ipc/write/message_writer.hpp"
#include "saeta/ipc/write/sinks.hpp"
#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/ipc/writer.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace saeta::ipc::detail {

/// @throws error invalid_argument: the compression has no such level, or the rows of a batch are negative.
void require_valid(const write_options& options);

class table_encoder {
public:
  /// @param name           begins error messages
  /// @param total_batches  of the one table; -1: several may follow
  table_encoder(byte_target& sink, std::string name, const write_options& options, thread_pool& pool,
                progress_hook hook, std::int64_t total_batches);
  table_encoder(const table_encoder&) = delete;
  table_encoder& operator=(const table_encoder&) = delete;
  ~table_encoder() = default;

  /// Writes the batches of a table. `fields` is the schema of the file, the same for every table. The types
  /// of the table's columns are the same (same_type.hpp).
  void write(const table& source, const schema& fields);
  /// Writes the end. @param fields  the schema of a file without tables.
  void close(const schema& fields);

private:
  void open(const schema& fields);
  void write_schema(std::shared_ptr<budget> charged);

  byte_target& sink_;
  std::string name_;
  write_options options_;
  thread_pool& pool_;
  progress_hook hook_;
  progress so_far_;
  std::optional<written_dictionaries> dictionaries_; ///< from the first table on
  std::optional<message_writer> messages_;           ///< once the schema is written
};

} // namespace saeta::ipc::detail
