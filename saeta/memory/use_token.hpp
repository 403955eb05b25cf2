// A use token: scoped access to buffers on a stream, for copies, our kernels and kernels of users.
//
// @code
// use_token token(stream, {reads(bytes), writes(result)}); // the stream waits for the last writes
// launch(token.stream(), token.span<const float>(bytes), token.span<float>(result));
// token.finish(); // both storages remember this point of the stream
// @endcode
//
//   1. Construct it with the stream and all buffers of the step. The stream waits for the last writes, and
//      before a write also for the reads. On failure nothing is held.
//   2. Queue work on that stream, with the spans that the token returns.
//   3. Call `finish()`, or let the token go out of scope: every buffer remembers the point that the stream
//      has reached. A token that an exception destroys ends in the same way.
//
// A stream that captures a graph runs nothing. So the host waits instead of the stream, and no point is
// remembered. Open a token around each launch of the graph.
//
// If another thread (a garbage collector, say) ends a token over the per-thread default stream, it can't mark
// that stream. Then the work counts as unknown (order/ordering.hpp).
//
// The buffers may be of several devices: memory of another GPU becomes accessible to the stream's GPU.
//
// A storage named twice is held once, with the stronger access. While a token is open, a conflicting token on
// the same storage waits if another thread opens it, and throws error busy on the same thread. Name all
// buffers of a step in one token.
// Failure   busy (also if unknown work can't be waited for, because a graph is captured), invalid_argument
//           (write to read-only memory, span of a buffer that was not named, a stream of a device that
//           can't order any of the buffers, the per-thread default stream of another thread), out_of_range (a
//           buffer with fewer bytes than one value), unsupported (no peer access), device.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/memory/buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {

struct use {
  buffer used;
  access mode;
};

[[nodiscard]] inline use reads(buffer used) { return {std::move(used), access::read}; }
[[nodiscard]] inline use writes(buffer used) { return {std::move(used), access::write}; }
[[nodiscard]] inline use updates(buffer used) { return {std::move(used), access::read_write}; }

/// Reads of whole storages, each of them once.
///
/// @code
/// storage_reads memory;
/// for (const column& part : orders.batches().front().columns) {
///   append_reads(part, memory); // columns of one slab name it once
/// }
/// use_token token(stream, memory.uses());
/// launch(token.stream(), token.span<const float>(orders.batches().front().columns.front().values()));
/// token.finish();
/// @endcode
class storage_reads {
public:
  storage_reads() = default;
  /// Leaves out immutable memory if work on the stream has ended when its call returns. Such reads need no
  /// order, and a thousand tables of pyarrow have thousands of storages. The caller keeps the memory.
  explicit storage_reads(const stream_ref& by) : all_(!is_immediate(by)) {}

  /// Whether a token over the reads has to name the memory.
  [[nodiscard]] bool needs(const buffer& of) const noexcept {
    return of.present() && (all_ || !of.owner()->immutable());
  }
  void add(const buffer& of) {
    if (needs(of) && (is_newest(*of.owner()) || is_unknown(*of.owner()))) {
      uses_.push_back(reads(buffer(of.owner())));
    }
  }
  [[nodiscard]] std::vector<use>& uses() noexcept { return uses_; }

private:
  /// Storages are mostly added in the order in which they were made: then none of them is looked up.
  bool is_newest(const storage& added) noexcept {
    const bool newest = uses_.empty() || added.generation() > newest_;
    newest_ = newest ? added.generation() : newest_;
    return newest;
  }
  bool is_unknown(const storage& added) {
    if (uses_.back().used.owner().get() == &added) {
      return false;
    }
    for (; noted_ < uses_.size(); ++noted_) {
      known_.insert(uses_[noted_].used.owner().get());
    }
    return known_.insert(&added).second;
  }

  bool all_ = true;
  std::uint64_t newest_ = 0;
  std::size_t noted_ = 0; ///< the first of these are in `known_`
  std::unordered_set<const storage*> known_;
  std::vector<use> uses_;
};

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
  /// The values of a buffer, at addresses of its device: `span<const T>` for reading, `span<T>` for writing,
  /// for which the buffer must be named with writes() or updates(). It has as many values as fit into the
  /// buffer, and is valid until the token ends. Empty, with a null pointer, for an absent buffer.
  /// @throws error invalid_argument when the buffer was not named, or is not aligned for T; out_of_range when
  /// the buffer has bytes, but fewer than one value.
  template <class T>
  [[nodiscard]] std::span<T> span(const buffer& used) const {
    constexpr access mode = std::is_const_v<T> ? access::read : access::write;
    return {static_cast<T*>(pointer(used, mode, sizeof(T), alignof(T))), used.size() / sizeof(T)};
  }

  /// Ends the use; later calls do nothing. @throws error device: the stream was synchronised instead.
  void finish();

private:
  struct held {
    std::shared_ptr<storage> bytes;
    access mode;
    std::uint32_t seen = 0; ///< for ordering_state::settle
  };
  [[nodiscard]] void* pointer(const buffer& used, access mode, std::size_t value_bytes,
                              std::size_t alignment) const;
  /// Sort key: oldest storage first.
  [[nodiscard]] static std::pair<std::uint64_t, const storage*>
  order_of(const std::shared_ptr<storage>& bytes) noexcept {
    return {bytes->generation(), bytes.get()};
  }
  void merge_duplicates() noexcept;
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
  std::vector<held> held_; ///< sorted oldest first, so that two tokens can't deadlock
  bool captures_ = false;  ///< the stream captured a graph when the token was opened
  bool open_ = false;
};

} // namespace saeta
