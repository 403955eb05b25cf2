// A regular file as a source: read with `pread`, mapped only when a view is requested.
//
// What      Mapped bytes stay readable when another file takes the name, but not when the file is shortened
//           meanwhile. Thousands of files can be sources at the same time: those that are not kept open share
//           a limited number of descriptors.
// Owner     The mapping lives as long as the source, which is shared, and so does the descriptor of a file
//           that is kept open.
// Thread    Any.
// Failure   error io: missing, not a regular file (a directory, for example), unreadable, not mappable; a
//           file that is opened again was replaced or changed meanwhile.
#pragma once

#include "saeta/ipc/io/source.hpp"

#include <array>
#include <mutex>

namespace saeta::ipc::detail {

class file_source final : public byte_source {
public:
  static std::shared_ptr<const file_source> open(const std::filesystem::path& file, bool keep_open);
  ~file_source() override;

  void read_at(std::uint64_t offset, std::span<std::byte> target) const override;
  [[nodiscard]] std::span<const std::byte> view() const override;
  [[nodiscard]] bool near_by() const noexcept override { return true; }

private:
  /// Device, inode, size, seconds and nanoseconds of the last change of the bytes.
  using identity = std::array<std::int64_t, 5>;

  /// Closes the descriptor in its destructor.
  struct open_file {
    explicit open_file(const std::filesystem::path& file);
    open_file(const open_file&) = delete;
    open_file& operator=(const open_file&) = delete;
    ~open_file();
    int descriptor;
    identity found{};
  };
  using opened = std::shared_ptr<const open_file>;
  static void keep_for_a_while(opened file);

  file_source(const std::filesystem::path& file, const opened& found, bool keep_open);
  [[nodiscard]] opened file() const;

  identity found_;
  opened kept_; ///< null if the file is not kept open
  mutable std::mutex reopening_;
  mutable std::weak_ptr<const open_file> recent_;
  mutable std::once_flag mapping_;
  mutable std::span<const std::byte> mapped_; ///< empty for an empty file, which can't be mapped
};

} // namespace saeta::ipc::detail
