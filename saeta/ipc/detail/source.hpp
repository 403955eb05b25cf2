// The bytes that a reader reads: a file, memory of the caller, or an object that reads ranges for us.
//
// What      Ranges are copied with `read_at`. `view` is all bytes in memory, for those who keep columns as views: the caller's
//           bytes as they are, a file mapped when it is first asked for. A mapped page that is gone because somebody cut the
//           file short ends the process with SIGBUS; `read_at` says so by an error. So whoever copies anyway uses `read_at`.
// Owner     Shared by the reader and everything that views the bytes.
// Thread    Any.
// Failure   error io naming the source, the offset and the bytes: refused by the system, or the source has become shorter.
#pragma once

#include "saeta/ipc/container.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace saeta::ipc::detail {

class byte_source {
public:
  byte_source(const byte_source&) = delete;
  byte_source& operator=(const byte_source&) = delete;
  virtual ~byte_source() = default;

  /// For messages: the path, or "bytes".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Bytes, as they were when it was opened.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// True when a range lies in the source.
  [[nodiscard]] bool has(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset <= size_ && bytes <= size_ - offset;
  }
  /// Fills the target with the bytes from `offset` on.
  virtual void read_at(std::uint64_t offset, std::span<std::byte> target) const = 0;
  /// All bytes; empty for a source that is not in memory and can't be mapped. @throws error io.
  [[nodiscard]] virtual std::span<const std::byte> view() const { return {}; }
  /// Of a file, for `pread`; -1: it is none.
  [[nodiscard]] virtual int descriptor() const noexcept { return -1; }

protected:
  byte_source(std::string name, std::uint64_t size) : name_(std::move(name)), size_(size) {}

private:
  std::string name_;
  std::uint64_t size_;
};

using source = std::shared_ptr<const byte_source>;

/// @throws error io: missing, a directory or another thing that is not a regular file, unreadable.
source open_source(const std::filesystem::path& file);
/// @param keepalive  keeps the bytes.
source source_of(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive);
/// @param read  as byte_source::read_at.
source source_of(std::string name, std::uint64_t size,
                 std::function<void(std::uint64_t offset, std::span<std::byte> target)> read);

/// True when all of a non-empty range lies in the bytes; an empty one always does.
bool contains(std::span<const std::byte> bytes, const void* data, std::size_t size) noexcept;

/// Tells a file (it begins and ends with the magic) from a stream (it begins with a message).
/// @throws error format: empty, neither of them, or a file that was cut off; io.
container recognise(const byte_source& from);

} // namespace saeta::ipc::detail
