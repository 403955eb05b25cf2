#include "saeta/share/sealed_file.hpp"

#include "saeta/base/interruptible_wait.hpp"
#include "saeta/base/os_error.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace saeta::sharing {
namespace {

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
constexpr std::size_t most_at_once = std::size_t{64} << 20; // an interrupt waits for as many bytes

} // namespace

descriptor make_sealed_file(const char* name, std::initializer_list<std::span<const std::byte>> contents) {
  std::size_t size = 0;
  for (const std::span<const std::byte> content : contents) {
    size += content.size();
  }
  const auto fail = [&] {
    const int number = errno;
    throw os_error(concat("a table can't be shared: no file of ", size, " bytes in memory can be made"),
                   number);
  };
  descriptor file = descriptor::opened([&] { return ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING); });
  if (!file.is_open()) {
    fail();
  }
  interrupt_pace pace;
  for (std::span<const std::byte> left : contents) {
    while (!left.empty()) {
      pace.check_if_due();
      const auto written = ::write(file.number(), left.data(), std::min(left.size(), most_at_once));
      if (written >= 0) {
        left = left.subspan(static_cast<std::size_t>(written));
      } else if (errno != EINTR) {
        fail();
      }
    }
  }
  if (::fcntl(file.number(), F_ADD_SEALS, F_SEAL_SEAL | seals) != 0) {
    fail();
  }
  return file;
}

void require_sealed(int file, std::uint64_t bytes) {
  const int found = std::max(::fcntl(file, F_GET_SEALS), 0); // negative if it is not a file in memory
  struct stat status {};
  const std::uint64_t held =
      ::fstat(file, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : std::uint64_t{0};
  if ((found & seals) != seals || bytes > held || bytes == 0) {
    throw error(errc::format,
                concat("the process that shared the table sent a file of ", held, " bytes with seals 0x",
                       hexadecimal(static_cast<std::uint64_t>(found)), ", expected at least ", bytes,
                       " bytes and seals 0x", hexadecimal(seals)));
  }
}

file_mapping::file_mapping(int file, std::uint64_t bytes, std::shared_ptr<void> kept)
    : kept_(std::move(kept)) {
  require_sealed(file, bytes);
  // A private mapping: before Linux 6.7 a file that is sealed against writing can't be mapped shared, not
  // even to read. Pages that are never written are the same memory in both kinds of mapping.
  void* const data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) {
    throw os_error("the table can't be opened", errno);
  }
  bytes_ = {static_cast<const std::byte*>(data), bytes};
}

file_mapping::~file_mapping() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

} // namespace saeta::sharing
