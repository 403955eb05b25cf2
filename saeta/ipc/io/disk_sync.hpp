// Interruptible waits for the disk.
#pragma once

#include <filesystem>

namespace saeta::ipc::detail {

/// Waits until a file's bytes are on the disk. An interrupt (base/interrupt.hpp) ends the wait; the sync
/// continues, and the descriptor may be closed. @throws error io naming `name`.
void sync_file(int descriptor, const std::filesystem::path& name);

/// Closes a file that is no longer needed. Freeing the bytes of a large file takes about a second for ten GB.
/// If waits are interruptible, another thread closes such a file and the caller does not wait.
void close_unused(int descriptor) noexcept;

/// Syncs the folder of a file. It is opened before the file gets its name. A folder that the process may not
/// read is not synced: the system syncs its entries later.
class folder_sync {
public:
  /// @throws error io naming `file` if the folder can't be opened.
  explicit folder_sync(std::filesystem::path file);
  folder_sync(const folder_sync&) = delete;
  folder_sync& operator=(const folder_sync&) = delete;
  ~folder_sync();

  /// Waits until the entries are on the disk. Does nothing if the file system can't sync folders.
  /// @throws error io.
  void wait();

private:
  std::filesystem::path file_;
  int descriptor_;
};

} // namespace saeta::ipc::detail
