#include "saeta/base/huge_pages.hpp"

#include <cstdint>
#include <limits>

#include <sys/mman.h>

namespace saeta {

void* map_pages(std::size_t bytes) noexcept {
  if (bytes > std::numeric_limits<std::size_t>::max() - huge_page_bytes) {
    return nullptr;
  }
  // The mapping has room to start at a multiple of a huge page. The surplus is unmapped at once.
  const std::size_t room = bytes >= huge_page_bytes ? bytes + huge_page_bytes : bytes;
  void* const made = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) {
    return nullptr;
  }
  if (room == bytes) {
    return made;
  }
  auto* const first = static_cast<std::byte*>(made);
  const std::size_t behind = reinterpret_cast<std::uintptr_t>(first) % huge_page_bytes;
  const std::size_t before = behind == 0 ? 0 : huge_page_bytes - behind;
  if (before != 0) {
    ::munmap(first, before);
  }
  ::munmap(first + before + bytes, huge_page_bytes - before);
  ::madvise(first + before, bytes, MADV_HUGEPAGE); // without huge pages, the block has small pages
  return first + before;
}

void unmap_pages(void* memory, std::size_t bytes) noexcept { ::munmap(memory, bytes); }

} // namespace saeta
