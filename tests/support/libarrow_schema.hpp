// Reads the schema of an IPC file or stream with libarrow.
#pragma once

#include "saeta/bridge/arrow_status.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/ipc/io/source.hpp"

#include <arrow/buffer.h>
#include <arrow/c/bridge.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/type.h>

#include <memory>
#include <optional>
#include <span>

namespace saeta::support {

/// Returns nullopt if libarrow refuses the metadata, or if Saeta does not support the schema.
inline std::optional<schema> schema_of_libarrow(std::span<const std::byte> bytes) {
  const auto content = std::make_shared<arrow::Buffer>(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                       static_cast<std::int64_t>(bytes.size()));
  const auto input = std::make_shared<arrow::io::BufferReader>(content);
  try {
    std::shared_ptr<arrow::Schema> found;
    if (ipc::detail::recognise(*ipc::detail::source_of(bytes, nullptr)) == ipc::container::file) {
      found = bridge::take(arrow::ipc::RecordBatchFileReader::Open(input), "file")->schema();
    } else {
      arrow::ipc::DictionaryMemo dictionaries;
      found = bridge::take(arrow::ipc::ReadSchema(input.get(), &dictionaries), "stream");
    }
    arrow_schema exported;
    bridge::check(arrow::ExportSchema(*found, exported.out()), "schema");
    return import_schema(exported.get());
  } catch (const error&) {
    return std::nullopt;
  }
}

} // namespace saeta::support
