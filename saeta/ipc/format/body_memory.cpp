#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"

#include <new>
#include <utility>

#include <sys/mman.h>

namespace saeta::ipc::detail {
namespace {

constexpr std::align_val_t alignment{64};

owned_bytes bytes_of(std::shared_ptr<void> owner, std::size_t bytes) {
  return {{static_cast<std::byte*>(owner.get()), bytes}, owner};
}

} // namespace

owned_bytes allocate_body(const std::shared_ptr<context>& ctx, std::size_t bytes) {
  if (bytes == 0) {
    return {};
  }
  if (ctx->on_host()) {
    auto own = std::make_shared<buffer>(buffer::allocate(ctx, bytes, ctx->work_stream(), tag("read_ipc")));
    return bytes_of({own, reinterpret_cast<void*>(own->address())}, bytes);
  }
  auto charge = ctx->charge_host(bytes, tag("read_ipc"));
  owned_bytes memory = allocate_uncharged(bytes);
  auto both = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(
      std::move(charge), std::move(memory.owner)); // freed before its charge is returned
  return bytes_of({both, memory.bytes.data()}, bytes);
}

owned_bytes allocate_uncharged(std::size_t bytes) {
  if (bytes == 0) {
    return {};
  }
  void* const at = ::operator new(bytes, alignment, std::nothrow);
  if (at == nullptr) {
    throw error(errc::out_of_memory, concat("no host memory for a body of ", bytes, " bytes"));
  }
  return bytes_of({at, [](void* memory) { ::operator delete(memory, alignment); }}, bytes);
}

owned_bytes allocate_sparse(std::size_t bytes) {
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    throw error(errc::out_of_memory,
                concat("the system has no address range for a body of ", bytes, " bytes"));
  }
  return bytes_of({at, [bytes](void* memory) { ::munmap(memory, bytes); }}, bytes);
}

} // namespace saeta::ipc::detail
