#include "saeta/backend/sim/arena.hpp"

#include "saeta/base/text.hpp"

#include <atomic>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace saeta::sim {
namespace {

constexpr std::size_t spare = std::size_t{256} << 20; ///< for large alignments on small devices
constexpr unsigned prefers_other_streams = 75;        ///< percent

/// Where the last arena was, so that the next one takes its addresses: ThreadSanitizer under qemu has few, and does
/// not use them twice by itself.
std::atomic<void*> last_base{nullptr};

} // namespace

arena::arena(std::uint64_t bytes) : size_(4 * bytes + spare) {
  void* const mapped =
      mmap(last_base, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw error(errc::out_of_memory, concat("sim: the system has no address range of ", size_, " bytes"));
  }
  base_ = static_cast<std::uint8_t*>(mapped);
  last_base = mapped;
}

arena::~arena() {
  munmap(base_, size_);
  if (file_ >= 0) {
    ::close(file_);
  }
}

void arena::share() {
  if (file_ >= 0) {
    return;
  }
  const int file = memfd_create("saeta-sim", MFD_CLOEXEC);
  const auto refuse = [&] {
    if (file >= 0) {
      ::close(file);
    }
    throw error(errc::device, concat("sim: the system can't share ", size_, " bytes"));
  };
  if (file < 0 || ftruncate(file, static_cast<off_t>(size_)) != 0) {
    refuse();
  }
  for (std::size_t done = 0; done < used_;) {
    const ssize_t written = pwrite(file, base_ + done, used_ - done, static_cast<off_t>(done));
    if (written <= 0) {
      refuse();
    }
    done += static_cast<std::size_t>(written);
  }
  if (mmap(base_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) ==
      MAP_FAILED) {
    refuse();
  }
  file_ = file;
}

int arena::descriptor() const {
  const int copy = fcntl(file_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    throw error(errc::device, "sim: the process has no file descriptors left");
  }
  return copy;
}

bool arena::contains(const void* pointer) const noexcept {
  return std::less_equal<const void*>()(base_, pointer) && std::less<const void*>()(pointer, base_ + size_);
}

std::size_t arena::offset(const void* pointer) const noexcept {
  return static_cast<std::size_t>(static_cast<const std::uint8_t*>(pointer) - base_);
}

std::size_t arena::gap_before(std::size_t offset, std::size_t alignment) const {
  const auto address = reinterpret_cast<std::uintptr_t>(base_ + offset);
  return static_cast<std::size_t>((alignment - address % alignment) % alignment);
}

bool arena::fits(const free_range& range, std::size_t bytes, std::size_t alignment) const {
  const std::size_t skipped = gap_before(range.offset, alignment);
  return skipped <= range.bytes && bytes <= range.bytes - skipped;
}

free_range arena::split_range(std::size_t index, std::size_t bytes, std::size_t alignment) {
  free_range taken = std::move(free_[index]);
  free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(index));
  const std::size_t skipped = gap_before(taken.offset, alignment);
  const std::size_t behind = taken.bytes - skipped - bytes;
  if (skipped != 0) {
    free_range before = taken;
    before.bytes = skipped;
    free_.push_back(std::move(before));
  }
  if (behind != 0) {
    free_range rest = taken;
    rest.offset += skipped + bytes;
    rest.bytes = behind;
    free_.push_back(std::move(rest));
  }
  taken.offset += skipped;
  taken.bytes = bytes;
  return taken;
}

std::optional<free_range> arena::map_new_range(std::size_t bytes, std::size_t alignment) {
  const std::size_t skipped = gap_before(used_, alignment);
  if (skipped > size_ - used_ || bytes > size_ - used_ - skipped) {
    return std::nullopt;
  }
  if (skipped != 0) {
    free_.push_back({used_, skipped, false, nullptr});
  }
  free_range taken{used_ + skipped, bytes, false, nullptr};
  used_ += skipped + bytes;
  return taken;
}

void arena::merge() {
  std::sort(free_.begin(), free_.end(),
            [](const free_range& a, const free_range& b) { return a.offset < b.offset; });
  std::vector<free_range> merged;
  for (free_range& range : free_) {
    if (!merged.empty() && merged.back().offset + merged.back().bytes == range.offset &&
        merged.back().pooled == range.pooled && merged.back().finished() && range.finished()) {
      merged.back().bytes += range.bytes;
    } else {
      merged.push_back(std::move(range));
    }
  }
  free_ = std::move(merged);
}

std::optional<free_range> arena::take(std::size_t bytes, std::size_t alignment) {
  if (used_ > size_ / 2) {
    merge();
  }
  for (std::size_t i = free_.size(); i-- > 0;) {
    if (!free_[i].pooled && free_[i].finished() && fits(free_[i], bytes, alignment)) {
      return split_range(i, bytes, alignment);
    }
  }
  return map_new_range(bytes, alignment);
}

std::optional<free_range> arena::take_pooled(std::size_t bytes, std::uint32_t slot, random_source& random) {
  const bool others_first = random.chance(prefers_other_streams);
  std::optional<std::size_t> found;
  for (std::size_t i = free_.size(); i-- > 0;) {
    if (!fits(free_[i], bytes, granule)) {
      continue;
    }
    const bool of_other = free_[i].freed != nullptr && !free_[i].freed_by(slot);
    if (!found || (others_first && of_other)) {
      found = i;
    }
    if (!others_first || of_other) {
      break;
    }
  }
  return found ? split_range(*found, bytes, granule) : map_new_range(bytes, granule);
}

std::size_t arena::pooled_bytes() const {
  std::size_t sum = 0;
  for (const free_range& range : free_) {
    sum += range.pooled ? range.bytes : 0;
  }
  return sum;
}

std::size_t arena::trim(std::size_t keep) {
  std::size_t left = pooled_bytes();
  std::size_t given = 0;
  for (free_range& range : free_) {
    if (range.pooled && range.finished() && left > keep && range.bytes <= left - keep) {
      range.pooled = false;
      left -= range.bytes;
      given += range.bytes;
    }
  }
  return given;
}

} // namespace saeta::sim
