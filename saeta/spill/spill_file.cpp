#include "saeta/spill/spill_file.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/os_error.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace saeta {
namespace {

constexpr std::size_t longest_file = std::size_t{4} << 30;
/// A multiple of the page size of every machine, so that a range can be mapped and its blocks given back.
constexpr std::size_t alignment = std::size_t{64} << 10;

error failed_in(const std::string& folder, std::string_view action, int number) {
  return os_error(concat("can't ", action, " a spill file in '", folder, "'"), number);
}

int open_in(const std::string& folder) {
  int made = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  // EOPNOTSUPP, EISDIR, EINVAL: a file system without such files
  if (made < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string name = (std::filesystem::path(folder) / ".saeta-spill-XXXXXX").string();
    made = ::mkostemp(name.data(), O_CLOEXEC);
    if (made >= 0) {
      ::unlink(name.c_str());
    }
  }
  if (made < 0) {
    throw failed_in(folder, "make", errno);
  }
  return made;
}

bool make_hole(int descriptor, std::size_t offset, std::size_t bytes) noexcept {
  return ::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(bytes)) == 0;
}

/// The bytes after which the next body begins a new file.
std::size_t file_limit() {
  rlimit allowed{};
  return ::getrlimit(RLIMIT_FSIZE, &allowed) == 0
             ? static_cast<std::size_t>(std::min<std::uint64_t>(allowed.rlim_cur, longest_file))
             : longest_file;
}

} // namespace

nameless_file::nameless_file(std::string folder)
    : folder_(std::move(folder)), descriptor_(open_in(folder_)),
      has_holes_(make_hole(descriptor_, 0, alignment)) {}

nameless_file::~nameless_file() { ::close(descriptor_); }

error nameless_file::failed(std::string_view action, int number) const {
  return failed_in(folder_, action, number);
}

file_range::~file_range() {
  // The system frees the blocks of a file that ends.
  if (file_ != nullptr && file_.use_count() > 1 && made_in_ == fork_generation()) {
    static_cast<void>(make_hole(file_->descriptor(), offset_, round_up(bytes_, alignment)));
  }
}

void file_range::write(std::span<const std::byte> from, std::size_t at) const {
  while (!from.empty()) {
    const ssize_t done =
        ::pwrite(file_->descriptor(), from.data(), from.size(), static_cast<off_t>(offset_ + at));
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) {
      throw file_->failed(concat("write ", from.size(), " bytes to"), done == 0 ? ENOSPC : errno);
    }
    from = from.subspan(static_cast<std::size_t>(done));
    at += static_cast<std::size_t>(done);
  }
}

file_range spill_folder::take(std::size_t bytes) {
  const std::lock_guard held(mutex_);
  auto file = latest_.lock();
  if (file == nullptr || !file->has_holes() || used_ > file_limit() || bytes > file_limit() - used_) {
    file = std::make_shared<const nameless_file>(path_);
    latest_ = file;
    used_ = 0;
  }
  file_range place(std::move(file), used_, bytes);
  used_ += round_up(bytes, alignment);
  return place;
}

} // namespace saeta
