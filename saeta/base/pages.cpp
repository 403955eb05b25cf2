#include "saeta/base/pages.hpp"

#include <cerrno>
#include <limits>

#include <sys/mman.h>

namespace saeta {

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

void* map_pages(std::size_t bytes) noexcept {
  if (bytes > std::numeric_limits<std::size_t>::max() - huge_page_bytes) {
    return nullptr;
  }
  // The mapping has room to start at a multiple of a huge page. The surplus is unmapped at once.
  const std::size_t room = bytes >= huge_page_bytes ? bytes + huge_page_bytes : bytes;
  void* const result = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (result == MAP_FAILED) {
    return nullptr;
  }
  if (room == bytes) {
    return result;
  }
  auto* const first = static_cast<std::byte*>(result);
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

namespace {

#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22;
#endif

} // namespace

bool has_pages(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) {
    return true;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = address / page_bytes() * page_bytes();
  // Older systems do not know this advice, and device memory does not support it: other errors are ignored.
  return ::madvise(reinterpret_cast<void*>(first), address + bytes.size() - first, MADV_POPULATE_READ) == 0 ||
         errno != EFAULT;
}

} // namespace saeta
