// Makes calls of `pread` fail, be interrupted or return fewer bytes.
//
// How       The program defines `pread`, which replaces that of the C library.
// Thread    One test at a time. Any thread may read.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace saeta::support {

/// Until the end of the scope, `decide` determines the result of each `pread`.
class pread_trap {
public:
  /// The result of one read.
  struct verdict {
    int error = 0;           ///< errno, or 0 to make the call
    std::size_t most = ~0UL; ///< maximum number of bytes to return
  };
  using decision = std::function<verdict(std::size_t number)>;

  /// @param decide  called with the number of the read, from 0
  explicit pread_trap(decision decide);
  pread_trap(const pread_trap&) = delete;
  pread_trap& operator=(const pread_trap&) = delete;
  ~pread_trap();

  [[nodiscard]] std::size_t calls() const noexcept { return calls_; }
  verdict next() { return decide_(calls_++); }

private:
  decision decide_;
  std::atomic<std::size_t> calls_{0};
};

} // namespace saeta::support
