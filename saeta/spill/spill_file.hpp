// The files of spilled bodies. Private to spill/.
//
// What      Files have no name: the system removes them with their last descriptor. Bodies lie one behind the
//           other in files of up to 4 GiB, because a process may have few files open. A body that ends leaves
//           a hole, whose blocks go back to the disk. Where a file system has no holes, each body has a file.
// Owner     A file lives as long as a body in it.
// Thread    Any.
// Fork      A forked child leaves the files of its parent alone.
// Failure   io, naming the folder.
#pragma once

#include "saeta/base/error.hpp"
#include "saeta/base/process.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace saeta {

/// An open file without a name.
class nameless_file {
public:
  explicit nameless_file(std::string folder);
  nameless_file(const nameless_file&) = delete;
  nameless_file& operator=(const nameless_file&) = delete;
  ~nameless_file();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] bool has_holes() const noexcept { return has_holes_; }
  /// The error of a call that has just set errno.
  [[nodiscard]] error failed(std::string_view action, int number) const;

private:
  std::string folder_;
  int descriptor_;
  bool has_holes_; ///< whether the file system can take blocks out of the middle of a file
};

/// The place of a body in a file. It becomes a hole when the place is dropped.
class file_range {
public:
  file_range(std::shared_ptr<const nameless_file> of, std::size_t offset, std::size_t bytes)
      : file_(std::move(of)), offset_(offset), bytes_(bytes) {}
  file_range(file_range&&) noexcept = default;
  file_range& operator=(file_range&&) = delete;
  ~file_range();

  /// @param at  from the beginning of the range
  void write(std::span<const std::byte> from, std::size_t at) const;
  [[nodiscard]] const nameless_file& file() const noexcept { return *file_; }
  [[nodiscard]] std::size_t offset() const noexcept { return offset_; } ///< a multiple of the page size
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
  std::shared_ptr<const nameless_file> file_; ///< null after a move
  std::size_t offset_;
  std::size_t bytes_;
  std::uint64_t made_in_ = fork_generation();
};

/// Where spilled bodies find a place.
class spill_folder {
public:
  explicit spill_folder(std::string path) : path_(std::move(path)) {}

  /// Whether no folder was chosen.
  [[nodiscard]] bool empty() const noexcept { return path_.empty(); }
  [[nodiscard]] file_range take(std::size_t bytes);

private:
  std::string path_;
  std::mutex mutex_;
  std::weak_ptr<const nameless_file> latest_;
  std::size_t used_ = 0; ///< bytes of the latest file
};

} // namespace saeta
