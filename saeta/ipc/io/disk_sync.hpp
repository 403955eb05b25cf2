// Waiting for the disk.
#pragma once

#include <filesystem>

namespace saeta::ipc::detail {

/// Waits until the disk has a file's bytes. An interrupt (base/interrupt.hpp) ends the wait: the disk goes on, and the descriptor may
/// be closed. @throws error io naming `name`.
void sync_file(int descriptor, const std::filesystem::path& name);

/// Closes a file that nobody wants. The system takes back a large one's bytes meanwhile, about a second for ten GB: where waits can be
/// interrupted, that is not waited for.
void close_unwanted(int descriptor) noexcept;

/// The folder that a file is in, open from before the file gets its name. One that may not be read is not synced: its entries wait
/// for the system's own sync.
class folder_sync {
public:
  /// @throws error io naming `file`, where there is no descriptor for it.
  explicit folder_sync(std::filesystem::path file);
  folder_sync(const folder_sync&) = delete;
  folder_sync& operator=(const folder_sync&) = delete;
  ~folder_sync();

  /// Waits until the disk has the entries, unless the file system syncs no folders. @throws error io.
  void wait();

private:
  std::filesystem::path file_;
  int descriptor_;
};

} // namespace saeta::ipc::detail
