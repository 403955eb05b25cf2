// A stream that is still being sent, as a source: a pipe, a socket, an object that can't seek.
//
// What      Reads forward and only the requested bytes: bytes behind the end of the Arrow stream stay unread.
//           The memory of a message part grows as bytes arrive, so a false length takes no memory. Bytes are
//           kept until `forget_before`, because a batch that a budget refused is decoded again.
// Owner     Owns the memory of the bytes that were read and not forgotten: one message, and the dictionaries
//           before the first batch. It is not charged to a budget, like the body of a batch while its columns
//           are copied.
// Thread    One.
// Failure   Exceptions of the function. Bytes that arrived before are kept, so a read continues after an
//           interrupt.
#pragma once

#include "saeta/ipc/io/source.hpp"

#include <cstdlib>
#include <deque>

namespace saeta::ipc::detail {

class live_source final : public byte_source {
public:
  using function = std::function<std::size_t(std::span<std::byte>)>;
  live_source(std::string name, function read_some)
      : byte_source(std::move(name), 0), read_some_(std::move(read_some)) {}

  [[nodiscard]] std::uint64_t size() const noexcept override { return came_; }
  [[nodiscard]] std::uint64_t available(std::uint64_t offset, std::uint64_t most, bool kept) const override;
  void read_at(std::uint64_t offset, std::span<std::byte> target) const override;
  void forget_before(std::uint64_t offset) const override;
  [[nodiscard]] bool live() const noexcept override { return true; }

private:
  struct freed {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  /// A part of a message: the bytes of one request.
  struct part {
    std::uint64_t offset;
    std::size_t filled = 0;
    std::size_t room = 0;
    std::unique_ptr<std::byte, freed> bytes = {};
  };
  void bring(part& to, std::uint64_t wanted) const;
  void drop(std::uint64_t bytes) const;
  [[nodiscard]] std::size_t read_some(std::span<std::byte> target) const;

  function read_some_;
  mutable std::deque<part> parts_;
  mutable std::uint64_t came_ = 0;
  mutable bool ended_ = false;
};

} // namespace saeta::ipc::detail
