// Temporary names of files that are being written, and removal of stale files whose writers have ended.
//
// Standard  flock(2): a lock is released with the last descriptor of its open file, so it ends with the
//           process. A forked child that still runs keeps the lock.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>

namespace saeta::ipc::detail {

/// Returns ".saeta-<random number>.tmp" in a folder.
std::filesystem::path temporary_name(const std::filesystem::path& folder);

/// Removes the files with such names that are not locked. Files that can't be opened stay.
/// @param most  maximum number of folder entries to look at
void remove_stale_files(const std::filesystem::path& folder,
                        std::size_t most = std::numeric_limits<std::size_t>::max()) noexcept;

/// Locks a file that was just created under a name, so that no other writer takes it for stale. Returns false
/// if it was removed meanwhile. On a file system without locks the file stays unlocked; other writers can't
/// lock and remove it either.
bool lock_new_file(int descriptor) noexcept;

} // namespace saeta::ipc::detail
