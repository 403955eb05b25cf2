#include "saeta/bridge/bounded_pool.hpp"

#include "saeta/bridge/arrow_status.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"

#include <arrow/status.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace saeta::bridge {
namespace {

constexpr std::int64_t front = arrow::kDefaultBufferAlignment; ///< bytes before an allocation for its account

/// The owner of an allocation, stored in front of it.
struct account {
  std::shared_ptr<context> ctx;    ///< null: ordinary memory
  std::shared_ptr<budget> charged; ///< for ordinary memory; null: none
  buffer own;                      ///< the context's memory
};
static_assert(sizeof(account) <= front);

account& account_of(std::uint8_t* memory) {
  return *std::launder(reinterpret_cast<account*>(memory - front));
}

/// The number of bytes before an allocation, a multiple of its alignment. The account is at their end.
std::int64_t front_bytes(std::int64_t alignment) { return std::max(alignment, front); }

arrow::Status require_size(std::int64_t size, std::int64_t alignment) {
  if (size < 0) {
    return arrow::Status::Invalid("the size of a buffer can't be negative, got ", size);
  }
  if (size > std::numeric_limits<std::int64_t>::max() - front_bytes(alignment) - alignment) {
    return arrow::Status::OutOfMemory("a buffer of ", size, " bytes exceeds the range of 64-bit sizes");
  }
  return arrow::Status::OK();
}

void charge(budget* charged, std::int64_t bytes) {
  if (charged != nullptr && bytes > 0) {
    if (auto refused = charged->charge_or_refuse(static_cast<std::uint64_t>(bytes))) {
      throw error(*std::move(refused));
    }
  }
}

void refund(budget* charged, std::int64_t bytes) noexcept {
  if (charged != nullptr && bytes > 0) {
    charged->refund(static_cast<std::uint64_t>(bytes));
  }
}

/// Allocates aligned memory of a host context, with the account in front.
std::uint8_t* allocate_own(const std::shared_ptr<context>& ctx, std::int64_t size, std::int64_t alignment) {
  buffer own = buffer::allocate(ctx, static_cast<std::size_t>(size + front_bytes(alignment) + alignment),
                                ctx->work_stream(), tag("read_ipc"));
  const auto step = static_cast<std::uintptr_t>(alignment);
  const std::uintptr_t first = own.address() + static_cast<std::uintptr_t>(front);
  auto* const memory = reinterpret_cast<std::uint8_t*>((first + step - 1) / step * step);
  ::new (memory - front) account{ctx, nullptr, std::move(own)};
  return memory;
}

} // namespace

void bounded_pool::allocate_for(const std::shared_ptr<context>& ctx) {
  charged_ = ctx->on_host() ? nullptr : ctx->pinned_budget();
  ctx_ = ctx->on_host() ? ctx : nullptr;
}

arrow::Status bounded_pool::allocate(std::int64_t size, std::int64_t alignment,
                                     std::shared_ptr<budget> charged, const std::shared_ptr<context>& ctx,
                                     std::uint8_t** out) {
  if (ctx != nullptr) {
    *out = allocate_own(ctx, size, alignment);
    return arrow::Status::OK();
  }
  charge(charged.get(), size);
  std::uint8_t* base = nullptr;
  if (auto status = upstream_->Allocate(size + front_bytes(alignment), alignment, &base); !status.ok()) {
    refund(charged.get(), size);
    return status;
  }
  *out = base + front_bytes(alignment);
  ::new (*out - front) account{nullptr, std::move(charged), {}};
  return arrow::Status::OK();
}

arrow::Status bounded_pool::resize(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                                   std::uint8_t** memory) {
  account& of = account_of(*memory);
  charge(of.charged.get(), new_size - old_size);
  account taken = std::exchange(of, {}); // reallocation copies bytes, which shared pointers do not allow
  of.~account();
  std::uint8_t* base = *memory - front_bytes(alignment);
  auto status = upstream_->Reallocate(old_size + front_bytes(alignment), new_size + front_bytes(alignment),
                                      alignment, &base);
  refund(taken.charged.get(), status.ok() ? old_size - new_size : new_size - old_size);
  *memory = base + front_bytes(alignment);
  ::new (*memory - front) account(std::move(taken));
  return status;
}

void bounded_pool::free(std::uint8_t* memory, std::int64_t size, std::int64_t alignment) noexcept {
  account& of = account_of(memory);
  const account taken = std::exchange(of, {}); // the destructor of `taken` frees memory of a context
  of.~account();
  if (taken.ctx == nullptr) {
    upstream_->Free(memory - front_bytes(alignment), size + front_bytes(alignment), alignment);
    refund(taken.charged.get(), size);
  }
}

arrow::Status bounded_pool::Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) {
  return run_guarded([&]() -> arrow::Status {
    ARROW_RETURN_NOT_OK(require_size(size, alignment));
    ARROW_RETURN_NOT_OK(allocate(size, alignment, charged_, ctx_, out));
    live_ += size;
    total_ += size;
    ++allocations_;
    ++holders_;
    return arrow::Status::OK();
  });
}

arrow::Status bounded_pool::Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                                       std::uint8_t** memory) {
  return run_guarded([&]() -> arrow::Status {
    ARROW_RETURN_NOT_OK(require_size(new_size, alignment));
    if (const std::shared_ptr<context> ctx = account_of(*memory).ctx; ctx != nullptr) {
      std::uint8_t* const moved = allocate_own(ctx, new_size, alignment);
      std::memcpy(moved, *memory, static_cast<std::size_t>(std::min(old_size, new_size)));
      free(std::exchange(*memory, moved), old_size, alignment);
    } else {
      ARROW_RETURN_NOT_OK(resize(old_size, new_size, alignment, memory));
    }
    live_ += new_size - old_size;
    total_ += std::max<std::int64_t>(new_size - old_size, 0);
    ++allocations_;
    return arrow::Status::OK();
  });
}

void bounded_pool::Free(std::uint8_t* memory, std::int64_t size, std::int64_t alignment) {
  free(memory, size, alignment);
  live_ -= size;
  drop();
}

} // namespace saeta::bridge
