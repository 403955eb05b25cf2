#include "allocate/peers.hpp"

#include <cstdlib>

#include <dlfcn.h>
#include <gnu/libc-version.h>

namespace saeta::bench {
namespace {

class c_allocator {
public:
  using block = void*;
  using allocate_function = void* (*)(std::size_t);
  using free_function = void (*)(void*);

  c_allocator(allocate_function take, free_function give) : take_(take), give_(give) {}

  block allocate(std::size_t bytes, const thread_stream&) {
    void* const made = take_(bytes);
    if (made == nullptr) {
      throw error(errc::out_of_memory, concat("no memory for ", bytes, " bytes"));
    }
    return made;
  }
  void free(block&& freed, const thread_stream&) { give_(freed); }

private:
  allocate_function take_;
  free_function give_;
};

struct library {
  const char* name;
  const char* file;
  const char* take;
  const char* give;
  std::string (*version)(void* loaded);
};

template <class Function>
Function symbol(void* loaded, const char* name) {
  return reinterpret_cast<Function>(::dlsym(loaded, name));
}

std::string jemalloc_version(void* loaded) {
  using control = int (*)(const char*, void*, std::size_t*, void*, std::size_t);
  const char* text = "unknown";
  std::size_t bytes = sizeof text;
  if (const auto ask = symbol<control>(loaded, "mallctl")) {
    static_cast<void>(ask("version", &text, &bytes, nullptr, 0)); // on failure `text` keeps its default
  }
  return text;
}

std::string mimalloc_version(void* loaded) {
  using number = int (*)();
  const auto ask = symbol<number>(loaded, "mi_version");
  return ask == nullptr ? "unknown" : concat(ask());
}

/// Adds an allocator of a library that is loaded by dlopen: a linked one would replace malloc in the whole
/// program. The library is never unloaded, because its threads may still run.
void add(peer_list& to, const library& which) {
  void* const loaded = ::dlopen(which.file, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    to.missing.push_back(concat(which.name, ": ", ::dlerror()));
    return;
  }
  const auto take = symbol<c_allocator::allocate_function>(loaded, which.take);
  const auto give = symbol<c_allocator::free_function>(loaded, which.give);
  if (take == nullptr || give == nullptr) {
    to.missing.push_back(concat(which.name, ": ", which.file, " has no ", which.take, " and ", which.give));
    return;
  }
  to.peers.push_back(std::make_unique<peer_of<c_allocator>>(which.name, take, give));
  to.versions[which.name] = which.version(loaded);
}

} // namespace

void add_host_allocators(peer_list& to) {
  to.peers.push_back(std::make_unique<peer_of<c_allocator>>("malloc", &std::malloc, &std::free));
  to.versions["glibc"] = ::gnu_get_libc_version();
  add(to, {"jemalloc", "libjemalloc.so.2", "malloc", "free", &jemalloc_version});
  add(to, {"mimalloc", "libmimalloc.so.2", "mi_malloc", "mi_free", &mimalloc_version});
}

} // namespace saeta::bench
