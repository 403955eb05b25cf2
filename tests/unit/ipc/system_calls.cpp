#include "system_calls.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace saeta::support {
namespace {

std::array<std::atomic<system_call_trap*>, 6> traps{};

std::atomic<system_call_trap*>& trap_of(system_call kind) { return traps[static_cast<std::size_t>(kind)]; }

/// Makes a call unless the installed trap returns an error for it. Returns the result of the call or -1.
long answer(system_call kind, const std::string& argument, const std::function<long()>& call) {
  system_call_trap* const trap = trap_of(kind);
  const int failure = trap == nullptr ? 0 : trap->next(argument);
  if (failure == 0) {
    return call();
  }
  if (kind == system_call::close) {
    static_cast<void>(call()); // close() frees the descriptor even if it fails
  }
  errno = failure;
  return -1;
}

} // namespace

system_call_trap::system_call_trap(system_call kind, verdict decide)
    : kind_(kind), decide_(std::move(decide)) {
  trap_of(kind_) = this;
}

system_call_trap::~system_call_trap() { trap_of(kind_) = nullptr; }

system_call_trap::verdict refusing_nameless_files(const std::filesystem::path& folder) {
  return [folder](std::size_t number, const std::string& path) {
    return number == 0 && path == folder ? EOPNOTSUPP : 0;
  };
}

without_standard_input::without_standard_input() : kept_(::fcntl(0, F_DUPFD_CLOEXEC, 3)) { ::close(0); }

without_standard_input::~without_standard_input() {
  if (kept_ >= 0) {
    ::dup2(kept_, 0);
    ::close(kept_);
  }
}

std::vector<std::filesystem::path> open_files() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone; // the descriptor of the iterator is closed by now
    found.push_back(std::filesystem::read_symlink(entry.path(), gone));
  }
  std::sort(found.begin(), found.end());
  return found;
}

} // namespace saeta::support

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  const mode_t mode = has_mode ? va_arg(more, mode_t) : 0;
  va_end(more);
  return static_cast<int>(saeta::support::answer(saeta::support::system_call::open, path, [&] {
    return ::syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  }));
}

int close(int descriptor) {
  return static_cast<int>(saeta::support::answer(saeta::support::system_call::close,
                                                 std::to_string(descriptor),
                                                 [&] { return ::syscall(SYS_close, descriptor); }));
}

int fsync(int descriptor) {
  return static_cast<int>(saeta::support::answer(saeta::support::system_call::fsync,
                                                 std::to_string(descriptor),
                                                 [&] { return ::syscall(SYS_fsync, descriptor); }));
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  return static_cast<int>(saeta::support::answer(saeta::support::system_call::linkat, to, [&] {
    return ::syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
  }));
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  return static_cast<int>(
      saeta::support::answer(saeta::support::system_call::fallocate, std::to_string(descriptor),
                             [&] { return ::syscall(SYS_fallocate, descriptor, mode, offset, bytes); }));
}

ssize_t pwritev(int descriptor, const iovec* parts, int count, off_t offset) {
  return saeta::support::answer(saeta::support::system_call::pwritev, std::to_string(descriptor),
                                [&] { return ::syscall(SYS_pwritev, descriptor, parts, count, offset, 0L); });
}

} // extern "C"
