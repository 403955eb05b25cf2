// Reads of files that fail, are interrupted or come short when a test says so.
//
// What      The program's own `pread` takes the place of the C library's for every library that it loads.
// Thread    One test at a time; reads come from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace saeta::support {

/// For as long as it lives, each `pread` does what `decide` says.
class pread_trap {
public:
  /// What becomes of one read.
  struct verdict {
    int error = 0;           ///< errno; 0: it is made
    std::size_t most = ~0UL; ///< bytes that it gives at most
  };
  using decision = std::function<verdict(std::size_t number)>;

  /// @param decide  is given the number of the read, from 0.
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
