// A file that appears under its name only when it is complete.
//
// What      Bytes are written to an unnamed file in the target's folder. It disappears with its descriptor,
//           however the process ends. `commit` gives it the target's name; if it replaces a file, it has a
//           temporary name for a moment. Processes that have the old file open or mapped keep the old bytes.
//           If the file system does not support unnamed files, the file has a temporary name (.saeta-*.tmp)
//           and a lock while its writer lives. Later writers remove such files that are not locked.
// Target    A symbolic link is followed: the file that it names is replaced or created. The new file has the
//           permissions of the file it replaces, and its owner and group if the process may set them;
//           otherwise those of a new file. A read-only file, or one that this process may not write, is
//           replaced only with `replace_read_only`.
// Owner     Owns the file and its descriptor. Without `commit` the destructor removes the file.
// Thread    One. An interrupt (base/interrupt.hpp) ends the wait for the disk in `commit`; the file then gets
//           no name.
// Failure   error io with errno's text: no such folder, no permission, name too long, full disk. An existing
//           target that is not a regular file (a directory, a device, a pipe) is never replaced: error io.
//           After a failure the target is as it was, unless the message says that the new file is there: then
//           its folder could not be synced, which is the last step.
#pragma once

#include "saeta/base/export.hpp"

#include <filesystem>
#include <optional>

#include <sys/stat.h>

namespace saeta::ipc::detail {

struct file_options {
  bool durable = true; ///< sync the file before it gets its name, and the folder before `commit` returns
  bool replace_read_only = false;
};

/// Closes a file that is no longer needed. Freeing the bytes of a large file takes about a second for ten GB.
/// If waits are interruptible, another thread closes such a file and the caller does not wait.
void close_unused(int descriptor) noexcept;

class SAETA_LOCAL atomic_file {
public:
  explicit atomic_file(const std::filesystem::path& target, const file_options& options = {});
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file();

  /// The file's descriptor for writing. This object keeps it.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  void commit();

private:
  /// Returns false if unnamed files are not supported.
  bool create_without_name();
  void create_with_name();
  void take_over_permissions();
  void close_duplicate() const;
  void give_name();

  std::filesystem::path target_;
  file_options options_;
  std::optional<struct stat> replaced_;
  std::filesystem::path temporary_; ///< temporary name; empty if the file has no name or its final one
  int descriptor_ = -1;
};

} // namespace saeta::ipc::detail
