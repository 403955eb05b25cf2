// Where the bytes of a file or stream go, in order.
//
// Owner     A target keeps the owner of bytes until they are written.
// Thread    The writing thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace saeta::ipc::detail {

class byte_target {
public:
  byte_target() = default;
  byte_target(const byte_target&) = delete;
  byte_target& operator=(const byte_target&) = delete;
  virtual ~byte_target() = default;

  /// @param owner  of the bytes; null if they live as long as the program
  virtual void write(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner) = 0;
  /// Passes on what was gathered, so that its owners are released as soon as it is written.
  virtual void flush() = 0;
  /// Waits until everything is written. Returns the number of all bytes.
  virtual std::uint64_t finish() = 0;
  /// Bytes that were taken.
  [[nodiscard]] virtual std::uint64_t taken() const noexcept = 0;
};

} // namespace saeta::ipc::detail
