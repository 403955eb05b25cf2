// The bytes that a reader reads: a mapped file or memory of the caller.
#pragma once

#include "saeta/ipc/reader.hpp"
#include "saeta/transfer/plan.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace saeta::ipc::detail {

struct source {
  std::string name; ///< for messages: the path, or "bytes"
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keepalive;
  int descriptor = -1; ///< -1: not a file

  /// True when all of a non-empty range lies in the bytes; an empty one always does.
  [[nodiscard]] bool contains(const void* data, std::size_t size) const noexcept;
  /// The bytes as a region that may be read with `pread`; without a descriptor, nothing.
  [[nodiscard]] file_region region() const noexcept;
};

/// @throws error io.
source open_source(const std::filesystem::path& file);

/// Tells a file (it begins and ends with the magic) from a stream (it begins with a message).
/// @throws error format: empty, neither of them, or a file that was cut off.
container recognise(const source& from);

} // namespace saeta::ipc::detail
