// A scope in which allocations on capturing streams come from a graph pool.
//
// What      Applies to the calling thread and to lent memory (memory/loans/lent_memory.hpp) only: allocators
//           of other libraries have no other way to name a pool. It also announces the capture
//           (context::capturing). If several scopes are open on one device, the innermost applies. One scope
//           belongs to one capture.
// Owner     Keeps the pool.
// Thread    Constructed on the thread that captures. It may be destroyed on another one.
#pragma once

#include "saeta/memory/loans/graph_pool.hpp"

#include <memory>
#include <vector>

namespace saeta {

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
  static std::vector<std::weak_ptr<entry>>& of_this_thread();

  std::shared_ptr<void> announced_;
  std::shared_ptr<entry> opened_; ///< the constructing thread finds it through a weak_ptr
};

} // namespace saeta
