// Finds the integration files of the Arrow project.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

namespace saeta::support {

/// Returns their paths, sorted; empty if the files are not there (CONTRIBUTING.md says where to put them).
inline std::vector<std::filesystem::path> golden_files() {
  const char* const named = std::getenv("SAETA_SHARED_DATA"); // NOLINT(concurrency-mt-unsafe)
  const auto folder = std::filesystem::path(named != nullptr ? named : SAETA_SHARED_DATA) / "golden";
  std::vector<std::filesystem::path> found;
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return found;
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".arrow_file" || entry.path().extension() == ".stream") {
      found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

} // namespace saeta::support
