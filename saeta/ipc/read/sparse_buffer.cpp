#include "saeta/ipc/read/sparse_buffer.hpp"

#include "saeta/base/text.hpp"

#include <sys/mman.h>

namespace saeta::ipc::detail {

std::shared_ptr<sparse_buffer> sparse_buffer::make(std::int64_t bytes) {
  void* const memory = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw error(errc::out_of_memory,
                concat("the system has no address range for a body of ", bytes, " bytes"));
  }
  return std::shared_ptr<sparse_buffer>(new sparse_buffer(static_cast<std::uint8_t*>(memory), bytes));
}

sparse_buffer::~sparse_buffer() { ::munmap(mutable_data(), static_cast<std::size_t>(size())); }

} // namespace saeta::ipc::detail
