// Graph pools: memory for allocations that are made while a CUDA graph is captured.
//
// @code
// const std::shared_ptr<graph_pool> pool = graph_pool::create(ctx, "decoder");
// {
//   const graph_pool_scope open(pool);                         // around the capture
//   launch(stream, lend_memory(ctx, 4096, stream, "decoder")); // captured; the memory comes from the pool
// }
// launch(stream, pool->bytes()); // the graph, as often as needed; drop the graph before the pool
// @endcode
//
// What      A graph writes to the same addresses at each launch. So memory allocated in its capture belongs
//           to the graph until the graph is destroyed, even after it was freed in the capture. A pool
//           allocates from its context and keeps all of the memory, charged, until it is released.
// Owner     Shared by its users, by scopes, and by pieces that are in use.
// Order     Memory is allocated outside of the capture: the host waits for earlier users, and no wait is
//           queued on the capturing stream. A piece that comes back on the stream it was taken on is reused
//           on that stream: by captures if a capture took it, else by work that is not captured. Any other
//           piece is kept until the release. Graphs that share a pool are launched one after the other.
// Release   By `release` or with the last owner, after all work of the device, because a graph may still run.
// Thread    Any. No lock is held while memory is allocated, waited for or returned to the context.
// Fork      A child of fork takes nothing from a pool of its parent.
// Failure   As buffer::allocate; the capture stays valid. Giving back reports and never throws.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/process.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/observe/tag.hpp"
#include "saeta/order/point.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace SAETA_EXPORT saeta {

class context;

class graph_pool {
  struct lane; // the memory of one stream

public:
  /// Memory taken from the pool.
  struct piece {
    void* pointer = nullptr;
    std::uintptr_t begin = 0; ///< of the span, which is larger if more alignment was requested
    lane* from = nullptr;
    std::uint64_t opening = 0; ///< number of the scope in which it was taken
  };
  /// The streams that used a piece.
  struct users {
    std::optional<stream_handle> last; ///< nullopt if not known
    bool others = false;               ///< whether other streams used the memory as well
  };

  /// @throws error invalid_argument without a context.
  [[nodiscard]] static std::shared_ptr<graph_pool> create(std::shared_ptr<context> ctx,
                                                          tag label = "graph_pool");
  graph_pool(const graph_pool&) = delete;
  graph_pool& operator=(const graph_pool&) = delete;
  ~graph_pool();

  /// `bytes` > 0. If the stream captures, the capture becomes a known one (order/captures.hpp).
  /// @throws error budget_exceeded, out_of_memory, overflow, closed (the context, or a released pool).
  [[nodiscard]] piece take(std::size_t bytes, stream_ref stream, std::size_t alignment = 0);
  /// If the last user is not known, the memory is reused only while the scope it was taken in is open.
  void give_back(const piece& ended, const users& by) noexcept;
  /// Returns unused memory to the context now, and pieces when they come back. Later calls of `take` fail.
  void release() noexcept;

  [[nodiscard]] const std::shared_ptr<context>& ctx() const noexcept { return ctx_; }
  [[nodiscard]] tag label() const noexcept { return label_; }
  /// Bytes charged to the context.
  [[nodiscard]] std::uint64_t bytes() const;

private:
  friend class graph_pool_scope;
  struct state;

  graph_pool(std::shared_ptr<context> ctx, tag label);
  [[nodiscard]] bool inherited() const noexcept { return made_in_ != fork_generation(); }
  [[nodiscard]] bool reusable(const piece& ended, const users& by, point& pending) const;
  void note_opened() noexcept;
  void note_ended() noexcept;

  const std::shared_ptr<context> ctx_;
  const tag label_;
  const std::uint64_t made_in_ = fork_generation();
  const std::unique_ptr<state> state_;
};

/// A scope in which allocations on capturing streams come from a graph pool.
///
/// What      Applies to the calling thread and to lent memory (memory/loans/lent_memory.hpp) only: allocators
///           of other libraries have no other way to name a pool. It also announces the capture
///           (context::capturing). If several scopes are open on one device, the innermost applies. One scope
///           belongs to one capture.
/// Owner     Keeps the pool.
/// Thread    Constructed on the thread that captures. It may be destroyed on another one.
class graph_pool_scope {
public:
  explicit graph_pool_scope(std::shared_ptr<graph_pool> pool);
  graph_pool_scope(const graph_pool_scope&) = delete;
  graph_pool_scope& operator=(const graph_pool_scope&) = delete;
  ~graph_pool_scope();

  /// The pool that the calling thread has opened for the device; null if there is none.
  [[nodiscard]] static std::shared_ptr<graph_pool> open_for(const backend& device);

private:
  using entry = const std::shared_ptr<graph_pool>;
  [[nodiscard]] static std::vector<std::weak_ptr<entry>>& of_this_thread();

  std::shared_ptr<void> announced_;
  std::shared_ptr<entry> opened_; ///< the constructing thread finds it through a weak_ptr
};

} // namespace saeta
