// A scope in which what is allocated on capturing streams comes from a graph pool.
//
// What      Serves the calling thread alone, and lent memory alone (memory/loans/lent_memory.hpp): allocators of other libraries
//           can't be told of a pool in another way. It announces the capture, too (context::capturing). Of several scopes
//           on one device the innermost serves. One scope belongs to one capture.
// Owner     Keeps the pool.
// Thread    Made on the thread that captures. It may end on another one.
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

  /// The pool that the calling thread has opened for the device; null where there is none.
  [[nodiscard]] static std::shared_ptr<graph_pool> open_for(const backend& device);

private:
  using entry = const std::shared_ptr<graph_pool>;
  static std::vector<std::weak_ptr<entry>>& of_this_thread();

  std::shared_ptr<void> announced_;
  std::shared_ptr<entry> opened_; ///< the thread that made it looks at it as long as it is there
};

} // namespace saeta
