// A file that appears under its name only when it is complete.
//
// What      Writes go to a file without a name in the folder of the target, which goes with its descriptor, however the process
//           ends. `commit` gives it the name; where it replaces a file, it has another one for a moment. Who has the old file open or mapped keeps the old bytes. Where the file
//           system has no files without names, it has a name (.saeta-*.tmp) and a lock while its writer lives; writers that come
//           later remove those without.
// Target    A symbolic link is followed: the file that it names is replaced, or made. The new file has the permissions of
//           the one it replaces, and its owner and group as far as the system lets the process set them; else those of a new file.
//           A file that nobody may write, or not this process, is not replaced unless that is asked for.
// Owner     Owns the file and its descriptor; without `commit` both are gone afterwards.
// Thread    One. An interrupt (base/interrupt.hpp) ends the wait for the disk in `commit`, and the file is not named.
// Failure   error io with errno's text: no such folder, no permission, a name that is too long, a full disk, or a target that
//           is there but is no regular file (a directory, a device, a pipe), which is never replaced.
#pragma once

#include <filesystem>
#include <optional>

#include <sys/stat.h>

namespace saeta::ipc::detail {

struct file_options {
  bool durable =
      true; ///< the file is on the disk before it gets its name, and the name when `commit` returns
  bool replace_read_only = false;
};

class atomic_file {
public:
  explicit atomic_file(const std::filesystem::path& target, const file_options& options = {});
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file();

  /// Of the file, for writing; stays with this object.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  void commit();

private:
  /// False where the file system has none.
  bool create_without_name();
  void create_with_name();
  void take_over_permissions();
  void close_a_copy() const;
  void give_name();

  std::filesystem::path target_;
  file_options options_;
  std::optional<struct stat> replaced_;
  std::filesystem::path temporary_; ///< empty where the file has no name or its own
  int descriptor_ = -1;
};

} // namespace saeta::ipc::detail
