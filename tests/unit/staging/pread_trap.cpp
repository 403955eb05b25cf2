#include "pread_trap.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace saeta::support {
namespace {

std::atomic<pread_trap*> trap{nullptr};

} // namespace

pread_trap::pread_trap(decision decide) : decide_(std::move(decide)) { trap = this; }

pread_trap::~pread_trap() { trap = nullptr; }

} // namespace saeta::support

extern "C" ssize_t pread(int descriptor, void* target, std::size_t bytes, off_t offset) {
  if (saeta::support::pread_trap* const set = saeta::support::trap; set != nullptr) {
    const auto said = set->next();
    if (said.error != 0) {
      errno = said.error;
      return -1;
    }
    bytes = std::min(bytes, said.most);
  }
  return ::syscall(SYS_pread64, descriptor, target, bytes, offset);
}
