// An output stream of libarrow that hands its bytes to a function, in order.
//
// What      Small writes are gathered. A call passes at most `piece_bytes`.
// Owner     Borrows the function.
// Thread    The writing thread. It calls the function.
// Failure   Exceptions of the function. A method that libarrow calls returns them as a Status
//           (arrow_status.hpp).
#pragma once

#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/writer.hpp"

#include <arrow/io/interfaces.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

class ordered_sink final : public arrow::io::OutputStream {
public:
  static constexpr std::size_t piece_bytes = std::size_t{4} << 20;
  static constexpr std::size_t gathered_bytes = std::size_t{64} << 10; ///< smaller writes are gathered

  explicit ordered_sink(const byte_sink& target) : target_(target) {}
  ~ordered_sink() override = default;

  using arrow::io::OutputStream::Write;
  arrow::Status Write(const void* data, std::int64_t bytes) override {
    return run_guarded([&] { add({static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)}); });
  }
  [[nodiscard]] arrow::Result<std::int64_t> Tell() const override {
    return static_cast<std::int64_t>(written_);
  }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  [[nodiscard]] bool closed() const override { return closed_; }

  /// Passes on the gathered bytes.
  arrow::Status Flush() override {
    return run_guarded([&] { pass_gathered(); });
  }

  /// Passes on the gathered bytes. Returns the number of all bytes written.
  std::uint64_t finish() {
    pass_gathered();
    return written_;
  }

private:
  void add(std::span<const std::byte> bytes) {
    written_ += bytes.size();
    if (gathered_.size() + bytes.size() > gathered_bytes) {
      pass_gathered();
    }
    if (bytes.size() < gathered_bytes) {
      gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
      return;
    }
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(piece_bytes, bytes.size()))) {
      target_(bytes.first(std::min(piece_bytes, bytes.size())));
    }
  }
  void pass_gathered() {
    if (!gathered_.empty()) {
      target_(gathered_);
      gathered_.clear();
    }
  }

  const byte_sink& target_;
  std::vector<std::byte> gathered_;
  std::uint64_t written_ = 0;
  bool closed_ = false;
};

} // namespace saeta::ipc::detail
