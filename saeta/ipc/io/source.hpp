// The bytes that a reader reads: a file, memory of the caller, an object that reads ranges for us, or a live stream.
//
// What      Ranges are copied with `read_at`. `view` is all bytes in memory, for those who keep columns as views: the caller's
//           bytes as they are, a file mapped when it is first asked for. A mapped page that is gone because somebody cut the
//           file short ends the process with SIGBUS; `read_at` says so by an error. So whoever copies anyway uses `read_at`.
// Live      A pipe or a socket (io/live_source.hpp) is read forward, and only what is asked for. So a message asks with
//           `available` for its parts, one after the other, before it reads them.
// Owner     Shared by the reader and everything that views the bytes.
// Thread    Any.
// Failure   error io naming the source, the offset and the bytes: refused by the system, or the source has become shorter.
#pragma once

#include "saeta/ipc/container.hpp"

#include <algorithm>
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
  /// Bytes, as they were when it was opened; of a live source those that have come.
  [[nodiscard]] virtual std::uint64_t size() const noexcept { return size_; }
  /// How many bytes there are from `offset` on, at most `most`. A live source waits for them, and fewer are its end.
  /// @param kept  whether they will be read: a live source drops them otherwise.
  [[nodiscard]] virtual std::uint64_t available(std::uint64_t offset, std::uint64_t most,
                                                [[maybe_unused]] bool kept = true) const {
    return offset < size_ ? std::min(most, size_ - offset) : 0;
  }
  /// Bytes before `offset` are not read again.
  virtual void forget_before([[maybe_unused]] std::uint64_t offset) const {}
  /// Whether it is read forward only, each byte when it is asked for.
  [[nodiscard]] virtual bool live() const noexcept { return false; }
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

/// @param read_some  fills the beginning of the target, which is not empty, and returns how many bytes; 0 at the end. Called on the
/// thread of the reader.
source live_source_of(std::string name, std::function<std::size_t(std::span<std::byte> target)> read_some);

/// True when all of a non-empty range lies in the bytes; an empty one always does.
bool contains(std::span<const std::byte> bytes, const void* data, std::size_t size) noexcept;

/// Tells a file (it begins and ends with the magic) from a stream (it begins with a message).
/// @throws error format: empty, neither of them, or a file that was cut off; io.
container recognise(const byte_source& from);

} // namespace saeta::ipc::detail
