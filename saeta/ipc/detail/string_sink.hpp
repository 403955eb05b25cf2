// An output stream of libarrow that collects its bytes in a string.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <arrow/status.h>

#include <cstdint>
#include <string>
#include <utility>

namespace saeta::ipc::detail {

class string_sink final : public arrow::io::OutputStream {
public:
  ~string_sink() override = default;

  using arrow::io::OutputStream::Write;
  arrow::Status Write(const void* data, std::int64_t bytes) override {
    text_.append(static_cast<const char*>(data), static_cast<std::size_t>(bytes));
    return arrow::Status::OK();
  }
  [[nodiscard]] arrow::Result<std::int64_t> Tell() const override {
    return static_cast<std::int64_t>(text_.size());
  }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  [[nodiscard]] bool closed() const override { return closed_; }

  [[nodiscard]] std::string take() noexcept { return std::exchange(text_, {}); }

private:
  std::string text_;
  bool closed_ = false;
};

} // namespace saeta::ipc::detail
