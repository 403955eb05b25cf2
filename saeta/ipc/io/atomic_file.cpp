#include "saeta/ipc/io/atomic_file.hpp"

#include "saeta/base/interruptible_wait.hpp"
#include "saeta/base/os_error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/executor/background_thread.hpp"

#include <cerrno>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <random>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace saeta::ipc::detail {
namespace {

constexpr int attempts = 100; ///< to find an unused name
constexpr mode_t new_file = 0666;
constexpr mode_t permission_bits = 07777;
constexpr mode_t identity_bits = S_ISUID | S_ISGID; ///< a program runs as the file's owner or group

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

/// The status of a path, without following symbolic links; nullopt if the path does not exist.
std::optional<struct stat> status_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    return status;
  }
  if (errno != ENOENT) {
    throw os_error("write", path, errno);
  }
  return std::nullopt;
}

/// The file to replace or create: the end of the chain of symbolic links, which need not exist.
std::filesystem::path resolve_links(const std::filesystem::path& target) {
  constexpr int most_links = 40; // the system's limit
  std::filesystem::path at = target;
  for (int links = 0; links <= most_links; ++links) {
    const auto status = status_of(at);
    if (!status || !S_ISLNK(status->st_mode)) {
      return at;
    }
    std::error_code failure;
    const auto next = std::filesystem::read_symlink(at, failure);
    if (failure) {
      throw os_error("write", at, failure.value());
    }
    at = folder_of(at) / next; // an absolute link target replaces the folder
  }
  throw os_error("write", target, ELOOP);
}

void require_replaceable(const std::filesystem::path& target, const struct stat& status,
                         bool replace_read_only) {
  if (S_ISDIR(status.st_mode)) {
    throw os_error("write", target, EISDIR);
  }
  if (!S_ISREG(status.st_mode)) {
    throw error(errc::io, concat("can't write '", target.string(),
                                 "': it is not a regular file, so it is not replaced"));
  }
  // For root, `faccessat` reports every file as writable, so the permission bits are checked as well.
  const bool writable = (status.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) != 0 &&
                        ::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) == 0;
  if (!writable && !replace_read_only) {
    throw os_error(concat("can't write '", target.string(),
                          "': it is read-only, so it is replaced only with replace_read_only"),
                   EACCES);
  }
}

std::filesystem::path path_of(int descriptor) { return concat("/proc/self/fd/", descriptor); }

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
    ::unlink(file.c_str()); // under the lock, so that a writer that locks the file later finds it removed
  }
  ::close(descriptor);
}

/// Returns ".saeta-<random number>.tmp" in a folder.
std::filesystem::path temporary_name(const std::filesystem::path& folder) {
  std::random_device random;
  const auto number = std::uniform_int_distribution<std::uint64_t>()(random);
  return folder / concat(begin, hexadecimal(number), end);
}

/// Removes the files with such names that are not locked. Files that can't be opened stay.
/// @param most  maximum number of folder entries to look at
void remove_stale_files(const std::filesystem::path& folder,
                        std::size_t most = std::numeric_limits<std::size_t>::max()) noexcept {
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

/// Locks a file that was just created under a name, so that no other writer takes it for stale. Returns false
/// if it was removed meanwhile. The lock ends with the last descriptor of its open file (flock(2)), and so
/// with the process; a forked child that still runs keeps it. On a file system without locks the file stays
/// unlocked; other writers can't lock and remove it either.
bool lock_new_file(int descriptor) noexcept {
  if (::flock(descriptor, LOCK_EX) != 0) {
    return true;
  }
  struct stat status {};
  return ::fstat(descriptor, &status) != 0 || status.st_nlink != 0;
}

/// Returns the errno of fsync; 0: success.
int sync_descriptor(int descriptor) { return ::fsync(descriptor) == 0 ? 0 : errno; }

/// Calls fsync on another thread, because fsync itself can't be interrupted. Returns nullopt if no thread or
/// descriptor is available.
std::optional<int> sync_interruptibly(int descriptor) {
  const auto sync = std::make_shared<std::packaged_task<int(int)>>([](int copy) {
    const int failure = sync_descriptor(copy);
    ::close(copy);
    return failure;
  });
  std::future<int> failure = sync->get_future();
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0); // the caller may close its own after an interrupt
  if (copy < 0) {
    return std::nullopt;
  }
  background_thread thread("saeta-sync");
  if (!thread.start([sync, copy] { (*sync)(copy); })) {
    ::close(copy);
    return std::nullopt;
  }
  thread.detach();
  do {
    check_interrupt();
  } while (failure.wait_for(wait_interval()) != std::future_status::ready);
  return failure.get();
}

/// Waits until a file's bytes are on the disk. An interrupt (base/interrupt.hpp) ends the wait; the sync goes
/// on, and the descriptor may be closed. @throws error io naming `name`.
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

