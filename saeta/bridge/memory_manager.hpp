// libarrow's MemoryManager for one kind of memory of a context.
//
// What      Allocates from the context's budget, and copies between its memory, host memory and other
//           contexts. Copies are immutable; allocated buffers are mutable. Between GPUs that can't reach each
//           other libarrow copies through the CPU.
// Order     As in bridge.hpp.
#pragma once

#include "saeta/memory/context.hpp"

#include <arrow/device.h>
#include <arrow/result.h>

#include <memory>

namespace saeta {

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
