#include "saeta/ipc/detail/bounded_pool.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/arrow_status.hpp"

#include <arrow/status.h>

#include <algorithm>
#include <limits>

namespace saeta::ipc::detail {

std::int64_t default_decode_limit(std::size_t source_bytes) noexcept {
  constexpr std::uint64_t least = 1u << 30;
  constexpr std::uint64_t ratio = 1024;
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  const std::uint64_t proportional = source_bytes > most / ratio ? most : source_bytes * ratio;
  return static_cast<std::int64_t>(std::max(least, proportional));
}

arrow::Status bounded_pool::charge(std::int64_t bytes) {
  std::int64_t live = live_.load();
  do {
    if (bytes > limit_ - live) {
      return arrow::Status::OutOfMemory("decoding needs ", bytes, " bytes beside ", live, " in use");
    }
  } while (!live_.compare_exchange_weak(live, live + bytes));
  return arrow::Status::OK();
}

arrow::Status bounded_pool::Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) {
  if (size < 0) {
    return arrow::Status::Invalid("a buffer of ", size, " bytes");
  }
  ARROW_RETURN_NOT_OK(charge(size));
  if (auto status = upstream_->Allocate(size, alignment, out); !status.ok()) {
    live_ -= size;
    exhausted_ = true;
    return status;
  }
  total_ += size;
  ++allocations_;
  ++holders_;
  return arrow::Status::OK();
}

arrow::Status bounded_pool::Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                                       std::uint8_t** memory) {
  if (new_size < 0) {
    return arrow::Status::Invalid("a buffer of ", new_size, " bytes");
  }
  ARROW_RETURN_NOT_OK(charge(new_size - old_size));
  if (auto status = upstream_->Reallocate(old_size, new_size, alignment, memory); !status.ok()) {
    live_ -= new_size - old_size;
    exhausted_ = true;
    return status;
  }
  if (new_size > old_size) {
    total_ += new_size - old_size;
  }
  ++allocations_;
  return arrow::Status::OK();
}

void bounded_pool::Free(std::uint8_t* memory, std::int64_t size, std::int64_t alignment) {
  upstream_->Free(memory, size, alignment);
  live_ -= size;
  drop();
}

void check_decoded(const arrow::Status& status, const bounded_pool& pool, std::size_t source_bytes,
                   std::string_view where) {
  if (status.IsOutOfMemory() && !pool.exhausted()) {
    throw error(errc::format, concat(where, ": ", status.message(), " (decode_limit is ", pool.limit(),
                                     " bytes, for a source of ", source_bytes, ")"));
  }
  check(status, where);
}

} // namespace saeta::ipc::detail
