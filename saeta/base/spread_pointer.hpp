// A shared pointer that many threads copy and drop at once.
//
// What      A shared_ptr counts its copies on one cache line, which threads that copy it at the same time pass around. Here
//           there are several counts, each on lines of its own, and a thread gets copies that are counted on one of them.
//           Each copy keeps the object alive like any other shared_ptr to it.
// Owner     From its first copy on it keeps the object alive itself, until `close`: where it is a member of the object,
//           somebody else has to close it.
// Thread    Any.
#pragma once

#include "saeta/base/spin_lock.hpp"
#include "saeta/base/thread_number.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>

namespace saeta {

template <class T>
class spread_pointer {
public:
  /// A copy of what `whole` returns, which is asked when this thread's count has no owner yet. What it returns itself once
  /// this is closed.
  template <class Whole>
  [[nodiscard]] std::shared_ptr<T> copy(Whole whole) {
    way& mine = ways_[thread_number() % ways_.size()];
    const std::lock_guard hold(mine.lock);
    if (mine.closed) {
      return whole();
    }
    if (mine.owner == nullptr) {
      auto counted = std::make_shared<std::shared_ptr<T>>(whole());
      T* const object = counted->get();
      mine.owner = std::shared_ptr<T>(std::move(counted), object);
    }
    return mine.owner;
  }

  /// Lets go of the object; copies that were given out keep it.
  void close() noexcept {
    for (way& each : ways_) {
      std::shared_ptr<T> last; // dropped without the lock: the object may go with it
      const std::lock_guard hold(each.lock);
      each.closed = true;
      last.swap(each.owner);
    }
  }

private:
  struct alignas(128) way { // two cache lines: processors fetch them in pairs
    spin_lock lock;
    bool closed = false;
    std::shared_ptr<T> owner;
  };
  std::array<way, 16> ways_;
};

} // namespace saeta
