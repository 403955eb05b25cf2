// Graph pools: memory for what is allocated while a CUDA graph is captured.
//
//   const auto pool = graph_pool::create(ctx, "decoder");
//   {
//     const graph_pool_scope open(pool);   // around the capture
//     capture(stream, graph);              // memory lent on the capturing stream is the pool's (memory/loans/lent_memory.hpp)
//   }
//   launch(graph);                         // as often as wanted; then drop the graph, and after it the pool
//
// What      A graph writes to the same addresses at each launch, so what was allocated in its capture belongs to it until it
//           is gone, also what was freed again. A pool asks its context for memory and keeps all of it, charged, until it
//           is released.
// Owner     Shared by its users, by scopes, and by memory that is out.
// Order     Memory is taken outside of the capture's order: the host has waited for earlier users, and no wait is queued on
//           the capturing stream. What comes back on the stream that it was taken on is used again there: what a capture
//           took by captures, anything else by work that is not captured. What comes back in another way is kept until
//           the release. Graphs that share a pool are launched one after the other.
// Release   By `release` or at the end of the last owner, behind all work of the device, because a graph may still run.
// Thread    Any. No lock is held while memory is asked for, waited for or returned to the context.
// Fork      A child of fork takes nothing from a pool of its parent.
// Failure   As buffer::allocate; the capture stays whole. Giving back reports and never throws.
#pragma once

#include "saeta/base/process.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/observe/tag.hpp"
#include "saeta/order/point.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace saeta {

class context;

class graph_pool {
  struct lane; // what one stream took

public:
  /// Memory that is out.
  struct piece {
    void* pointer = nullptr;
    std::uintptr_t begin = 0; ///< of the span, which is more than was asked for where more alignment was
    lane* from = nullptr;
    std::uint64_t opening = 0; ///< number of the scope in which it was taken
  };
  /// Who used memory that comes back.
  struct users {
    std::optional<stream_handle> last; ///< nothing where it is not known
    bool others = false;               ///< more streams than the one it was taken on
  };

  /// @throws error invalid_argument without a context.
  static std::shared_ptr<graph_pool> create(std::shared_ptr<context> ctx, tag label = "graph_pool");
  graph_pool(const graph_pool&) = delete;
  graph_pool& operator=(const graph_pool&) = delete;
  ~graph_pool();

  /// `bytes` > 0. Where the stream captures, the capture is known from now on (order/captures.hpp).
  /// @throws error budget_exceeded, out_of_memory, overflow, closed (the context, or the pool after its release).
  [[nodiscard]] piece take(std::size_t bytes, stream_ref stream, std::size_t alignment = 0);
  /// Where the last user is not known, the memory is used again as long as the scope is open in which it was taken.
  void give_back(const piece& ended, const users& by) noexcept;
  /// Returns what is not out to the context, and what is out when it comes back. Nothing more is taken.
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
  [[nodiscard]] bool reusable(const piece& ended, const users& by, point& late) const;
  void opened() noexcept;
  void ended() noexcept;

  const std::shared_ptr<context> ctx_;
  const tag label_;
  const std::uint64_t made_in_ = fork_generation();
  const std::unique_ptr<state> state_;
};

} // namespace saeta
