// The ordering state of one storage: its last writes and the latest read of each stream.
//
// Invariants
//   1. A read waits for every last write; a write waits for every last write and every read.
//   2. Reads are bounded: past `max_reads`, the new reader first waits for the oldest read, so that one fence covers both.
//   3. Between `begin_*` and `end_*` a write excludes every other use and a read excludes writes, so preparing and
//      finishing are one atomic step and no edge is lost. A thread that asks again for what it holds gets error busy
//      instead of a deadlock.
// Thread    Any; `begin_*` blocks while another thread's use is in the way.
#pragma once

#include "saeta/order/fence.hpp"

#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace saeta {

enum class access { read, write, read_write };

class ordering_state {
public:
  static constexpr std::size_t max_reads = 8;

  /// Takes the storage for the calling thread and makes `stream` wait for what `mode` needs. On failure nothing is held.
  void begin(access mode, stream_ref stream, std::string_view name);
  /// Gives it back. `done` covers everything queued on the stream since `begin`, the waits too; empty when the stream
  /// has been synchronised or runs inline.
  void end(access mode, std::thread::id holder, const fence& done) noexcept;
  /// Adds work that no token covered: a foreign consumer's or producer's.
  void add_read(const fence& done);
  void add_write(const fence& done);

  /// Every fence that an access must wait for. For a release: nobody may be inside a use.
  [[nodiscard]] std::vector<fence> pending(access mode) const;
  /// The last writes, for a hand-over. Waits for a write use of another thread to end, because its fence is not there
  /// before; @throws error busy inside a write use of this thread.
  [[nodiscard]] std::vector<fence> last_writes(std::string_view name);

private:
  void acquire(std::unique_lock<std::mutex>& lock, access mode, std::string_view name);
  void give_up(access mode, std::thread::id holder) noexcept;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<fence> writes_; ///< one, or several where writers were unordered (a foreign one beside ours)
  std::vector<fence> reads_;
  std::vector<std::thread::id> readers_; ///< threads inside a read use
  std::thread::id writer_;
};

} // namespace saeta
