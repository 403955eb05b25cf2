// Encodes messages of a file or stream in any thread and writes them in order. Uses libarrow.
//
// What      Batches are encoded independently, so several can be encoded in parallel. A dictionary is written
//           before the first batch that needs it, once if it stays the same. If it only grew, a delta adds
//           the new values, in a file always and in a stream if that was requested. Otherwise a stream writes
//           it again. A file keeps a longer dictionary that begins with the values of a batch.
// Owner     Borrows the sink, which stays open.
// Thread    `encode`: any. Other methods: one.
// Failure   Errors of libarrow, converted by arrow_status.hpp; unsupported: a dictionary that would have to
//           be replaced in a file. The message begins with `name`, the file.
#pragma once

#include "saeta/ipc/container.hpp"

#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/writer.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

namespace saeta::ipc::detail {

class message_writer {
public:
  message_writer(arrow::io::OutputStream* sink, const std::shared_ptr<arrow::Schema>& described,
                 arrow::ipc::IpcWriteOptions encoding, container format, std::string name);

  [[nodiscard]] arrow::ipc::IpcPayload encode(const arrow::RecordBatch& rows, std::int64_t number) const;
  /// The same with another codec than the one of the constructor.
  [[nodiscard]] arrow::ipc::IpcPayload encode(const arrow::RecordBatch& rows, std::int64_t number,
                                              std::shared_ptr<arrow::util::Codec> codec) const;
  /// @param encoded  the payload that `encode` returned for the batch.
  void write(const arrow::RecordBatch& rows, const arrow::ipc::IpcPayload& encoded);
  void close();

private:
  [[nodiscard]] arrow::ipc::IpcPayload encode(const arrow::RecordBatch& rows, std::int64_t number,
                                              const arrow::ipc::IpcWriteOptions& encoding) const;
  void write_dictionaries(const arrow::RecordBatch& rows);
  void write_dictionary(std::int64_t id, const std::shared_ptr<arrow::Array>& values);
  [[noreturn]] void refuse_change(std::int64_t id) const;
  void put(const arrow::ipc::IpcPayload& message);

  arrow::ipc::IpcWriteOptions encoding_;
  container format_;
  std::string name_;
  std::shared_ptr<arrow::Schema> described_;
  arrow::ipc::DictionaryFieldMapper fields_;
  std::unique_ptr<arrow::ipc::internal::IpcPayloadWriter> target_;
  std::unordered_map<std::int64_t, std::shared_ptr<arrow::Array>> written_; ///< dictionaries by id
};

} // namespace saeta::ipc::detail
