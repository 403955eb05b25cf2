// libarrow's Device, Stream and SyncEvent for a context.
//
// Owner     Each keeps the context. The release function that came with a stream or event handle releases it.
// Failure   The methods that libarrow calls return a Status.
#pragma once

#include "saeta/device/event.hpp"
#include "saeta/memory/context.hpp"

#include <arrow/device.h>

#include <memory>
#include <string>

namespace saeta {

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

} // namespace saeta
