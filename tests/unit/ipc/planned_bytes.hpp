// Bytes of a file or stream as a request to plan a read of them.
#pragma once

#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/ipc/read/planned_source.hpp"

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace saeta::ipc::detail {

/// Must outlive what is planned of it.
class planned_bytes {
public:
  explicit planned_bytes(std::string bytes)
      : bytes_(std::move(bytes)), from_(source_of(std::as_bytes(std::span(bytes_)), nullptr)),
        messages_(from_, std::nullopt), described_(std::make_shared<const schema_index>(
                                            read_schema(messages_.format(), messages_.front()).fields)),
        projected_(project(described_->fields(), std::nullopt, "bytes")) {}
  planned_bytes(const planned_bytes&) = delete;
  planned_bytes& operator=(const planned_bytes&) = delete;

  [[nodiscard]] read_request request() const {
    return {.from = from_,
            .format = messages_.format(),
            .front = messages_.front(),
            .described = described_,
            .projected = &projected_,
            .fields = described_,
            .batches = {0, std::numeric_limits<std::int64_t>::max()}};
  }
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

private:
  std::string bytes_;
  source from_;
  message_source messages_;
  std::shared_ptr<const schema_index> described_;
  projection projected_;
};

} // namespace saeta::ipc::detail
