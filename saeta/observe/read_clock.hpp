// The read clock: how long threads spend in each part of a read.
//
// @code
// read_clock::start(16);
// {
//   timed_part in_file(read_part::file, 4096); // until the end of the scope
//   std::this_thread::sleep_for(std::chrono::milliseconds(1));
// }
// const part_times spent = read_clock::stop();
// std::cout << spent.of(read_part::file).seconds << " s for " << spent.of(read_part::file).bytes << " bytes\n";
// @endcode
//
// What      Sums over all threads of the process, for `saeta.profile_read`. A scope inside of another one
//           stops the time of the outer one, so no moment of a thread is counted twice. The tasks of a
//           staging ring are scopes of the part `task`. What is timed outside of them holds up all threads
//           of the ring, and counts for all of them. While the clock does not run, a scope costs one load.
// Thread    Any number of scopes, each on one thread. One recording at a time: `start` begins anew.
// Failure   None.
#pragma once

#include "saeta/base/export.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace SAETA_EXPORT saeta {

enum class read_part : std::uint8_t {
  file,    ///< reading the source: a file, a store, an object of the caller
  decode,  ///< decompressing
  copy,    ///< the processor's work in memory: filling chunks, joining batches on the host
  link,    ///< waiting until a chunk in flight has arrived on the device
  kernels, ///< at the end: work of the device that is left, and its results
  task,    ///< what belongs to no other part of a task
};
inline constexpr std::size_t read_parts = 6;

/// The time of all threads in a part.
struct part_time {
  double seconds = 0;
  std::uint64_t bytes = 0; ///< that the scopes were given
};

struct part_times {
  std::array<part_time, read_parts> parts{};

  [[nodiscard]] const part_time& of(read_part which) const {
    return parts.at(static_cast<std::size_t>(which));
  }
};

class read_clock {
public:
  read_clock() = delete;

  /// @param threads  that share the tasks of the read
  static void start(std::size_t threads) noexcept;
  [[nodiscard]] static bool running() noexcept;
  /// Scopes that are open are not counted. Returns zeros if the clock does not run.
  static part_times stop() noexcept;
};

/// A scope whose time belongs to a part.
class timed_part {
public:
  /// @param bytes  that are read, made or moved within the scope
  explicit timed_part(read_part which, std::uint64_t bytes = 0) noexcept;
  timed_part(const timed_part&) = delete;
  timed_part& operator=(const timed_part&) = delete;
  ~timed_part();

private:
  using clock = std::chrono::steady_clock;

  void count(clock::time_point until) const noexcept;

  std::uint32_t recording_; ///< number of the recording, 0 if the clock does not run
  read_part which_;
  timed_part* outer_ = nullptr;
  clock::time_point since_;
};

} // namespace saeta
