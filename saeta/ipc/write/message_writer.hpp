// The messages of a file or stream, on libarrow: encoded by any thread, written in their order.
//
// What      A batch becomes a payload without regard to the others, so several are encoded at once.
//           Dictionaries go in front of the first batch that needs them: once where they stay the same, and
//           in streams again where they change, as a delta where that was asked for and they only grew.
// Owner     Borrows the sink, which stays open.
// Thread    `encode`: any. The others: one.
// Failure   As arrow_status.hpp turns what libarrow says into errors; `name`, the file, begins the message.
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
  /// The same with a codec that takes the place of the one that this was made with.
  [[nodiscard]] arrow::ipc::IpcPayload encode(const arrow::RecordBatch& rows, std::int64_t number,
                                              std::shared_ptr<arrow::util::Codec> codec) const;
  /// @param encoded  what `encode` made of the batch.
  void write(const arrow::RecordBatch& rows, const arrow::ipc::IpcPayload& encoded);
  void close();

private:
  [[nodiscard]] arrow::ipc::IpcPayload encode(const arrow::RecordBatch& rows, std::int64_t number,
                                              const arrow::ipc::IpcWriteOptions& encoding) const;
  void write_dictionaries(const arrow::RecordBatch& rows);
  void write_dictionary(std::int64_t id, const std::shared_ptr<arrow::Array>& values);
  void put(const arrow::ipc::IpcPayload& message);

  arrow::ipc::IpcWriteOptions encoding_;
  container format_;
  std::string name_;
  arrow::ipc::DictionaryFieldMapper fields_;
  std::unique_ptr<arrow::ipc::internal::IpcPayloadWriter> target_;
  std::unordered_map<std::int64_t, std::shared_ptr<arrow::Array>> written_; ///< the dictionaries, by id
};

} // namespace saeta::ipc::detail
