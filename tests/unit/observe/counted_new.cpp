#include "unit/observe/counted_new.hpp"

#include <cstdlib>
#include <new>

namespace saeta::unit {
namespace {

thread_local std::size_t allocated = 0;
thread_local std::size_t left = std::numeric_limits<std::size_t>::max();

} // namespace

std::size_t allocations() noexcept { return allocated; }

failing_new::failing_new(std::size_t successes) noexcept { left = successes; }
failing_new::~failing_new() { left = std::numeric_limits<std::size_t>::max(); }

namespace {

void* allocate(std::size_t bytes) {
  if (left == 0) {
    throw std::bad_alloc();
  }
  --left;
  ++allocated;
  if (void* const made = std::malloc(bytes == 0 ? 1 : bytes)) {
    return made;
  }
  throw std::bad_alloc();
}

} // namespace
} // namespace saeta::unit

void* operator new(std::size_t bytes) { return saeta::unit::allocate(bytes); }
void* operator new[](std::size_t bytes) { return saeta::unit::allocate(bytes); }
void operator delete(void* gone) noexcept { std::free(gone); }
void operator delete[](void* gone) noexcept { std::free(gone); }
void operator delete(void* gone, std::size_t) noexcept { std::free(gone); }
void operator delete[](void* gone, std::size_t) noexcept { std::free(gone); }

// Replaces all forms without alignment, so that no memory is freed by a function of the library.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* gone, const std::nothrow_t&) noexcept { std::free(gone); }
void operator delete[](void* gone, const std::nothrow_t&) noexcept { std::free(gone); }
