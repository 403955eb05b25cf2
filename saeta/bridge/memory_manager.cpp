#include "saeta/bridge/memory_manager.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/bridge/buffer_io.hpp"
#include "saeta/bridge/copies.hpp"
#include "saeta/bridge/device.hpp"
#include "saeta/bridge/held_buffer.hpp"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>

namespace saeta {
namespace {

/// A view to read on the CPU without a copy, after pending writes have finished. Null if the CPU can't read
/// the memory.
std::shared_ptr<arrow::Buffer> view_on_cpu(const std::shared_ptr<context>& ctx,
                                           const std::shared_ptr<arrow::Buffer>& source,
                                           std::shared_ptr<arrow::MemoryManager> cpu) {
  const buffer bytes = bytes_of(ctx, source);
  if (!host_accessible(bytes.kind())) {
    return nullptr;
  }
  synchronize_handover(std::span(&bytes, 1));
  return std::make_shared<arrow::Buffer>(source->address(), source->size(), std::move(cpu), source);
}

} // namespace

std::unique_ptr<arrow::Buffer> bridged_memory::copy_in(const arrow::Buffer& source,
                                                       std::shared_ptr<void> keepalive) {
  buffer made;
  if (source.is_cpu()) {
    made = upload_bytes(ctx_, host_bytes(source), kind_);
  } else if (const std::shared_ptr<context> from = context_of(*source.memory_manager())) {
    const buffer bytes = view_of(from, source, std::move(keepalive));
    if (ctx_->on_host()) {
      made = allocate_memory(ctx_, bytes.size(), kind_);
      // The new memory has no other user yet, so it needs no use token.
      download(bytes, {reinterpret_cast<std::byte*>(made.address()), made.size()});
    } else {
      made = copy_bytes(ctx_, bytes, kind_);
    }
  } else {
    return nullptr;
  }
  return std::make_unique<held_buffer>(made, access::read, shared_from_this());
}

bridged_memory::owned_copy bridged_memory::copy_out(const arrow::Buffer& source,
                                                    std::shared_ptr<void> keepalive,
                                                    arrow::MemoryManager& to) {
  if (!to.is_cpu()) {
    return nullptr;
  }
  ARROW_ASSIGN_OR_RAISE(auto made, to.AllocateBuffer(source.size()));
  download(view_of(ctx_, source, std::move(keepalive)),
           {reinterpret_cast<std::byte*>(made->mutable_data()), static_cast<std::size_t>(made->size())});
  return made;
}

arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>>
bridged_memory::GetBufferReader(std::shared_ptr<arrow::Buffer> source) {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> {
    if (source->is_cpu()) {
      return std::make_shared<arrow::io::BufferReader>(std::move(source));
    }
    return std::make_shared<buffer_reader>(std::move(source));
  });
}

arrow::Result<std::shared_ptr<arrow::io::OutputStream>>
bridged_memory::GetBufferWriter(std::shared_ptr<arrow::Buffer> target) {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<arrow::io::OutputStream>> {
    return std::make_shared<buffer_writer>(std::move(target));
  });
}

arrow::Result<std::unique_ptr<arrow::Buffer>> bridged_memory::AllocateBuffer(std::int64_t bytes) {
  return bridge::run_guarded([&]() -> arrow::Result<std::unique_ptr<arrow::Buffer>> {
    if (bytes < 0) {
      throw error(errc::invalid_argument, concat("the size of a buffer can't be negative, got ", bytes));
    }
    const buffer made = allocate_memory(ctx_, static_cast<std::size_t>(bytes), kind_);
    return std::make_unique<held_buffer>(made, access::write, shared_from_this());
  });
}

arrow::Result<std::shared_ptr<arrow::Device::SyncEvent>> bridged_memory::MakeDeviceSyncEvent() {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<arrow::Device::SyncEvent>> {
    if (ctx_->on_host()) {
      return nullptr;
    }
    return bridged_event::make(ctx_);
  });
}

arrow::Result<std::shared_ptr<arrow::Device::SyncEvent>>
bridged_memory::WrapDeviceSyncEvent(void* event, arrow::Device::SyncEvent::release_fn_t release) {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<arrow::Device::SyncEvent>> {
    return std::make_shared<bridged_event>(ctx_, event, std::move(release));
  });
}

bridged_memory::shared_copy bridged_memory::CopyBufferFrom(const std::shared_ptr<arrow::Buffer>& source,
                                                           const manager& /*from*/) {
  try {
    return copy_in(*source, source);
  } catch (const error& failure) {
    if (failure.code() == errc::unsupported) { // out of reach: libarrow then copies through the CPU
      return nullptr;
    }
    return bridge::current_failure();
  } catch (...) {
    return bridge::current_failure();
  }
}

bridged_memory::shared_copy bridged_memory::CopyBufferTo(const std::shared_ptr<arrow::Buffer>& source,
                                                         const manager& to) {
  return bridge::run_guarded([&]() -> shared_copy { return copy_out(*source, source, *to); });
}

bridged_memory::owned_copy bridged_memory::CopyNonOwnedFrom(const arrow::Buffer& source,
                                                            const manager& /*from*/) {
  return bridge::run_guarded([&]() -> owned_copy { return copy_in(source, nullptr); });
}

bridged_memory::owned_copy bridged_memory::CopyNonOwnedTo(const arrow::Buffer& source, const manager& to) {
  return bridge::run_guarded([&]() -> owned_copy { return copy_out(source, nullptr, *to); });
}

bridged_memory::shared_copy bridged_memory::ViewBufferFrom(const std::shared_ptr<arrow::Buffer>& source,
                                                           const manager& from) {
  return bridge::run_guarded([&]() -> shared_copy {
    if (!ctx_->on_host() || context_of(*from) == nullptr) {
      return nullptr;
    }
    return view_on_cpu(context_of(*from), source, shared_from_this());
  });
}

bridged_memory::shared_copy bridged_memory::ViewBufferTo(const std::shared_ptr<arrow::Buffer>& source,
                                                         const manager& to) {
  return bridge::run_guarded(
      [&]() -> shared_copy { return to->is_cpu() ? view_on_cpu(ctx_, source, to) : nullptr; });
}

} // namespace saeta
