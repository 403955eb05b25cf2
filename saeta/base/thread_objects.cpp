#include "saeta/base/thread_objects.hpp"

namespace saeta {
namespace {

using detail::place_of;
using detail::thread_key;
using detail::thread_place;

thread_local constinit bool ending = false;

/// Gives the place back when the thread ends.
struct place_holder {
  place_holder() = default;
  place_holder(const place_holder&) = delete;
  place_holder& operator=(const place_holder&) = delete;
  ~place_holder() {
    ending = true;
    const std::uintptr_t key = thread_key();
    thread_place& mine = place_of(key);
    if (mine.owner.load(std::memory_order_relaxed) == key) {
      mine.owner.store(0, std::memory_order_release);
    }
  }
};

} // namespace

constinit std::array<thread_place, std::size_t{1} << detail::place_bits> detail::thread_places{};

void detail::free_thread_places() noexcept {
  for (thread_place& each : thread_places) {
    if (each.owner.load(std::memory_order_relaxed) != 0) { // an unused page stays shared with the parent
      each.owner.store(0, std::memory_order_relaxed);
    }
  }
}

void keep_own(thread_object kept, void* object) noexcept {
  if (ending) {
    return;
  }
  const std::uintptr_t key = thread_key();
  thread_place& place = place_of(key);
  if (place.owner.load(std::memory_order_relaxed) != key) {
    std::uintptr_t nobody = 0;
    if (!place.owner.compare_exchange_strong(nobody, key, std::memory_order_acquire)) {
      return;
    }
    place.objects.fill(nullptr);
    thread_local const place_holder until_the_end;
    static_cast<void>(until_the_end);
  }
  place.objects[static_cast<std::size_t>(kept)] = object;
}

} // namespace saeta
