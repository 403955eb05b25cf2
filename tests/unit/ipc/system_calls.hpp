// Calls of the operating system that fail when a test says so.
//
// What      The program's own `open`, `close`, `fsync`, `pwritev`, `linkat` and `fallocate` replace the C
//           library's for every library that it loads. They make the call unless a trap has an error for it.
// Thread    One test at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace saeta::support {

enum class system_call { open, close, fsync, pwritev, linkat, fallocate };

/// For as long as it lives, the calls of one kind are counted and fail as `verdict` says.
class system_call_trap {
public:
  /// @param verdict  the error of the call with this number (from 0), or 0 to make the call. Its argument is
  ///                 the path of an `open`, the new path of a `linkat`, and the descriptor as text for the
  ///                 others. Several threads may ask it, one after the other.
  using verdict = std::function<int(std::size_t number, const std::string& argument)>;

  system_call_trap(system_call kind, verdict decide);
  system_call_trap(const system_call_trap&) = delete;
  system_call_trap& operator=(const system_call_trap&) = delete;
  ~system_call_trap();

  [[nodiscard]] std::size_t calls() const noexcept { return calls_; }
  /// The error of the next call; 0 for none.
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

/// A verdict: the file system has no files without names.
system_call_trap::verdict refusing_nameless_files(const std::filesystem::path& folder);

/// Descriptor 0 is free for as long as it lives.
class without_standard_input {
public:
  without_standard_input();
  without_standard_input(const without_standard_input&) = delete;
  without_standard_input& operator=(const without_standard_input&) = delete;
  ~without_standard_input();

private:
  int kept_;
};

/// What the descriptors of the process are open on, sorted.
std::vector<std::filesystem::path> open_files();

} // namespace saeta::support
