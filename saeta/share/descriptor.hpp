// A file descriptor that an object owns. A child of fork closes those of its parent.
//
// @code
// const descriptor pool = descriptor::opened([&] { return ctx->export_pool(); });
// const bool closed_in_a_child = pool.number() == -1;
// @endcode
//
// What      To other processes the end of a connection is the sign that it is not needed any more, and a file
//           in memory stays allocated as long as a descriptor of it is open. So a child must not keep copies.
// Fork      No fork comes between the call that opens a descriptor and the object that owns it.
// Thread    Different objects on any thread. One object: a thread at a time.
#pragma once

#include "saeta/base/export.hpp"

#include <mutex>
#include <utility>

namespace SAETA_EXPORT saeta {

class descriptor {
public:
  descriptor() noexcept = default;
  descriptor(descriptor&& other) noexcept;
  descriptor& operator=(descriptor&& other) noexcept;
  ~descriptor() { close(); }

  /// Owns what `open` returns. It must not block, and must close its descriptor with exec.
  /// @return an object that is not open, with `errno`, if `open` returned a negative number
  template <class Open>
  [[nodiscard]] static descriptor opened(Open&& open) {
    const std::lock_guard lock(forks());
    return descriptor(std::forward<Open>(open)());
  }

  [[nodiscard]] int number() const noexcept { return number_; } ///< -1 if it is not open
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  void close() noexcept;

private:
  explicit descriptor(int number) noexcept;
  [[nodiscard]] static std::mutex& forks() noexcept; ///< held while the process forks
  void link() noexcept;
  void unlink() noexcept;
  static void close_all() noexcept;

  int number_ = -1;
  descriptor* next_ = nullptr; ///< the next one in the list of all open descriptors
  descriptor** link_ = nullptr;
};

} // namespace saeta
