// Fork: which objects belong to a parent process, and objects of which each process has its own.
//
// What      A child of fork has one thread. Locks that other threads of the parent held stay locked in the
//           child for ever, and the threads that would do work do not exist. So a child abandons its parent's
//           objects that have locks or threads: it neither uses nor destroys them, and makes its own. Their
//           memory is freed with the process.
// Thread    Any. Nothing here takes a lock.
#pragma once

#include "saeta/base/export.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace SAETA_EXPORT saeta {

namespace detail {
extern std::atomic<std::uint64_t> forks;
} // namespace detail

/// 0 in the process that loaded the library, and one more in each child of fork.
inline std::uint64_t fork_generation() noexcept { return detail::forks.load(std::memory_order_relaxed); }

/// Deletes an object in the process that made it. A child leaves its parent's objects alone.
struct delete_in_own_process {
  std::uint64_t made_in = fork_generation();

  template <class T>
  void operator()(T* object) const noexcept {
    if (made_in == fork_generation()) {
      delete object;
    }
  }
};

namespace detail {
/// Destroys an object only in the process that made it.
template <class T>
struct own_process_allocator : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = own_process_allocator<U>;
  };
  std::uint64_t made_in = fork_generation();

  own_process_allocator() = default;
  template <class U>
  own_process_allocator(const own_process_allocator<U>& other) noexcept // NOLINT: as every allocator
      : made_in(other.made_in) {}

  template <class U>
  void destroy(U* object) const noexcept {
    if (made_in == fork_generation()) {
      object->~U();
    }
  }
};
} // namespace detail

/// Like std::make_shared, with the rule of `delete_in_own_process`.
template <class T, class... Arguments>
[[nodiscard]] std::shared_ptr<T> make_in_own_process(Arguments&&... arguments) {
  return std::allocate_shared<T>(detail::own_process_allocator<T>(), std::forward<Arguments>(arguments)...);
}

/// One object per process, made on first use and never destroyed. Racing first users get the same object.
///
/// @code
/// static per_process<std::atomic<std::uint64_t>> opened_files; // each process counts its own
/// opened_files.get().fetch_add(1);
/// @endcode
template <class T>
class per_process {
public:
  constexpr per_process() noexcept = default;
  per_process(const per_process&) = delete;
  per_process& operator=(const per_process&) = delete;

  T& get() {
    instance* known = current_.load(std::memory_order_acquire);
    while (known == nullptr || known->made_in != fork_generation()) {
      auto* const result = new instance;
      if (current_.compare_exchange_strong(known, result, std::memory_order_acq_rel)) {
        return result->value;
      }
      delete result;
    }
    return known->value;
  }

private:
  struct instance {
    std::uint64_t made_in = fork_generation();
    T value{};
  };
  std::atomic<instance*> current_{nullptr};
};

} // namespace saeta
