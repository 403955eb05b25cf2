// Unnamed files in memory that nobody can change any more: how host memory passes between processes.
//
// What      A file without a name leaves nothing behind in a file system, even if nobody is left who could
//           remove it. Seals protect readers against writers, and against SIGBUS.
#pragma once

#include "saeta/share/descriptor.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

namespace saeta::sharing {

/// Writes the contents one after the other, and seals the file. @throws error io, and what the interrupt hook
/// throws.
[[nodiscard]] descriptor make_sealed_file(const char* name,
                                          std::initializer_list<std::span<const std::byte>> contents);

/// @throws error format if the file could change, or has fewer bytes.
void require_sealed(int file, std::uint64_t bytes);

/// The first bytes of a file, mapped for reading. They need no descriptor.
class file_mapping {
public:
  /// @param kept  dropped once the bytes are unmapped. @throws error format (as require_sealed), io.
  file_mapping(int file, std::uint64_t bytes, std::shared_ptr<void> kept);
  file_mapping(const file_mapping&) = delete;
  file_mapping& operator=(const file_mapping&) = delete;
  ~file_mapping();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

private:
  std::shared_ptr<void> kept_;
  std::span<const std::byte> bytes_;
};

} // namespace saeta::sharing
