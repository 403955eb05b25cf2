// libarrow's MemoryManager for one kind of memory of a context.
//
// What      Allocates from the context's budget, and copies between its memory, host memory and other
//           contexts. Copies are immutable; allocated buffers are mutable. Between GPUs that can't reach each
//           other libarrow copies through the CPU.
// Order     As in bridge.hpp.

#pragma once

#include "saeta/device/stream.hpp"
#include "saeta/interop/known_memory.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"

#include <arrow/buffer.h>
#include <arrow/device.h>
#include <arrow/result.h>

#include <memory>
#include <string>

namespace saeta {

// libarrow's Device, Stream and SyncEvent for a context.
//
// Owner     Each keeps the context. The release function that came with a stream or event handle releases it.
// Failure   The methods that libarrow calls return a Status.

/// The device type of Arrow's C Device Data Interface for such memory.
arrow::DeviceAllocationType allocation_type(const context& ctx, memory_kind kind) noexcept;

class bridged_device final : public arrow::Device {
public:
  bridged_device(std::shared_ptr<context> ctx, memory_kind kind);

  [[nodiscard]] const char* type_name() const override;
  [[nodiscard]] std::string ToString() const override { return described_; }
  /// True for the same kind of memory of the same device, also of different contexts.
  [[nodiscard]] bool Equals(const arrow::Device& other) const override;
  [[nodiscard]] std::int64_t device_id() const override;
  std::shared_ptr<arrow::MemoryManager> default_memory_manager() override;
  [[nodiscard]] arrow::DeviceAllocationType device_type() const override;

  arrow::Result<std::shared_ptr<Stream>> MakeStream() override { return MakeStream(0); }
  /// @param flags  0 or 1 (cudaStreamNonBlocking). Every stream of ours is non-blocking.
  arrow::Result<std::shared_ptr<Stream>> MakeStream(unsigned flags) override;
  /// @param stream  points to a stream of the device; on CUDA a cudaStream_t*.
  arrow::Result<std::shared_ptr<Stream>> WrapStream(void* stream, Stream::release_fn_t release) override;

private:
  const std::shared_ptr<context> ctx_;
  const memory_kind kind_;
  const std::string described_;
};

class bridged_event final : public arrow::Device::SyncEvent {
public:
  /// @param handle   points to an event of the device (on CUDA a cudaEvent_t*), or null if nothing is
  ///                 pending.
  /// @param release  empty if somebody else owns the handle.
  bridged_event(std::shared_ptr<context> ctx, void* handle, release_fn_t release);
  /// Makes an event and owns it.
  static std::shared_ptr<bridged_event> make(const std::shared_ptr<context>& ctx);

  arrow::Status Wait() override;
  arrow::Status Record(const arrow::Device::Stream& stream) override;

  [[nodiscard]] bool pending() { return get_raw() != nullptr; }
  /// Requires pending().
  [[nodiscard]] event_ref ref() const;
  [[nodiscard]] const std::shared_ptr<context>& ctx() const noexcept { return ctx_; }

private:
  const std::shared_ptr<context> ctx_;
};

/// An arrow::Buffer that holds an export of our bytes.
class held_buffer final : public arrow::Buffer {
public:
  /// As arrow_buffer, with the memory manager of the bytes' context and kind.
  held_buffer(const buffer& bytes, access mode, std::shared_ptr<arrow::MemoryManager> manager);

  [[nodiscard]] const buffer& bytes() const noexcept { return bytes_; }

private:
  buffer bytes_;
  known_export hold_;
};

/// As bytes_of, for memory that outlives the view or that `keepalive` keeps.
buffer view_of(const std::shared_ptr<context>& ctx, const arrow::Buffer& from,
               std::shared_ptr<void> keepalive);

class bridged_memory final : public arrow::MemoryManager {
public:
  /// Only memory_manager_of constructs managers, because it keeps the list of them.
  bridged_memory(std::shared_ptr<context> ctx, memory_kind kind);
  ~bridged_memory() override;

  [[nodiscard]] const std::shared_ptr<context>& ctx() const noexcept { return ctx_; }
  [[nodiscard]] memory_kind kind() const noexcept { return kind_; }

  arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>>
  GetBufferReader(std::shared_ptr<arrow::Buffer> source) override;
  arrow::Result<std::shared_ptr<arrow::io::OutputStream>>
  GetBufferWriter(std::shared_ptr<arrow::Buffer> target) override;
  arrow::Result<std::unique_ptr<arrow::Buffer>> AllocateBuffer(std::int64_t bytes) override;
  /// Null on the host, where nothing is pending.
  arrow::Result<std::shared_ptr<arrow::Device::SyncEvent>> MakeDeviceSyncEvent() override;
  arrow::Result<std::shared_ptr<arrow::Device::SyncEvent>>
  WrapDeviceSyncEvent(void* event, arrow::Device::SyncEvent::release_fn_t release) override;

protected:
  using manager = std::shared_ptr<arrow::MemoryManager>;
  using shared_copy = arrow::Result<std::shared_ptr<arrow::Buffer>>;
  using owned_copy = arrow::Result<std::unique_ptr<arrow::Buffer>>;

  shared_copy CopyBufferFrom(const std::shared_ptr<arrow::Buffer>& source, const manager& from) override;
  shared_copy CopyBufferTo(const std::shared_ptr<arrow::Buffer>& source, const manager& to) override;
  owned_copy CopyNonOwnedFrom(const arrow::Buffer& source, const manager& from) override;
  owned_copy CopyNonOwnedTo(const arrow::Buffer& source, const manager& to) override;
  shared_copy ViewBufferFrom(const std::shared_ptr<arrow::Buffer>& source, const manager& from) override;
  shared_copy ViewBufferTo(const std::shared_ptr<arrow::Buffer>& source, const manager& to) override;

private:
  /// Null if the source is neither the CPU's nor from one of our memory managers.
  std::unique_ptr<arrow::Buffer> copy_in(const arrow::Buffer& source, std::shared_ptr<void> keepalive);
  /// Null if `to` is not the CPU's.
  owned_copy copy_out(const arrow::Buffer& source, std::shared_ptr<void> keepalive, arrow::MemoryManager& to);

  const std::shared_ptr<context> ctx_;
  const memory_kind kind_;
};

} // namespace saeta
