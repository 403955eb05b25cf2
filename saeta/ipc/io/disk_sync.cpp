#include "saeta/ipc/io/disk_sync.hpp"

#include "saeta/base/interruptible_wait.hpp"
#include "saeta/base/os_error.hpp"

#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace saeta::ipc::detail {
namespace {

/// Returns the errno of fsync; 0: success.
int sync_descriptor(int descriptor) { return ::fsync(descriptor) == 0 ? 0 : errno; }

/// State shared by the thread that calls fsync and the thread that waits for the result.
struct pending_sync {
  explicit pending_sync(int of) : descriptor(::fcntl(of, F_DUPFD_CLOEXEC, 0)) {}
  pending_sync(const pending_sync&) = delete;
  pending_sync& operator=(const pending_sync&) = delete;
  ~pending_sync() {
    if (descriptor >= 0) {
      ::close(descriptor);
    }
  }

  int descriptor;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<int> result;
};

/// Calls fsync on another thread, because fsync itself can't be interrupted. Returns nullopt if no thread or
/// descriptor is available.
std::optional<int> sync_interruptibly(int descriptor) {
  const auto shared = std::make_shared<pending_sync>(descriptor);
  if (shared->descriptor < 0) {
    return std::nullopt;
  }
  try {
    std::thread([shared] {
      const int result = sync_descriptor(shared->descriptor);
      const std::lock_guard lock(shared->mutex);
      shared->result = result;
      shared->changed.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return std::nullopt;
  }
  std::unique_lock lock(shared->mutex);
  wait_interruptibly(shared->changed, lock, std::chrono::steady_clock::time_point::max(),
                     [&] { return shared->result.has_value(); });
  return shared->result;
}

} // namespace

void sync_file(int descriptor, const std::filesystem::path& name) {
  std::optional<int> failure;
  if (has_interrupt_hook()) {
    failure = sync_interruptibly(descriptor);
  }
  if (!failure) {
    failure = sync_descriptor(descriptor);
  }
  if (*failure != 0) {
    throw os_error("write", name, *failure);
  }
}

void close_unused(int descriptor) noexcept {
  constexpr off_t quickly_gone = off_t{64} << 20;
  struct stat status {};
  if (has_interrupt_hook() && ::fstat(descriptor, &status) == 0 && status.st_size > quickly_gone) {
    try {
      std::thread([descriptor] { ::close(descriptor); }).detach();
      return;
    } catch (const std::system_error&) { // no thread is available
    }
  }
  ::close(descriptor);
}

folder_sync::folder_sync(std::filesystem::path file) : file_(std::move(file)) {
  const auto folder = file_.has_parent_path() ? file_.parent_path() : std::filesystem::path(".");
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (descriptor_ < 0 && errno != EACCES) {
    throw os_error("write", file_, errno);
  }
}

folder_sync::~folder_sync() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

void folder_sync::wait() {
  const int failure = descriptor_ < 0 ? 0 : sync_descriptor(descriptor_);
  if (failure != 0 && failure != EINVAL &&
      failure != ENOTSUP) { // EINVAL, ENOTSUP: the file system can't sync folders
    throw os_error(concat("'", file_.string(),
                          "' is written and in place, but its folder can't be synced, so a ",
                          "crash of the system may lose it"),
                   failure);
  }
}

} // namespace saeta::ipc::detail
