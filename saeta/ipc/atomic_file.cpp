#include "saeta/ipc/detail/atomic_file.hpp"

#include "saeta/base/report.hpp"
#include "saeta/ipc/detail/os_error.hpp"

#include <cerrno>
#include <cstdint>
#include <random>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace saeta::ipc::detail {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

std::filesystem::path resolved(const std::filesystem::path& target) {
  std::error_code missing;
  auto existing = std::filesystem::canonical(target, missing);
  return missing ? target : existing;
}

void require_replaceable(const std::filesystem::path& target) {
  struct stat status {};
  if (::stat(target.c_str(), &status) != 0) {
    return; // what is wrong with the folder shows when the temporary file is created
  }
  if (S_ISDIR(status.st_mode)) {
    throw os_error("write", target, EISDIR);
  }
  if (!S_ISREG(status.st_mode)) {
    throw error(errc::io,
                concat("can't write '", target.string(), "': it is no regular file, so it is not replaced"));
  }
}

void sync_folder(const std::filesystem::path& target) {
  const auto folder = folder_of(target);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (descriptor < 0) {
    return; // a folder may be writable without being readable: its entry then waits for the system's own sync
  }
  const int failure = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (failure != 0 && failure != EINVAL &&
      failure != ENOTSUP) { // these two: the file system syncs no folders
    throw os_error("sync the folder of", target, failure);
  }
}

} // namespace

atomic_file::atomic_file(const std::filesystem::path& target) : target_(resolved(target)) {
  require_replaceable(target_);
  create();
}

void atomic_file::create() {
  constexpr int attempts = 100;
  std::random_device random;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const auto number = std::uniform_int_distribution<std::uint64_t>()(random);
    auto candidate = folder_of(target_) / concat(".saeta-", std::hex, number, ".tmp");
    descriptor_ = ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) {
      temporary_ = std::move(candidate);
      return;
    }
    if (errno != EEXIST) {
      throw os_error("create a file beside", target_, errno);
    }
  }
  throw os_error("create a file beside", target_, EEXIST);
}

void atomic_file::close() {
  const int closing = std::exchange(descriptor_, -1);
  if (::close(closing) != 0) {
    throw os_error("write", target_, errno);
  }
}

void atomic_file::commit() {
  if (::fsync(descriptor_) != 0) {
    throw os_error("write", target_, errno);
  }
  close();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    throw os_error("write", target_, errno);
  }
  temporary_.clear();
  sync_folder(target_);
}

atomic_file::~atomic_file() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  if (!temporary_.empty() && ::unlink(temporary_.c_str()) != 0) {
    report("atomic_file", os_error("remove", temporary_, errno).message());
  }
}

} // namespace saeta::ipc::detail
