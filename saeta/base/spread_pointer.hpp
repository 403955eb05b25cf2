// A shared pointer that many threads copy and drop at once.
//
// What      A shared_ptr counts its copies on one cache line, which threads that copy it at the same time pass around. Here
//           there are several counts, each on a line of its own, and a thread gets copies that are counted on one of them.
//           Each copy keeps the object alive like any other shared_ptr to it.
// Owner     It keeps the object alive itself between `open` and `close`. Where it is a member of the object, somebody else
//           has to close it.
// Thread    `copy` from any, between `open` and `close`.
#pragma once

#include "saeta/base/thread_number.hpp"

#include <array>
#include <memory>

namespace saeta {

template <class T>
class spread_pointer {
public:
  /// @throws std::bad_alloc; then it is closed.
  void open(const std::shared_ptr<T>& whole) {
    try {
      for (way& each : ways_) {
        each.owner = {std::make_shared<std::shared_ptr<T>>(whole), whole.get()};
      }
    } catch (...) {
      close();
      throw;
    }
  }
  [[nodiscard]] std::shared_ptr<T> copy() const noexcept { return own(); }
  /// What the calling thread copies.
  [[nodiscard]] const std::shared_ptr<T>& own() const noexcept {
    return ways_[thread_number() % ways_.size()].owner;
  }
  /// Lets go of the object; copies that were given out keep it.
  void close() noexcept {
    for (way& each : ways_) {
      each.owner.reset();
    }
  }

private:
  struct alignas(64) way {
    std::shared_ptr<T> owner;
  };
  std::array<way, 16> ways_;
};

} // namespace saeta
