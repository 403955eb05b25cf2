#include "saeta/memory/detail/storage_allocator.hpp"

namespace saeta {
namespace {

thread_local constinit bool ended = false;

} // namespace

thread_local constinit spare_storages* spare_storages::own_ = nullptr;

spare_storages::~spare_storages() {
  ended = true;
  own_ = nullptr;
  while (void* const memory = take()) {
    ::operator delete(memory);
  }
}

void spare_storages::keep_or_free(void* memory) noexcept {
#ifndef SAETA_ADDRESS_SANITIZER
  if (!ended) {
    thread_local spare_storages own;
    own_ = &own;
    if (own.keep(memory)) {
      return;
    }
  }
#endif
  ::operator delete(memory);
}

} // namespace saeta
