// A regular file, mapped for reading.
//
// What      The whole file as bytes, and the descriptor for those who would rather `pread`. What was mapped stays
//           readable when the name is taken by another file; a file that others shorten meanwhile does not.
// Owner     Shared by everything that views the bytes; the mapping and the descriptor go with the last.
// Thread    Immutable.
// Failure   error io: missing, a directory or another thing that is no regular file, unreadable, not mappable.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace saeta::ipc::detail {

class mapped_file {
public:
  static std::shared_ptr<const mapped_file> open(const std::filesystem::path& file);
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

private:
  explicit mapped_file(int descriptor) noexcept : descriptor_(descriptor) {}

  int descriptor_;
  std::span<const std::byte> bytes_; ///< empty for an empty file, which can't be mapped
};

} // namespace saeta::ipc::detail
