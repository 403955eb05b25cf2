#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"

#include <new>

#include <sys/mman.h>

namespace saeta::ipc::detail {
namespace {

constexpr std::align_val_t alignment{64};

struct ordinary_memory {
  explicit ordinary_memory(std::size_t bytes) : at(::operator new(bytes, alignment, std::nothrow)) {
    if (at == nullptr) {
      throw error(errc::out_of_memory, concat("no host memory for a body of ", bytes, " bytes"));
    }
  }
  ordinary_memory(const ordinary_memory&) = delete;
  ordinary_memory& operator=(const ordinary_memory&) = delete;
  ~ordinary_memory() { ::operator delete(at, alignment); }

  void* at;
};

struct charged_memory {
  charged_memory(const std::shared_ptr<context>& ctx, std::size_t bytes)
      : charge(ctx->charge_host(bytes, tag("read_ipc"))), memory(bytes) {}

  std::shared_ptr<void> charge;
  ordinary_memory memory;
};

struct reserved_addresses {
  explicit reserved_addresses(std::size_t count)
      : at(::mmap(nullptr, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                  0)),
        bytes(count) {
    if (at == MAP_FAILED) {
      throw error(errc::out_of_memory,
                  concat("the system has no address range for a body of ", bytes, " bytes"));
    }
  }
  reserved_addresses(const reserved_addresses&) = delete;
  reserved_addresses& operator=(const reserved_addresses&) = delete;
  ~reserved_addresses() { ::munmap(at, bytes); }

  void* at;
  std::size_t bytes;
};

owned_bytes bytes_of(void* at, std::size_t bytes, std::shared_ptr<void> owner) {
  return {{static_cast<std::byte*>(at), bytes}, std::move(owner)};
}

} // namespace

owned_bytes allocate_body(const std::shared_ptr<context>& ctx, std::size_t bytes) {
  if (bytes == 0) {
    return {};
  }
  if (ctx->on_host()) {
    auto own = std::make_shared<buffer>(buffer::allocate(ctx, bytes, ctx->work_stream(), tag("read_ipc")));
    return bytes_of(reinterpret_cast<void*>(own->address()), bytes, own);
  }
  auto memory = std::make_shared<charged_memory>(ctx, bytes);
  return bytes_of(memory->memory.at, bytes, memory);
}

owned_bytes allocate_uncharged(std::size_t bytes) {
  if (bytes == 0) {
    return {};
  }
  auto memory = std::make_shared<ordinary_memory>(bytes);
  return bytes_of(memory->at, bytes, memory);
}

owned_bytes allocate_sparse(std::size_t bytes) {
  auto addresses = std::make_shared<reserved_addresses>(bytes);
  return bytes_of(addresses->at, bytes, addresses);
}

} // namespace saeta::ipc::detail
