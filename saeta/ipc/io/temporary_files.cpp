#include "saeta/ipc/io/temporary_files.hpp"

#include "saeta/base/text.hpp"

#include <cstdint>
#include <random>
#include <string_view>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace saeta::ipc::detail {
namespace {

constexpr std::string_view begin = ".saeta-";
constexpr std::string_view end = ".tmp";

bool is_temporary(const std::string& name) {
  if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end)) {
    return false;
  }
  const auto number = std::string_view(name).substr(begin.size(), name.size() - begin.size() - end.size());
  return number.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void remove_if_stale(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) {
    return;
  }
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
    ::unlink(file.c_str()); // under the lock, so that a writer that locks it later sees that it is gone
  }
  ::close(descriptor);
}

} // namespace

std::filesystem::path temporary_name(const std::filesystem::path& folder) {
  std::random_device random;
  const auto number = std::uniform_int_distribution<std::uint64_t>()(random);
  return folder / concat(begin, hexadecimal(number), end);
}

void remove_stale_files(const std::filesystem::path& folder, std::size_t most) noexcept {
  try {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (most-- == 0) {
        return;
      }
      if (is_temporary(entry.path().filename().string())) {
        remove_if_stale(entry.path());
      }
    }
  } catch (const std::exception&) { // a writable folder need not be readable
    return;
  }
}

bool lock_new_file(int descriptor) noexcept {
  if (::flock(descriptor, LOCK_EX) != 0) {
    return true;
  }
  struct stat status {};
  return ::fstat(descriptor, &status) != 0 || status.st_nlink != 0;
}

} // namespace saeta::ipc::detail
