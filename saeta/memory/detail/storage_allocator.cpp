#include "saeta/memory/detail/storage_allocator.hpp"

namespace saeta {
namespace {

thread_local constinit bool ended = false;

} // namespace

spare_storages::~spare_storages() {
  ended = true;
  keep_own(thread_object::storages, nullptr);
  while (void* const memory = take()) {
    ::operator delete(memory);
  }
}

void spare_storages::keep_or_free(void* memory) noexcept {
#ifndef SAETA_ADDRESS_SANITIZER
  if (!ended) {
    thread_local spare_storages own;
    keep_own(thread_object::storages, &own);
    if (own.keep(memory)) {
      return;
    }
  }
#endif
  ::operator delete(memory);
}

} // namespace saeta
