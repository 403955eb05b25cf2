// Names of files that are being written, and what is left of those whose writers are gone.
//
// Standard  flock(2): a lock goes with the last descriptor of its open file, so with its process. A child of fork that lives on
//           keeps it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>

namespace saeta::ipc::detail {

/// ".saeta-<random number>.tmp" in a folder.
std::filesystem::path temporary_name(const std::filesystem::path& folder);

/// Removes the files with such names that nobody has locked. What can't be looked at stays.
/// @param most  names of the folder that are looked at
void remove_stale_files(const std::filesystem::path& folder,
                        std::size_t most = std::numeric_limits<std::size_t>::max()) noexcept;

/// Locks a file that has just been made under a name, so that nobody takes it for stale. False where it was removed meanwhile;
/// on a file system without locks it stays unlocked, and nobody else can lock it to remove it.
bool lock_new_file(int descriptor) noexcept;

} // namespace saeta::ipc::detail
