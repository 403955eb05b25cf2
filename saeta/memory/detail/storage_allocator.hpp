// Host memory for storages, which come and go with every buffer.
//
// What      An allocator for std::allocate_shared. Each thread keeps the memory of some storages that went on it for the
//           next ones: the C library keeps only a handful, and what lies beyond costs more than the rest of a buffer.
// Fork      A child does not destroy a storage of its parent (base/process.hpp): its locks may be held for ever.
// Sanitize  With AddressSanitizer every storage has memory of its own, so that uses after its end are found.
#pragma once

#include "saeta/base/process.hpp"
#include "saeta/base/sanitizers.hpp"

#include <cstddef>
#include <cstdint>
#include <new>

namespace saeta {

/// Memory of ended storages, all of one size, that a thread keeps.
class spare_storages {
public:
  static constexpr std::size_t most = 256;

  spare_storages() = default;
  spare_storages(const spare_storages&) = delete;
  spare_storages& operator=(const spare_storages&) = delete;
  ~spare_storages();

  /// Of the calling thread; null while it has none.
  static spare_storages* find() noexcept {
#ifdef SAETA_ADDRESS_SANITIZER
    return nullptr;
#else
    return own_;
#endif
  }
  /// Null when there is none.
  [[nodiscard]] void* take() noexcept {
    link* const taken = first_;
    if (taken != nullptr) {
      first_ = taken->next;
      --count_;
    }
    return taken;
  }
  /// False when there are enough.
  [[nodiscard]] bool keep(void* memory) noexcept {
    if (count_ == most) {
      return false;
    }
    first_ = new (memory) link{first_};
    ++count_;
    return true;
  }

  [[nodiscard]] std::size_t count() const noexcept { return count_; }

  /// Where the thread has no list, or a full one: makes the list, or frees the memory.
  static void keep_or_free(void* memory) noexcept;

private:
  struct link {
    link* next;
  };
  static thread_local constinit spare_storages* own_;
  link* first_ = nullptr;
  std::size_t count_ = 0;
};

template <class T>
struct storage_allocator {
  using value_type = T;
  std::uint64_t made_in = fork_generation();

  storage_allocator() = default;
  template <class U>
  storage_allocator(const storage_allocator<U>& other) noexcept // NOLINT: as every allocator
      : made_in(other.made_in) {}

  [[nodiscard]] T* allocate(std::size_t /*one*/) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    spare_storages* const own = spare_storages::find();
    void* const kept = own != nullptr ? own->take() : nullptr;
    return static_cast<T*>(kept != nullptr ? kept : ::operator new(sizeof(T)));
  }
  void deallocate(T* object, std::size_t /*one*/) noexcept {
    spare_storages* const own = spare_storages::find();
    if (own == nullptr || !own->keep(object)) {
      spare_storages::keep_or_free(object);
    }
  }
  template <class U>
  void destroy(U* object) const noexcept {
    if (made_in == fork_generation()) {
      object->~U();
    }
  }
  template <class U>
  friend bool operator==(const storage_allocator&, const storage_allocator<U>&) noexcept {
    return true;
  }
};

} // namespace saeta
