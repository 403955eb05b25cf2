#include "saeta/ipc/detail/mapped_file.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/ipc/detail/os_error.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace saeta::ipc::detail {

std::shared_ptr<const mapped_file> mapped_file::open(const std::filesystem::path& file) {
  // A pipe without a writer would block the call, before it can be told from a file.
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    throw os_error("open", file, errno);
  }
  const std::shared_ptr<mapped_file> opened(new mapped_file(descriptor));

  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    throw os_error("look at", file, errno);
  }
  if (S_ISDIR(status.st_mode)) {
    throw os_error("read", file, EISDIR);
  }
  if (!S_ISREG(status.st_mode)) {
    throw error(errc::io,
                concat("can't read '", file.string(), "': it is no regular file, so it can't be mapped"));
  }
  if (status.st_size == 0) {
    return opened;
  }
  const auto size = checked_cast<std::size_t>(status.st_size, "file size");
  void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapped == MAP_FAILED) {
    throw os_error("map", file, errno);
  }
  opened->bytes_ = {static_cast<const std::byte*>(mapped), size};
  return opened;
}

mapped_file::~mapped_file() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  ::close(descriptor_);
}

} // namespace saeta::ipc::detail
