#include "saeta/base/text.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/bridge/memory_manager.hpp"
#include "saeta/interop/dlpack/types.hpp"

#include <utility>

namespace saeta {
namespace {

/// A function that does nothing if none was given, because libarrow calls it without a check.
template <class Release>
Release release_or_noop(Release release) {
  return release ? std::move(release) : [](void*) {};
}

std::string describe(const context& ctx, memory_kind kind) {
  const device_id device = ctx.device();
  if (device.kind == device_kind::cpu) {
    return "HostDevice()";
  }
  const std::string_view name = device.kind == device_kind::cuda ? "CudaDevice" : "SimulatedDevice";
  const std::string memory = kind == memory_kind::device ? "" : concat(", memory=\"", to_string(kind), "\"");
  return concat(name, "(device_number=", device.ordinal, ", name=\"", ctx.device_backend()->properties().name,
                "\"", memory, ")");
}

class bridged_stream final : public arrow::Device::Stream {
public:
  bridged_stream(std::shared_ptr<context> ctx, void* handle, release_fn_t release)
      : Stream(handle, release_or_noop(std::move(release))), ctx_(std::move(ctx)) {}

  arrow::Status WaitEvent(const arrow::Device::SyncEvent& awaited) override;
  [[nodiscard]] arrow::Status Synchronize() const override {
    return bridge::run_guarded([&] { ctx_->synchronize(ref()); });
  }

  [[nodiscard]] stream_ref ref() const {
    const auto handle = *static_cast<const stream_handle*>(get_raw());
    return {*ctx_->device_backend(), handle == stream_handle{} ? legacy_stream : handle};
  }
  [[nodiscard]] const context& ctx() const noexcept { return *ctx_; }

private:
  const std::shared_ptr<context> ctx_;
};

void require_one_device(const context& stream, const context& awaited) {
  if (stream.device().kind != awaited.device().kind) {
    throw error(errc::invalid_argument,
                concat("an event of ", to_string(awaited.device()), " can't be used with a stream of ",
                       to_string(stream.device())));
  }
}

arrow::Status bridged_stream::WaitEvent(const arrow::Device::SyncEvent& awaited) {
  return bridge::run_guarded([&] {
    const auto* const event = dynamic_cast<const bridged_event*>(&awaited);
    if (event == nullptr) {
      throw error(errc::invalid_argument, "the event was not made by a Saeta memory manager");
    }
    require_one_device(*ctx_, *event->ctx());
    if (const_cast<bridged_event*>(event)->pending()) { // get_raw() of events is not const in libarrow
      ref().wait(event->ref());
    }
  });
}

} // namespace

arrow::DeviceAllocationType allocation_type(const context& ctx, memory_kind kind) noexcept {
  return static_cast<arrow::DeviceAllocationType>(to_tensor_device(ctx.device(), kind).type);
}

bridged_device::bridged_device(std::shared_ptr<context> ctx, memory_kind kind)
    : Device(ctx->on_host()), ctx_(std::move(ctx)), kind_(kind), described_(describe(*ctx_, kind)) {}

const char* bridged_device::type_name() const {
  switch (ctx_->device().kind) {
  case device_kind::cuda:
    return "arrow::cuda::CudaDevice"; // programs written for pyarrow.cuda compare with this name
  case device_kind::sim:
    return "saeta::SimulatedDevice";
  case device_kind::cpu:
    break;
  }
  return "saeta::HostDevice";
}

bool bridged_device::Equals(const arrow::Device& other) const {
  const auto* const same = dynamic_cast<const bridged_device*>(&other);
  return same != nullptr && same->ctx_->device() == ctx_->device() && same->kind_ == kind_;
}

std::int64_t bridged_device::device_id() const { return is_cpu() ? -1 : ctx_->device().ordinal; }

std::shared_ptr<arrow::MemoryManager> bridged_device::default_memory_manager() {
  return memory_manager_of(ctx_, kind_);
}

arrow::DeviceAllocationType bridged_device::device_type() const { return allocation_type(*ctx_, kind_); }

arrow::Result<std::shared_ptr<arrow::Device::Stream>> bridged_device::MakeStream(unsigned flags) {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<Stream>> {
    if (flags > 1) {
      throw error(errc::invalid_argument, concat("stream flags are ", flags, ", expected 0 or 1"));
    }
    const std::shared_ptr<backend>& device = ctx_->device_backend();
    stream own(device);
    auto handle = std::make_unique<stream_handle>();
    const auto release = [device](void* given) {
      const std::unique_ptr<stream_handle> owned(static_cast<stream_handle*>(given));
      static_cast<void>(stream::from_native_handle(device, *owned)); // destroyed here
    };
    auto shared = std::make_shared<bridged_stream>(ctx_, handle.get(), release);
    *handle.release() = own.release();
    return shared;
  });
}

arrow::Result<std::shared_ptr<arrow::Device::Stream>>
bridged_device::WrapStream(void* stream, Stream::release_fn_t release) {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<Stream>> {
    if (stream == nullptr) {
      throw error(errc::invalid_argument, "the stream to wrap is null, expected a pointer to its handle");
    }
    return std::make_shared<bridged_stream>(ctx_, stream, std::move(release));
  });
}

bridged_event::bridged_event(std::shared_ptr<context> ctx, void* handle, release_fn_t release)
    : SyncEvent(handle, release_or_noop(std::move(release))), ctx_(std::move(ctx)) {}

std::shared_ptr<bridged_event> bridged_event::make(const std::shared_ptr<context>& ctx) {
  const std::shared_ptr<backend>& device = ctx->device_backend();
  event own(device);
  auto handle = std::make_unique<event_handle>();
  const auto release = [device](void* given) {
    const std::unique_ptr<event_handle> owned(static_cast<event_handle*>(given));
    static_cast<void>(event::from_native_handle(device, *owned)); // destroyed here
  };
  auto shared = std::make_shared<bridged_event>(ctx, handle.get(), release);
  *handle.release() = own.release();
  return shared;
}

event_ref bridged_event::ref() const {
  return {*ctx_->device_backend(), *static_cast<const event_handle*>(sync_event_.get())};
}

arrow::Status bridged_event::Wait() {
  return bridge::run_guarded([&] {
    if (pending()) {
      ref().synchronize();
    }
  });
}

arrow::Status bridged_event::Record(const arrow::Device::Stream& stream) {
  return bridge::run_guarded([&] {
    const auto* const recorded = dynamic_cast<const bridged_stream*>(&stream);
    if (recorded == nullptr || !pending()) {
      throw error(errc::invalid_argument, recorded == nullptr ? "the stream does not belong to a Saeta device"
                                                              : "there is no event: host memory needs none");
    }
    require_one_device(recorded->ctx(), *ctx_);
    ref().record(recorded->ref());
  });
}

} // namespace saeta
