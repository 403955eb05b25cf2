// Memory of many nodes of shared pointers in one block.
//
// What      std::allocate_shared with a `node_allocator` takes its node from the block. Columns of a table are made together and
//           mostly go together: an allocation for each takes about as long as the rest of the column. A large block lies in huge
//           pages (huge_pages.hpp).
// Owner     The block lives as long as its arena or one of its nodes: the last node keeps the memory of all.
// Thread    One thread takes nodes; they go on any.
// Failure   std::bad_alloc, also for a node more than the arena was made for.
#pragma once

#include "saeta/base/checked.hpp"
#include "saeta/base/huge_pages.hpp"

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

namespace saeta {

class node_arena {
public:
  /// @param count  nodes that are taken, at most. All have one size.
  explicit node_arena(std::size_t count) : nodes_(new nodes(count)) {}
  node_arena(const node_arena&) = delete;
  node_arena& operator=(const node_arena&) = delete;
  ~node_arena() { nodes_->leave(); }

private:
  template <class T>
  friend class node_allocator;

  class nodes {
  public:
    explicit nodes(std::size_t count) noexcept : left_(count) {}
    nodes(const nodes&) = delete;
    nodes& operator=(const nodes&) = delete;

    void* take(std::size_t bytes) {
      if (block_ == nullptr) { // implementations of allocate_shared keep the size of a node to themselves
        block_bytes_ = checked_mul(left_, bytes, "bytes of nodes");
        block_ = huge_page_allocator<std::byte>().allocate(block_bytes_);
        next_ = block_;
      }
      if (left_ == 0) {
        throw std::bad_alloc(); // more than were asked for
      }
      users_.fetch_add(1, std::memory_order_relaxed);
      --left_;
      return std::exchange(next_, next_ + bytes);
    }
    /// Of a node, or of the arena.
    void leave() noexcept {
      if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        delete this;
      }
    }

  private:
    ~nodes() {
      if (block_ != nullptr) {
        huge_page_allocator<std::byte>().deallocate(block_, block_bytes_);
      }
    }

    std::size_t left_;
    std::byte* block_ = nullptr;
    std::size_t block_bytes_ = 0;
    std::byte* next_ = nullptr;
    std::atomic<std::size_t> users_{1};
  };

  nodes* nodes_;
};

template <class T>
class node_allocator {
public:
  using value_type = T;

  explicit node_allocator(const node_arena& from) noexcept : nodes_(from.nodes_) {}
  // Implicit: allocators convert to those of other types.
  template <class Other>
  node_allocator(const node_allocator<Other>& other) noexcept : nodes_(other.nodes_) {}

  /// One object at a time.
  T* allocate(std::size_t) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    return static_cast<T*>(nodes_->take(sizeof(T)));
  }
  void deallocate(T*, std::size_t) noexcept { nodes_->leave(); }

  friend bool operator==(const node_allocator& a, const node_allocator& b) noexcept {
    return a.nodes_ == b.nodes_;
  }

private:
  template <class Other>
  friend class node_allocator;

  node_arena::nodes* nodes_;
};

} // namespace saeta
