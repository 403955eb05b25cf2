// A file that appears under its name only when it is complete.
//
// What      Writes go to a temporary file in the folder of the target. `commit` syncs it, renames it over the target and
//           syncs the folder. Who has the old file open or mapped keeps the old bytes. A symbolic link is followed: the
//           file that it names is replaced.
// Owner     Owns the temporary file and its descriptor; without `commit` both are gone afterwards.
// Access    The permissions of a new file, as the process's umask gives them.
// Thread    One.
// Failure   error io with errno's text: no such folder, no permission, a full disk, or a target that is there but is no
//           regular file (a directory, a device, a pipe), which is never replaced.
#pragma once

#include <filesystem>

namespace saeta::ipc::detail {

class atomic_file {
public:
  explicit atomic_file(const std::filesystem::path& target);
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file();

  /// Of the temporary file, for writing; stays with this object.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  void commit();

private:
  void create();
  void close();

  std::filesystem::path target_;
  std::filesystem::path temporary_; ///< empty once it has become the target
  int descriptor_ = -1;
};

} // namespace saeta::ipc::detail
