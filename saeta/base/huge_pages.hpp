// Large blocks of host memory in huge pages.
//
// What      Fresh memory costs a page fault for each page, and malloc gives large blocks back to the system when they are freed: the
//           next block of that size is fresh again. A huge page costs one fault for what 512 small pages hold. Where the system
//           has no huge pages, these blocks are ordinary memory.
// Owner     Whoever maps a block unmaps it; `huge_page_allocator` does both for a container.
// Thread    Any.
// Failure   `map_pages` returns null; the allocator throws std::bad_alloc.
#pragma once

#include <cstddef>
#include <limits>
#include <new>

namespace saeta {

/// A fault brings so many bytes of a large block at once, where the system has huge pages.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Zeros. A block of at least one huge page begins at a multiple of its size. Null where the system has no memory.
/// @param bytes  a multiple of 4096.
[[nodiscard]] void* map_pages(std::size_t bytes) noexcept;
/// @param bytes  as they were mapped.
void unmap_pages(void* memory, std::size_t bytes) noexcept;

/// Bytes to map for a block of `bytes`; 0 where the block is too small for a huge page. The last huge page is mapped as a whole
/// if at least half of it is used.
constexpr std::size_t mapped_bytes(std::size_t bytes) noexcept {
  constexpr std::size_t small_page = 4096;
  constexpr std::size_t half = huge_page_bytes / 2;
  if (bytes < half || bytes > std::numeric_limits<std::size_t>::max() - huge_page_bytes) {
    return 0;
  }
  const std::size_t page = bytes % huge_page_bytes < half ? small_page : huge_page_bytes;
  return (bytes + page - 1) / page * page;
}

/// Blocks of at least half a huge page are mapped, smaller ones are those of `operator new`.
template <class T>
class huge_page_allocator {
public:
  using value_type = T;

  huge_page_allocator() = default;
  // Implicit: allocators convert to those of other types.
  template <class Other>
  huge_page_allocator(const huge_page_allocator<Other>&) noexcept {}

  [[nodiscard]] T* allocate(std::size_t count) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    const std::size_t mapped = mapped_bytes(count * sizeof(T));
    void* const made = mapped == 0 ? ::operator new(count * sizeof(T)) : map_pages(mapped);
    if (made == nullptr) {
      throw std::bad_alloc();
    }
    return static_cast<T*>(made);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    const std::size_t mapped = mapped_bytes(count * sizeof(T));
    if (mapped == 0) {
      ::operator delete(memory);
    } else {
      unmap_pages(memory, mapped);
    }
  }

  friend bool operator==(const huge_page_allocator&, const huge_page_allocator&) noexcept { return true; }
};

} // namespace saeta
