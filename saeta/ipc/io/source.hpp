// The bytes that a reader reads: a file, memory of the caller, an object that reads ranges, or a live stream.
//
// What      `read_at` copies a range. `view` returns all bytes in memory, for columns that are views: the
//           caller's bytes, or a file that is mapped at the first call. If the file is shortened, access to a
//           lost page of the mapping ends the process with SIGBUS, while `read_at` throws an error. Code that
//           copies anyway therefore uses `read_at`.
// Live      A pipe or a socket (io/source.cpp) is read forward, and only the requested bytes. A message
//           therefore requests its parts with `available`, one after the other, before it reads them.
// Owner     Shared by the reader and everything that views the bytes.
// Thread    Any; a live source: one.
// Failure   error io with the source, the offset and the bytes: refused by the system, or the source became
//           shorter.

#pragma once

#include "saeta/ipc/common.hpp"

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

  /// The name for messages: the path, or "bytes".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Bytes when the source was opened; for a live source, the bytes that have arrived.
  [[nodiscard]] virtual std::uint64_t size() const noexcept { return size_; }
  /// Returns how many bytes there are from `offset` on, at most `most`. A live source waits for them; fewer
  /// mean its end.
  /// @param kept  whether they will be read. If not, a live source drops them.
  [[nodiscard]] virtual std::uint64_t available(std::uint64_t offset, std::uint64_t most,
                                                [[maybe_unused]] bool kept = true) const {
    return offset < size_ ? std::min(most, size_ - offset) : 0;
  }
  /// Promises that bytes before `offset` are not read again.
  virtual void forget_before([[maybe_unused]] std::uint64_t offset) const {}
  /// Whether the source is read forward only, and only the requested bytes.
  [[nodiscard]] virtual bool live() const noexcept { return false; }
  /// Fills the target with the bytes from `offset` on.
  virtual void read_at(std::uint64_t offset, std::span<std::byte> target) const = 0;
  /// Returns all bytes; empty if the source is not in memory and can't be mapped. @throws error io.
  [[nodiscard]] virtual std::span<const std::byte> view() const { return {}; }
  /// Whether a read of a few bytes costs little: the source is a file or in memory.
  [[nodiscard]] virtual bool near_by() const noexcept { return false; }
  /// Whether `fetch_ahead` does something: each read is a request, and several at once take no longer.
  [[nodiscard]] virtual bool fetches_ahead() const noexcept { return false; }
  /// Begins to read ranges that will be needed, and returns at once. Their bytes are kept until the result is
  /// dropped, and `read_at` copies them.
  [[nodiscard]] virtual std::shared_ptr<void>
  fetch_ahead([[maybe_unused]] std::span<const byte_range> ranges) const {
    return nullptr;
  }

protected:
  byte_source(std::string name, std::uint64_t size) : name_(std::move(name)), size_(size) {}

private:
  std::string name_;
  std::uint64_t size_;
};

using source = std::shared_ptr<const byte_source>;

/// @param keep_open  false: the file is opened again for a read if many others were read meanwhile. A file
/// that was replaced or changed since is then an error.
/// @throws error io: missing, not a regular file (a directory, for example), unreadable.
source open_source(const std::filesystem::path& file, bool keep_open = true);
/// @param keepalive  keeps the bytes alive.
source source_of(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive);
/// @param read   as byte_source::read_at.
/// @param fetch  as byte_source::fetch_ahead. Then `read` sends the requests for a large range itself. Null:
/// large ranges are split into several concurrent calls of `read`.
source source_of(std::string name, std::uint64_t size, source_reader read, source_fetcher fetch = nullptr);

/// @param read_some  fills the beginning of the target, which is never empty, and returns the number of
/// bytes, 0 at the end. Called on the reader's thread.
source live_source_of(std::string name, std::function<std::size_t(std::span<std::byte> target)> read_some);

/// Returns whether the whole range lies in the bytes; true for an empty range.
bool contains(std::span<const std::byte> bytes, const void* data, std::size_t size) noexcept;

/// Distinguishes a file (it begins and ends with the magic) from a stream (it begins with a message).
/// @throws error format: empty, neither format, or a truncated file; io.
container recognise(const byte_source& from);

} // namespace saeta::ipc::detail
