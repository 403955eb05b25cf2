// Buffers, which columns are made of: byte ranges of storages.
//
// @code
// const buffer prices = ctx->allocate<float>(1024, stream, "prices"); // charged, ready on `stream`
// {
//   use_token token(stream, {writes(prices)});
//   const std::span<float> values = token.span<float>(prices); // 1024 values
//   ctx->copies().fill(values.data(), 0, values.size_bytes(), stream);
//   token.finish();
// }
// const buffer half = prices.slice(0, 2048);            // shares the memory
// const std::shared_ptr<storage>& owner = half.owner(); // freed in stream order with its last owner
// @endcode
//
// Owner     Shares its storage; copies and slices are cheap. A default-constructed or moved-from buffer is
//           absent: no storage, 0 bytes.
// Order     The bytes may be accessed only inside a use token (memory/use_token.hpp), which waits before and
//           records after. `address()` only identifies the bytes; it does not permit access.
// Thread    A plain value; its storage may be used from any thread.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/observe/ledger.hpp"
#include "saeta/order/ordering.hpp"
#include "saeta/resource/resource.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace SAETA_EXPORT saeta {

class context;
class resource;

enum class mutability { read_only, writable };

/// Memory that another library owns.
struct external_memory {
  void* pointer = nullptr; ///< may be null only when `bytes` is 0
  std::size_t bytes = 0;
  device_id device;
  std::optional<memory_kind> kind; ///< nullopt: the context's backend is asked
  std::shared_ptr<void> keepalive; ///< dropped on any thread, once the recorded work has finished
  mutability access = mutability::read_only;
  point ready; ///< after the producer's pending writes
  /// True if the owner's pending work stays safe when the keepalive is dropped, as DLPack and the CUDA Array
  /// Interface require: a consumer may drop a view before using it. Then the end of the view waits for our
  /// work only.
  bool owner_orders_own_work = false;
  std::string tag;
};

/// A storage: the bytes behind buffers, with their device, owner and ordering state.
///
/// What      Either a block of the context's resource stack, or external memory that a keepalive keeps alive.
/// Owner     Shared by buffers, exports and running uses; it keeps its context alive.
/// Order     When the last owner is gone, the block is freed (or the keepalive dropped) only after every
///           recorded use has finished (rule 4 of the design). The host does not wait: order/reaper.hpp does.
/// Address   A storage never moves: its address and its kind stay valid as long as it lives.
/// Thread    Any.
class storage {
  struct key {};

public:
  /// Called by `allocate` and `adopt`.
  storage(key own, const std::shared_ptr<context>& ctx, std::size_t bytes, const stream_ref& stream,
          saeta::tag label, std::size_t alignment, memory_kind kind);
  storage(key own, const std::shared_ptr<context>& ctx, std::size_t bytes, const stream_ref& stream,
          saeta::tag label);
  storage(key own, const std::shared_ptr<context>& ctx, external_memory& memory);
  /// @param kind  `device`: the device's own memory. `pinned`: page-locked, charged to the host's budget.
  /// @throws error budget_exceeded, out_of_memory, closed (the context), unsupported (other kinds).
  [[nodiscard]] static std::shared_ptr<storage> allocate(const std::shared_ptr<context>& ctx,
                                                         std::size_t bytes, const stream_ref& stream,
                                                         saeta::tag label, std::size_t alignment = 0,
                                                         memory_kind kind = memory_kind::device);
  /// Device memory that other processes can open, whichever pool the context has.
  /// @throws error as `allocate`; unsupported if the device has no such pools.
  [[nodiscard]] static std::shared_ptr<storage> allocate_shareable(const std::shared_ptr<context>& ctx,
                                                                   std::size_t bytes,
                                                                   const stream_ref& stream,
                                                                   saeta::tag label);
  /// Takes the keepalive on success only.
  /// @throws error invalid_argument, closed, device (the kind is unknown).
  [[nodiscard]] static std::shared_ptr<storage> adopt(const std::shared_ptr<context>& ctx,
                                                      external_memory memory);
  storage(const storage&) = delete;
  storage& operator=(const storage&) = delete;
  ~storage();

  /// The device object whose pool has the bytes.
  [[nodiscard]] backend& home() const;
  /// The driver's allocation that contains the bytes. External memory counts as an allocation of its own.
  [[nodiscard]] extent full_extent() const noexcept;

  [[nodiscard]] void* pointer() const noexcept { return block_.pointer; }
  [[nodiscard]] std::size_t bytes() const noexcept { return block_.bytes; }
  [[nodiscard]] device_id device() const noexcept { return block_.device; }
  [[nodiscard]] memory_kind kind() const noexcept { return block_.kind; }
  [[nodiscard]] const std::shared_ptr<context>& ctx() const noexcept { return context_; }
  [[nodiscard]] const std::string& tag() const noexcept { return block_.label.name(); }
  [[nodiscard]] bool external() const noexcept { return external_; }
  [[nodiscard]] bool writable() const noexcept { return access_ == mutability::writable; }
  /// Whether nobody writes the bytes, now or later: read-only memory of others that was complete when a
  /// context of the host adopted it.
  [[nodiscard]] bool immutable() const noexcept { return immutable_; }
  /// Unique in the process, and never reused.
  [[nodiscard]] std::uint64_t generation() const noexcept { return block_.generation; }
  [[nodiscard]] ordering_state& ordering() noexcept { return ordering_; }

private:
  /// Constructs the block in place from `make()`: copying a block right after it was written is slow.
  template <class Make>
  storage(const std::shared_ptr<context>& ctx, Make make);

  bool external_ = false;
  bool immutable_ = false;
  mutability access_ = mutability::writable;
  std::shared_ptr<context> context_;
  block block_;
  resource* from_ = nullptr; ///< takes the block back; null: external memory
  std::shared_ptr<void> keepalive_;
  ordering_state ordering_;
  ledger::entry entry_;
};

/// Allocates a storage that any stream may use at once, even one that captures a graph: the host waits for
/// its earlier users. For callers that can't name the stream, such as graphs.
/// @throws error as storage::allocate.
[[nodiscard]] std::shared_ptr<storage> allocate_ready(const std::shared_ptr<context>& ctx, std::size_t bytes,
                                                      tag label, std::size_t alignment);

class buffer {
public:
  buffer() = default;
  explicit buffer(std::shared_ptr<storage> bytes) : storage_(std::move(bytes)) {
    size_ = storage_ ? storage_->bytes() : 0;
  }
  buffer(const buffer&) = default;
  buffer& operator=(const buffer&) = default;
  buffer(buffer&& other) noexcept
      : storage_(std::move(other.storage_)), offset_(std::exchange(other.offset_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  buffer& operator=(buffer&& other) noexcept {
    storage_ = std::move(other.storage_);
    offset_ = std::exchange(other.offset_, 0);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~buffer() = default;

  /// Allocates memory charged to the context's budget, ready on `stream`. The contents are undefined.
  /// `context::allocate` takes a number of values instead of bytes.
  /// @param kind  as in storage::allocate: `pinned` is page-locked memory, charged to the host's budget.
  /// @throws error budget_exceeded, out_of_memory, closed, unsupported (other kinds).
  [[nodiscard]] static buffer allocate(const std::shared_ptr<context>& ctx, std::size_t bytes,
                                       stream_ref stream, tag label = {}, std::size_t alignment = 0,
                                       memory_kind kind = memory_kind::device) {
    return buffer(storage::allocate(ctx, bytes, stream, label, alignment, kind));
  }
  [[nodiscard]] static buffer adopt(const std::shared_ptr<context>& ctx, external_memory memory) {
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
