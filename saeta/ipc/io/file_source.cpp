#include "saeta/ipc/io/file_source.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/ipc/io/os_error.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace saeta::ipc::detail {

file_source::open_descriptor::~open_descriptor() {
  if (value >= 0) {
    ::close(value);
  }
}

std::shared_ptr<const file_source> file_source::open(const std::filesystem::path& file) {
  // Opening a pipe that has no writer would block before the file type is known.
  open_descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.value < 0) {
    throw os_error("open", file, errno);
  }
  struct stat status {};
  if (::fstat(opened.value, &status) != 0) {
    throw os_error("get the status of", file, errno);
  }
  if (S_ISDIR(status.st_mode)) {
    throw os_error("read", file, EISDIR);
  }
  if (!S_ISREG(status.st_mode)) {
    throw error(errc::io, concat("can't read '", file.string(), "': it is not a regular file"));
  }
  const auto size = checked_cast<std::uint64_t>(status.st_size, "file size");
  return std::shared_ptr<const file_source>(new file_source(file.string(), size, std::move(opened)));
}

file_source::~file_source() {
  if (!mapped_.empty()) {
    ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
  }
}

void file_source::read_at(std::uint64_t offset, std::span<std::byte> target) const {
  std::size_t done = 0;
  while (done != target.size()) {
    const ssize_t got = ::pread(descriptor(), target.data() + done, target.size() - done,
                                checked_cast<off_t>(offset + done, "file offset"));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      const int number = errno;
      throw error(errc::io,
                  concat("can't read ", target.size(), " bytes at offset ", offset, " of '", name(), "': ",
                         got == 0
                             ? concat("the file was truncated, it ends at offset ", offset + done)
                             : concat(std::generic_category().message(number), " (errno ", number, ")")));
    }
    done += static_cast<std::size_t>(got);
  }
}

std::span<const std::byte> file_source::view() const {
  std::call_once(mapping_, [this] {
    if (size() == 0) {
      return;
    }
    const auto bytes = checked_cast<std::size_t>(size(), "file size");
    // The mapping is private: a consumer that ignores the read-only flag writes to private pages and never to
    // the file. No memory is reserved for such pages, since files may be larger than memory. If the system
    // refuses this mapping, a read-only one is made.
    void* mapped =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor(), 0);
    if (mapped == MAP_FAILED && errno == ENOMEM) {
      mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor(), 0);
    }
    if (mapped == MAP_FAILED) {
      throw os_error("map", name(), errno);
    }
    mapped_ = {static_cast<const std::byte*>(mapped), bytes};
  });
  return mapped_;
}

} // namespace saeta::ipc::detail
