#include "saeta/share/descriptor.hpp"

#include <cerrno>

#include <pthread.h>
#include <unistd.h>

namespace saeta {
namespace {

constinit std::mutex forking;
constinit descriptor* first = nullptr;

} // namespace

std::mutex& descriptor::forks() noexcept {
  [[maybe_unused]] static const int watching =
      ::pthread_atfork([] { forking.lock(); }, [] { forking.unlock(); },
                       [] {
                         close_all();
                         forking.unlock();
                       });
  return forking;
}

descriptor::descriptor(int number) noexcept : number_(number) {
  if (number >= 0) {
    link();
  }
}

descriptor::descriptor(descriptor&& other) noexcept { *this = std::move(other); }

descriptor& descriptor::operator=(descriptor&& other) noexcept {
  if (this != &other) {
    close();
    const std::lock_guard lock(forks());
    if (other.is_open()) {
      other.unlink();
      number_ = std::exchange(other.number_, -1);
      link();
    }
  }
  return *this;
}

void descriptor::close() noexcept {
  if (is_open()) {
    const int before = errno;
    {
      const std::lock_guard lock(forks());
      unlink();
      ::close(std::exchange(number_, -1));
    }
    errno = before;
  }
}

void descriptor::link() noexcept {
  next_ = first;
  link_ = &first;
  first = this;
  if (next_ != nullptr) {
    next_->link_ = &next_;
  }
}

void descriptor::unlink() noexcept {
  *link_ = next_;
  if (next_ != nullptr) {
    next_->link_ = link_;
  }
}

/// In a child of fork, which has the lock.
void descriptor::close_all() noexcept {
  while (first != nullptr) {
    descriptor& closed = *first;
    closed.unlink();
    ::close(std::exchange(closed.number_, -1));
  }
}

} // namespace saeta
