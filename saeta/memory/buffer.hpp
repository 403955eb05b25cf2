// A buffer: a byte range of a storage. Columns are made of buffers.
//
// Owner     Shares its storage; copies and slices are cheap. A default-constructed buffer is absent: no
//           storage, 0 bytes.
// Order     The bytes may be accessed only inside a use token (memory/use_token.hpp), which waits before and
//           records after. `address()` only identifies the bytes; it does not permit access.
// Thread    A plain value; its storage may be used from any thread.
#pragma once

#include "saeta/memory/storage.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace saeta {

class buffer {
public:
  buffer() = default;
  explicit buffer(std::shared_ptr<storage> bytes) : storage_(std::move(bytes)) {
    size_ = storage_ ? storage_->bytes() : 0;
  }

  /// Allocates memory charged to the context's budget, ready on `stream`. The contents are undefined.
  /// @param kind  as in storage::allocate: `pinned` is page-locked memory, charged to the host's budget.
  /// @throws error budget_exceeded, out_of_memory, closed, unsupported (other kinds).
  static buffer allocate(const std::shared_ptr<context>& ctx, std::size_t bytes, stream_ref stream,
                         tag label = {}, std::size_t alignment = 0, memory_kind kind = memory_kind::device) {
    return buffer(storage::allocate(ctx, bytes, stream, label, alignment, kind));
  }
  static buffer adopt(const std::shared_ptr<context>& ctx, external_memory memory) {
    return buffer(storage::adopt(ctx, std::move(memory)));
  }

  /// @throws error out_of_range naming the numbers.
  [[nodiscard]] buffer slice(std::size_t offset, std::size_t bytes) const;

  [[nodiscard]] bool present() const noexcept { return storage_ != nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::uintptr_t address() const noexcept {
    return storage_ ? reinterpret_cast<std::uintptr_t>(storage_->pointer()) + offset_ : 0;
  }
  /// The kind of the memory; `host` for an absent buffer, which any consumer can accept.
  [[nodiscard]] memory_kind kind() const noexcept { return storage_ ? storage_->kind() : memory_kind::host; }
  /// Offset of this range in its storage, bytes.
  [[nodiscard]] std::size_t offset() const noexcept { return offset_; }
  [[nodiscard]] const std::shared_ptr<storage>& owner() const noexcept { return storage_; }

private:
  std::shared_ptr<storage> storage_;
  std::size_t offset_ = 0;
  std::size_t size_ = 0;
};

} // namespace saeta
