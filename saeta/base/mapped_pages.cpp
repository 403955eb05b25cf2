#include "saeta/base/mapped_pages.hpp"

#include <cerrno>
#include <cstdint>

#include <sys/mman.h>

namespace saeta {
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
  const std::uintptr_t first = address / least_page * least_page;
  // Older systems do not know this advice, and device memory does not support it: other errors are ignored.
  return ::madvise(reinterpret_cast<void*>(first), address + bytes.size() - first, MADV_POPULATE_READ) == 0 ||
         errno != EFAULT;
}

} // namespace saeta
