// A use token: scoped access to buffers on a stream, for copies, kernels of ours and kernels of users.
//
//   1. Construct it with the stream and all buffers of the step: the stream waits for the last writes (to read) and for
//      the reads too (to write). On failure nothing is held.
//   2. Queue work on that stream, with the pointers that the token lends.
//   3. `finish()`, or let it go out of scope: every buffer remembers the point that the stream has reached. A token that
//      is dropped by an exception ends in the same way.
//
// On a stream that captures a graph nothing runs: the host waits for what must be waited for, and nothing is remembered.
// Open a token around each launch of the graph.
//
// A token over the per-thread default stream that another thread ends (a garbage collector, say) can't mark that stream: its
// work counts as unknown (order/ordering.hpp).
//
// The buffers may be of several devices: those of another GPU than the stream's become accessible to it.
//
// A storage named twice is held once, with the stronger access. While a token is open, other threads' conflicting tokens
// on the same storage wait; the same thread gets error busy. Name everything a step needs in one token.
// Failure   busy (also where unknown work can't be waited for, because a graph is captured), invalid_argument (write to
//           read-only memory, pointer of a buffer that was not named, a stream of a device that can't order any of the
//           buffers, the per-thread default stream of another thread), unsupported (no peer access), device.
#pragma once

#include "saeta/memory/buffer.hpp"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace saeta {

struct use {
  buffer used;
  access mode;
};

inline use reads(buffer used) { return {std::move(used), access::read}; }
inline use writes(buffer used) { return {std::move(used), access::write}; }
inline use updates(buffer used) { return {std::move(used), access::read_write}; }

class use_token {
public:
  /// Absent buffers are allowed and ignored.
  use_token(stream_ref stream, std::span<const use> uses);
  use_token(stream_ref stream, std::initializer_list<use> uses)
      : use_token(stream, std::span(uses.begin(), uses.size())) {}
  use_token(const use_token&) = delete;
  use_token& operator=(const use_token&) = delete;
  ~use_token();

  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  /// Device pointer for reading; valid until the token ends. Null for an absent buffer.
  /// @throws error invalid_argument when the buffer was not named, or is not aligned for T.
  template <class T>
  [[nodiscard]] const T* data(const buffer& used) const {
    return static_cast<const T*>(pointer(used, access::read, alignof(T)));
  }
  /// Device pointer for writing, of a buffer named with writes() or updates().
  template <class T>
  [[nodiscard]] T* mutable_data(const buffer& used) const {
    return static_cast<T*>(pointer(used, access::write, alignof(T)));
  }

  /// Ends the use; later calls do nothing. @throws error device: the stream was synchronised instead.
  void finish();

private:
  struct held {
    std::shared_ptr<storage> bytes;
    access mode;
    std::uint32_t seen = 0; ///< for ordering_state::settle
  };
  [[nodiscard]] void* pointer(const buffer& used, access mode, std::size_t alignment) const;
  /// Oldest storages first.
  [[nodiscard]] static std::pair<std::uint64_t, const storage*>
  order_of(const std::shared_ptr<storage>& bytes) noexcept {
    return {bytes->generation(), bytes.get()};
  }
  void merge_twins() noexcept;
  void begin();
  void acquire();
  void require_order() const;
  [[nodiscard]] static bool is_inherited(const held& asked) noexcept;
  [[nodiscard]] captures& graph_captures() const;
  void give_back(point done) noexcept;
  void give_back_unknown() noexcept;
  [[nodiscard]] bool can_wait_here() const noexcept;

  stream_ref stream_;
  std::thread::id holder_;
  std::vector<held> held_; ///< oldest first, so that two tokens can't block each other
  bool captures_ = false;  ///< the stream captured a graph when the token was opened
  bool open_ = false;
};

} // namespace saeta
