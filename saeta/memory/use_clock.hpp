// The use clock: about how many uses of buffers the process has seen. Whoever looks for memory that was not used lately
// compares what storages say with it.
//
// What      A use moves the clock on about once in `uses_per_tick` uses: no use asks for the time, and threads rarely meet on the
//           counter. Two uses of one tick can't be told apart.
// Thread    Any.
#pragma once

#include <atomic>
#include <cstdint>

namespace saeta {

class use_clock {
public:
  static constexpr std::uint32_t uses_per_tick = 64;

  [[nodiscard]] static std::uint64_t now() noexcept { return ticks_.load(std::memory_order_relaxed); }

private:
  friend class last_use;
  inline static std::atomic<std::uint64_t> ticks_{0};
};

/// When something was used last.
class last_use {
public:
  /// @param phase  of the uses that move the clock: different ones for different objects, so that many objects that are used
  ///               once each move it, too.
  explicit last_use(std::uint32_t phase) noexcept : uses_(phase), tick_(use_clock::now()) {}

  void note() noexcept {
    // Two threads may count one use together: then the clock moves a little later.
    const std::uint32_t uses = uses_.load(std::memory_order_relaxed) + 1;
    uses_.store(uses, std::memory_order_relaxed);
    if (uses % use_clock::uses_per_tick == 0) [[unlikely]] {
      use_clock::ticks_.fetch_add(1, std::memory_order_relaxed);
    }
    tick_.store(use_clock::now(), std::memory_order_relaxed);
  }
  /// Of the use clock.
  [[nodiscard]] std::uint64_t tick() const noexcept { return tick_.load(std::memory_order_relaxed); }

private:
  std::atomic<std::uint32_t> uses_;
  std::atomic<std::uint64_t> tick_;
};

} // namespace saeta
