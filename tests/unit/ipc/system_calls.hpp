// Injects failures into system calls.
//
// How       The program defines `open`, `close`, `fsync`, `pwritev`, `linkat` and `fallocate`, which replace
//           those of the C library. They make the call unless an installed trap returns an error for it.
// Thread    One test at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace saeta::support {

enum class system_call { open, close, fsync, pwritev, linkat, fallocate };

/// Until the end of the scope, counts the calls of one kind and lets `verdict` decide which of them fail.
class system_call_trap {
public:
  /// Returns the errno of the call with this number (from 0), or 0 to make the call. `argument` is the path
  /// of an `open`, the new path of a `linkat`, and otherwise the descriptor as text. May be called by several
  /// threads, one after the other.
  using verdict = std::function<int(std::size_t number, const std::string& argument)>;

  system_call_trap(system_call kind, verdict decide);
  system_call_trap(const system_call_trap&) = delete;
  system_call_trap& operator=(const system_call_trap&) = delete;
  ~system_call_trap();

  [[nodiscard]] std::size_t calls() const noexcept { return calls_; }
  /// Counts a call. Returns its errno, or 0 to make it.
  int next(const std::string& argument) {
    const std::lock_guard lock(mutex_);
    return decide_(calls_++, argument);
  }

private:
  system_call kind_;
  verdict decide_;
  std::mutex mutex_;
  std::size_t calls_ = 0;
};

/// Returns a verdict that simulates a file system without O_TMPFILE.
system_call_trap::verdict refusing_nameless_files(const std::filesystem::path& folder);

/// Closes descriptor 0 until the end of the scope, so that the next opened file gets it.
class without_standard_input {
public:
  without_standard_input();
  without_standard_input(const without_standard_input&) = delete;
  without_standard_input& operator=(const without_standard_input&) = delete;
  ~without_standard_input();

private:
  int kept_;
};

/// Returns the paths of all open descriptors of the process, sorted.
std::vector<std::filesystem::path> open_files();

} // namespace saeta::support
