#include "saeta/base/checked.hpp"
#include "saeta/base/os_error.hpp"
#include "saeta/ipc/io/source.hpp"
#include "saeta/observe/read_clock.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace saeta::ipc::detail {

file_source::open_file::open_file(const std::filesystem::path& file)
    // Opening a pipe that has no writer would block before the file type is known.
    : descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor < 0) {
    throw os_error("open", file, errno);
  }
  try {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) {
      throw os_error("get the status of", file, errno);
    }
    if (S_ISDIR(status.st_mode)) {
      throw os_error("read", file, EISDIR);
    }
    if (!S_ISREG(status.st_mode)) {
      throw error(errc::io, concat("can't read '", file.string(), "': it is not a regular file"));
    }
    found = {static_cast<std::int64_t>(status.st_dev), static_cast<std::int64_t>(status.st_ino),
             status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  } catch (...) {
    ::close(descriptor);
    throw;
  }
}

file_source::open_file::~open_file() { ::close(descriptor); }

/// Keeps the files that were opened last. The one that was opened first is dropped, and is closed when its
/// reads have ended.
void file_source::keep_for_a_while(opened file) {
  constexpr std::size_t most = 128; // far below the usual limit of 1024 descriptors a process
  static std::mutex keeping;
  static std::array<opened, most> files;
  static std::size_t next = 0;
  const std::lock_guard lock(keeping);
  files[next++ % most].swap(file);
}

file_source::file_source(const std::filesystem::path& file, const opened& found, bool keep_open)
    : byte_source(file.string(), checked_cast<std::uint64_t>(found->found[2], "file size")),
      found_(found->found), kept_(keep_open ? found : nullptr), recent_(found) {}

std::shared_ptr<const file_source> file_source::open(const std::filesystem::path& file, bool keep_open) {
  auto opened_file = std::make_shared<const open_file>(file);
  std::shared_ptr<const file_source> source(new file_source(file, opened_file, keep_open));
  if (!keep_open) {
    keep_for_a_while(std::move(opened_file));
  }
  return source;
}

file_source::opened file_source::file() const {
  if (kept_ != nullptr) {
    return kept_;
  }
  const std::lock_guard lock(reopening_);
  opened current = recent_.lock();
  if (current == nullptr) {
    current = std::make_shared<const open_file>(name());
    if (current->found != found_) {
      throw error(errc::io, concat("'", name(), "' was replaced or changed while it was read"));
    }
    recent_ = current;
    keep_for_a_while(current);
  }
  return current;
}

file_source::~file_source() {
  if (!mapped_.empty()) {
    ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
  }
}

void file_source::read_at(std::uint64_t offset, std::span<std::byte> target) const {
  const timed_part timed(read_part::file, target.size());
  const opened from = file();
  std::size_t done = 0;
  while (done != target.size()) {
    const ssize_t got = ::pread(from->descriptor, target.data() + done, target.size() - done,
                                checked_cast<off_t>(offset + done, "file offset"));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      const int number = errno;
      const std::string what =
          concat("can't read ", target.size(), " bytes at offset ", offset, " of '", name(), "'");
      throw got < 0
          ? os_error(what, number)
          : error(errc::io, concat(what, ": the file was truncated, it ends at offset ", offset + done));
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
    const opened from = file();
    // The mapping is private: a consumer that ignores the read-only flag writes to private pages and never to
    // the file. No memory is reserved for such pages, since files may be larger than memory. If the system
    // refuses this mapping, a read-only one is made.
    void* mapped =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, from->descriptor, 0);
    if (mapped == MAP_FAILED && errno == ENOMEM) {
      mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, from->descriptor, 0);
    }
    if (mapped == MAP_FAILED) {
      throw os_error("map", name(), errno);
    }
    mapped_ = {static_cast<const std::byte*>(mapped), bytes};
  });
  return mapped_;
}

} // namespace saeta::ipc::detail
