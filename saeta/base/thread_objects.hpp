// What each thread keeps for itself, found without a call.
//
// Why       Every allocation asks for some of it. The library's thread_local variables are reached through a function of the
//           loader, which takes as long as an exchange of a lock: they can't be of the initial-exec model, since that would
//           make all thread-local storage of the library static, that of the static CUDA runtime with its alignment of 4096
//           bytes among it, and a library like that can't be loaded late, as Python does.
// What      A table of the process. A thread has the place that the address of its control block leads to (the thread
//           pointer of the ABI), as long as it was the first to ask for it. Threads without a place go by their thread_local
//           variables: two whose addresses lead to the same place, and those that are ending.
// Thread    A place is read and written by the thread that has it, and is free again when that thread ends.
// Fork      A child begins with free places: the threads that had them are not there.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace saeta {

class biased_lock; // base/biased_lock.hpp

/// Who keeps something.
enum class thread_object : std::uint8_t { number, generation, streams, cache, storages };

namespace detail {

struct alignas(64) thread_place {
  std::atomic<std::uintptr_t> owner{0};            ///< key of the thread; 0: nobody's
  std::array<void*, 5> objects{};                  ///< by thread_object
  std::atomic<const biased_lock*> inside{nullptr}; ///< that it has taken as its own; others read it
};

inline constexpr unsigned place_bits = 10;
extern constinit std::array<thread_place, std::size_t{1} << place_bits> thread_places;

inline std::uintptr_t thread_key() noexcept {
  return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
}

inline thread_place& place_of(std::uintptr_t key) noexcept {
  // Control blocks lie at distances that have many factors of two.
  const std::uint64_t spread = key / 64 * std::uint64_t{0x9E3779B97F4A7C15};
  return thread_places[static_cast<std::size_t>(spread >> (64 - place_bits))];
}

/// Of this thread; null where it has none.
inline thread_place* find_place() noexcept {
  const std::uintptr_t key = thread_key();
  thread_place& mine = place_of(key);
  return mine.owner.load(std::memory_order_relaxed) == key ? &mine : nullptr;
}

/// In a child of fork, before anything else runs.
void free_thread_places() noexcept;

} // namespace detail

/// What this thread has handed to `keep_own`; null: nothing, or the thread has no place.
inline void* find_own(thread_object kept) noexcept {
  const detail::thread_place* const mine = detail::find_place();
  return mine != nullptr ? mine->objects[static_cast<std::size_t>(kept)] : nullptr;
}

/// The object stays valid until the thread ends, or something else is handed over. Without a place there is no effect.
void keep_own(thread_object kept, void* object) noexcept;

} // namespace saeta
