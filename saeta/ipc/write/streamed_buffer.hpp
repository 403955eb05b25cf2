// Buffers of a message whose bytes are not in memory when the message is encoded.
//
// What      libarrow uses their sizes for the metadata and hands them to the sink. The sink makes them write
//           their bytes in parts, in order. Other code finds no data, since the data pointer is null.
// Thread    The writing thread.
#pragma once

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>

#include <cstdint>
#include <memory>

namespace saeta::ipc::detail {

class streamed_buffer : public arrow::Buffer {
public:
  explicit streamed_buffer(std::int64_t bytes) : arrow::Buffer(nullptr, bytes) {}

  /// Writes all bytes, once.
  virtual arrow::Status pass_to(arrow::io::OutputStream& target) = 0;
};

/// An output stream that makes streamed buffers write their bytes and passes everything else on. Borrows the
/// target.
class streamed_sink final : public arrow::io::OutputStream {
public:
  explicit streamed_sink(arrow::io::OutputStream& target) : target_(target) {}
  ~streamed_sink() override = default;

  arrow::Status Write(const void* data, std::int64_t bytes) override { return target_.Write(data, bytes); }
  arrow::Status Write(const std::shared_ptr<arrow::Buffer>& data) override {
    auto* const streamed = dynamic_cast<streamed_buffer*>(data.get());
    return streamed == nullptr ? target_.Write(data) : streamed->pass_to(target_);
  }
  using arrow::io::OutputStream::Write;
  arrow::Status Flush() override { return target_.Flush(); }
  [[nodiscard]] arrow::Result<std::int64_t> Tell() const override { return target_.Tell(); }
  arrow::Status Close() override { return target_.Close(); }
  [[nodiscard]] bool closed() const override { return target_.closed(); }

private:
  arrow::io::OutputStream& target_;
};

} // namespace saeta::ipc::detail
