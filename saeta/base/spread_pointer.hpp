// A shared pointer that many threads copy and drop at the same time.
//
// @code
// spread_pointer<context> shared;
// shared.open(ctx);
// {
//   const std::shared_ptr<context> mine = shared.copy(); // on any thread, as often as it likes
// }
// shared.close(); // drops its references; copies keep the context
// @endcode
//
// What      A shared_ptr counts its copies on one cache line, which threads that copy it at the same time
//           contend for. This one has several counts, each on its own cache line, and a thread's copies use
//           one of them. Each copy keeps the object alive like any other shared_ptr.
// Owner     It keeps the object alive between `open` and `close`. If it is a member of that object, other
//           code has to close it.
// Thread    Any thread may call `copy` between `open` and `close`.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/thread_number.hpp"

#include <array>
#include <memory>

namespace SAETA_EXPORT saeta {

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
  [[nodiscard]] std::shared_ptr<T> copy() const noexcept {
    return ways_[thread_number() % ways_.size()].owner;
  }
  /// Drops its references to the object. Existing copies keep it alive.
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