/// Syncs the folder of a file. It is opened before the file gets its name. A folder that the process may not
/// read is not synced: the system syncs its entries later.
class folder_sync {
public:
  /// @throws error io naming `file` if the folder can't be opened.
  explicit folder_sync(const std::filesystem::path& file)
      : file_(file), descriptor_(::open(folder_of(file).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY)) {
    if (descriptor_ < 0 && errno != EACCES) {
      throw os_error("write", file_, errno);
    }
  }
  folder_sync(const folder_sync&) = delete;
  folder_sync& operator=(const folder_sync&) = delete;
  ~folder_sync() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }

  /// Waits until the entries are on the disk. Does nothing if the file system can't sync folders (EINVAL,
  /// ENOTSUP). @throws error io.
  void wait() const {
    const int failure = descriptor_ < 0 ? 0 : sync_descriptor(descriptor_);
    if (failure != 0 && failure != EINVAL && failure != ENOTSUP) {
      throw os_error(concat("'", file_.string(),
                            "' is written and in place, but its folder can't be synced, so a ",
                            "crash of the system may lose it"),
                     failure);
    }
  }

private:
  const std::filesystem::path& file_;
  int descriptor_;
};

} // namespace

void close_unused(int descriptor) noexcept {
  constexpr off_t quickly_gone = off_t{64} << 20;
  struct stat status {};
  background_thread thread("saeta-close");
  if (has_interrupt_hook() && ::fstat(descriptor, &status) == 0 && status.st_size > quickly_gone &&
      thread.start([descriptor] { ::close(descriptor); })) {
    thread.detach();
  } else {
    ::close(descriptor);
  }
}

atomic_file::atomic_file(const std::filesystem::path& target, const file_options& options)
    : target_(resolve_links(target)), options_(options), replaced_(status_of(target_)) {
  if (replaced_) {
    require_replaceable(target_, *replaced_, options_.replace_read_only);
  }
  // With unnamed files, only a process that ended inside `give_name` leaves a temporary name behind. That is
  // rare, so only the first entries of a large folder are searched.
  constexpr std::size_t searched = 4096;
  if (create_without_name()) {
    remove_stale_files(folder_of(target_), searched);
  } else {
    remove_stale_files(folder_of(target_));
    create_with_name();
  }
}

bool atomic_file::create_without_name() {
  if (::access("/proc/self/fd", X_OK) != 0) {
    return false; // `give_name` needs this folder
  }
  descriptor_ = ::open(folder_of(target_).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, new_file);
  if (descriptor_ >= 0) {
    return true;
  }
  if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) { // O_TMPFILE is not supported
    return false;
  }
  throw os_error("create a file beside", target_, errno);
}

void atomic_file::create_with_name() {
  for (int attempt = 0; attempt < attempts; ++attempt) {
    auto candidate = temporary_name(folder_of(target_));
    descriptor_ = ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, new_file);
    if (descriptor_ >= 0) {
      if (lock_new_file(descriptor_)) {
        temporary_ = std::move(candidate);
        return;
      }
      ::close(std::exchange(descriptor_, -1));
    } else if (errno != EEXIST) {
      throw os_error("create a file beside", target_, errno);
    }
  }
  throw os_error("create a file beside", target_, EEXIST);
}

/// Changing the owner clears permission bits, so it comes first. If the owner can't be changed, the file does
/// not get the permissions that were meant for another owner or group.
void atomic_file::take_over_permissions() {
  const struct stat& old = *replaced_;
  const bool same_owner = ::fchown(descriptor_, old.st_uid, old.st_gid) == 0;
  const bool same_group = same_owner || ::fchown(descriptor_, static_cast<uid_t>(-1), old.st_gid) == 0;
  mode_t mode = old.st_mode & permission_bits;
  if (!same_owner) {
    mode &= ~identity_bits;
  }
  if (!same_group) {
    mode &= ~static_cast<mode_t>(S_IRWXG);
    mode |= (old.st_mode & S_IRWXO) << 3U; // another group gets the rights of others
  }
  if (::fchmod(descriptor_, mode) != 0) {
    throw os_error("set the permissions of", target_, errno);
  }
}

void atomic_file::give_name() {
  if (temporary_.empty()) {
    const std::filesystem::path own = path_of(descriptor_);
    const auto link_as = [&](const std::filesystem::path& name) {
      return ::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
    };
    int failure = replaced_ ? EEXIST : link_as(target_);
    if (failure == 0) {
      return;
    }
    // `linkat` can't replace a file. The file gets a temporary name and is then renamed.
    lock_new_file(descriptor_);
    for (int attempt = 0; attempt < attempts && failure == EEXIST; ++attempt) {
      auto candidate = temporary_name(folder_of(target_));
      failure = link_as(candidate);
      if (failure == 0) {
        temporary_ = std::move(candidate);
      }
    }
    if (failure != 0) {
      throw os_error("write", target_, failure);
    }
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    throw os_error("write", target_, errno);
  }
  temporary_.clear();
}

/// Some file systems report write errors only on close. Closing a duplicate keeps the file open and locked.
void atomic_file::close_duplicate() const {
  const int copy = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0 || ::close(copy) != 0) {
    throw os_error("write", target_, errno);
  }
}

void atomic_file::commit() {
  if (replaced_) {
    take_over_permissions();
  }
  close_duplicate();
  if (!options_.durable) {
    return give_name();
  }
  sync_file(descriptor_, target_);
  folder_sync folder(target_);
  give_name();
  folder.wait();
}

atomic_file::~atomic_file() {
  if (!temporary_.empty() && ::unlink(temporary_.c_str()) != 0) {
    report("atomic_file", os_error("remove", temporary_, errno).message());
  }
  if (descriptor_ >= 0) {
    close_unused(descriptor_);
  }
}

} // namespace saeta::ipc::detail
