// A target that hands its bytes to a function, in order.
//
// What      Small writes are gathered. A call passes at most `piece_bytes`.
// Owner     Borrows the function.
// Thread    The writing thread. It calls the function.
// Failure   Exceptions of the function.
#pragma once

#include "saeta/ipc/write/byte_target.hpp"
#include "saeta/ipc/writer.hpp"

#include <algorithm>
#include <vector>

namespace saeta::ipc::detail {

class ordered_sink final : public byte_target {
public:
  static constexpr std::size_t piece_bytes = std::size_t{4} << 20;
  static constexpr std::size_t gathered_bytes = std::size_t{64} << 10; ///< smaller writes are gathered

  explicit ordered_sink(const byte_sink& target) : target_(target) {}

  void write(std::span<const std::byte> bytes, const std::shared_ptr<const void>&) override {
    taken_ += bytes.size();
    if (gathered_.size() + bytes.size() > gathered_bytes) {
      flush();
    }
    if (bytes.size() < gathered_bytes) {
      gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
      return;
    }
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(piece_bytes, bytes.size()))) {
      target_(bytes.first(std::min(piece_bytes, bytes.size())));
    }
  }
  void flush() override {
    if (!gathered_.empty()) {
      target_(gathered_);
      gathered_.clear();
    }
  }
  std::uint64_t finish() override {
    flush();
    return taken_;
  }
  [[nodiscard]] std::uint64_t taken() const noexcept override { return taken_; }

private:
  const byte_sink& target_;
  std::vector<std::byte> gathered_;
  std::uint64_t taken_ = 0;
};

} // namespace saeta::ipc::detail
