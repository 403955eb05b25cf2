// Preloaded into a program, makes the system look as if its pages had 64 KiB, as on many machines of 64-bit
// Arm: sysconf says so, mappings begin at such pages, and calls with other addresses fail as they do there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { large = 65536, small = 4096, populate_read = 22 };

static void* next(const char* name) { return dlsym(RTLD_NEXT, name); }

static uintptr_t up(uintptr_t bytes) { return (bytes + large - 1) / large * large; }

static int refuse(void) {
  errno = EINVAL;
  return -1;
}

long sysconf(int name) {
  static long (*real)(int);
  real = real ? real : (long (*)(int))next("sysconf");
  return name == _SC_PAGESIZE ? large : name == _SC_PHYS_PAGES ? real(name) / (large / small) : real(name);
}

int getpagesize(void) { return large; }

int munmap(void* memory, size_t bytes) {
  static int (*real)(void*, size_t);
  real = real ? real : (int (*)(void*, size_t))next("munmap");
  return (uintptr_t)memory % large != 0 ? refuse() : real(memory, up(bytes));
}

void* mmap(void* at, size_t bytes, int access, int flags, int file, off_t offset) {
  static void* (*real)(void*, size_t, int, int, int, off_t);
  static int (*give_back)(void*, size_t);
  real = real ? real : (void* (*)(void*, size_t, int, int, int, off_t))next("mmap");
  give_back = give_back ? give_back : (int (*)(void*, size_t))next("munmap");
  if (at != NULL || bytes == 0 || bytes > SIZE_MAX - 2 * large) {
    return real(at, bytes, access, flags, file, offset);
  }
  const int reserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  char* const room = real(NULL, up(bytes) + large, PROT_NONE, reserved, -1, 0);
  if (room == MAP_FAILED) {
    return room;
  }
  char* const first = (char*)up((uintptr_t)room);
  char* const last = first + up(bytes);
  if (first != room) {
    give_back(room, (size_t)(first - room));
  }
  if (first - room != large) {
    give_back(last, large - (size_t)(first - room));
  }
  void* const mapped = real(first, bytes, access, flags | MAP_FIXED, file, offset);
  if (mapped == MAP_FAILED) {
    give_back(first, (size_t)(last - first));
  }
  return mapped;
}

int madvise(void* memory, size_t bytes, int advice) {
  static int (*real)(void*, size_t, int);
  real = real ? real : (int (*)(void*, size_t, int))next("madvise");
  if ((uintptr_t)memory % large != 0) {
    return refuse();
  }
  if (advice != populate_read) {
    return real(memory, bytes, advice);
  }
  for (size_t at = 0; at < bytes; at += large) { // a page is there if the file has its first byte
    if (real((char*)memory + at, small, advice) != 0) {
      return -1;
    }
  }
  return 0;
}
