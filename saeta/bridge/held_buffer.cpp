#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/bridge/memory_manager.hpp"
#include "saeta/memory/context.hpp"

namespace saeta {
namespace {

class buffer_slice final : public arrow::Buffer {
public:
  buffer_slice(const std::shared_ptr<arrow::Buffer>& of, std::int64_t offset, std::int64_t bytes)
      : Buffer(of, offset, bytes) {
    is_mutable_ = of->is_mutable();
  }
};

/// @throws error invalid_argument.
const buffer& usable(const buffer& bytes, access mode) {
  if (!bytes.present()) {
    throw error(errc::invalid_argument, "an absent buffer can't be passed to libarrow");
  }
  if (mode != access::read && !bytes.owner()->writable()) {
    throw error(errc::invalid_argument, concat("buffer '", bytes.owner()->tag(), "' is read-only"));
  }
  return bytes;
}

/// Waits for the last write. This comes before a hold to write begins, because then the writers are unknown
/// and the wait would cover all work of the device.
const buffer& mark_written(const buffer& bytes) {
  synchronize_handover(std::span(&bytes, 1));
  return bytes;
}

/// Calls `look` with the buffer and then with its parents, until it returns true.
template <class Look>
void for_each_parent(const arrow::Buffer& of, Look look) {
  std::shared_ptr<arrow::Buffer> held;
  for (const arrow::Buffer* buffer = &of; buffer != nullptr && !look(*buffer); buffer = held.get()) {
    held = buffer->parent();
  }
}

/// Our bytes that the buffer or a parent holds. The range is checked, because any code can construct a slice.
std::optional<buffer> held_bytes(const arrow::Buffer& of) {
  std::optional<buffer> buffer;
  for_each_parent(of, [&](const arrow::Buffer& each) {
    const auto* const ours = dynamic_cast<const held_buffer*>(&each);
    if (ours != nullptr && of.address() >= ours->address()) {
      const std::size_t offset = of.address() - ours->address();
      const auto size = static_cast<std::size_t>(of.size());
      if (offset <= ours->bytes().size() && size <= ours->bytes().size() - offset) {
        buffer = ours->bytes().slice(offset, size);
      }
    }
    return ours != nullptr;
  });
  return buffer;
}

std::optional<buffer> known_bytes(const arrow::Buffer& of) {
  if (of.size() <= 0) {
    return std::nullopt;
  }
  const auto* const lowest = reinterpret_cast<const std::byte*>(of.address());
  const auto size = static_cast<std::size_t>(of.size());
  const std::shared_ptr<storage> storage = find_known(lowest, size);
  if (storage == nullptr || storage->ctx()->inherited()) {
    return std::nullopt;
  }
  return buffer(storage).slice(of.address() - reinterpret_cast<std::uintptr_t>(storage->pointer()), size);
}

/// Makes the stream wait for the event that came with the buffer. The host waits instead if the event is not
/// ours. Returns true if there is an event.
bool wait_for_event(const stream_ref& stream, const arrow::Buffer& of) {
  std::shared_ptr<arrow::Device::SyncEvent> event;
  for_each_parent(of, [&](const arrow::Buffer& buffer) {
    event = buffer.device_sync_event();
    return event != nullptr;
  });
  if (event == nullptr || event->get_raw() == nullptr) {
    return false;
  }
  const auto* const ours = dynamic_cast<const bridged_event*>(event.get());
  if (ours != nullptr && ours->ctx()->device_backend().get() == &stream.owner()) {
    stream.wait(ours->ref());
  } else {
    bridge::check(event->Wait(), "sync event of an arrow buffer");
  }
  return true;
}

/// True if the device of the context can use the memory where it is.
bool within_reach(const context& ctx, const arrow::Buffer& of) {
  if (ctx.on_host()) {
    return of.is_cpu();
  }
  if (of.device_type() == allocation_type(ctx, own_kind(ctx.device()))) {
    return of.device()->device_id() == ctx.device().ordinal;
  }
  return !of.is_cpu() && (of.device_type() == allocation_type(ctx, memory_kind::pinned) ||
                          of.device_type() == allocation_type(ctx, memory_kind::managed));
}

} // namespace

held_buffer::held_buffer(const buffer& bytes, access mode, std::shared_ptr<arrow::MemoryManager> manager)
    : Buffer(usable(bytes, mode).address(), checked_cast<std::int64_t>(bytes.size(), "bytes of a buffer"),
             std::move(manager)),
      bytes_(mode == access::read ? bytes : mark_written(bytes)), hold_(std::span(&bytes_, 1), mode) {
  is_mutable_ = mode != access::read;
  if (mode == access::read) { // after the hold begins, so that later writers wait for the users
    synchronize_handover(std::span(&bytes_, 1));
  }
}

std::shared_ptr<arrow::Buffer> arrow_buffer(const buffer& bytes, access mode) {
  const std::shared_ptr<storage>& owner = usable(bytes, mode).owner();
  return std::make_shared<held_buffer>(bytes, mode, memory_manager_of(owner->ctx(), bytes.kind()));
}

std::shared_ptr<arrow::Buffer> slice_buffer(const std::shared_ptr<arrow::Buffer>& of, std::int64_t offset,
                                            std::int64_t bytes) {
  require_argument(of, "of");
  if (offset < 0 || bytes < 0 || offset > of->size() || bytes > of->size() - offset) {
    throw error(errc::out_of_range, concat("a slice of ", bytes, " bytes at offset ", offset,
                                           " of a buffer of ", of->size(), " bytes"));
  }
  return std::make_shared<buffer_slice>(of, offset, bytes);
}

std::optional<buffer> own_bytes(const arrow::Buffer& of) {
  if (std::optional<buffer> held = held_bytes(of)) {
    return held;
  }
  std::optional<buffer> known = known_bytes(of);
  if (known) {
    const stream_ref work = known->owner()->ctx()->work_stream();
    if (wait_for_event(work, of)) {
      known->owner()->ordering().add_write(mark(work));
    }
  }
  return known;
}

buffer view_of(const std::shared_ptr<context>& ctx, const arrow::Buffer& from,
               std::shared_ptr<void> keepalive) {
  std::optional<buffer> ours = own_bytes(from);
  if (ours && ours->owner()->ctx()->shares_with(*ctx)) {
    return *std::move(ours);
  }
  if (!within_reach(*ctx, from)) {
    throw error(errc::exchange, concat("an arrow buffer on ", from.device()->ToString(),
                                       " can't be used without a copy in the context of ",
                                       to_string(ctx->device()), ": copy it there"));
  }
  const stream_ref work = ctx->work_stream();
  wait_for_event(work, from);
  wait(work, ctx->root().mark_unknown_work("arrow"));
  external_memory memory;
  memory.pointer = reinterpret_cast<void*>(from.address());
  memory.bytes = static_cast<std::size_t>(from.size());
  memory.device = ctx->device();
  memory.keepalive = std::move(keepalive);
  memory.access = from.is_mutable() ? mutability::writable : mutability::read_only;
  memory.ready = mark(work);
  memory.tag = "arrow";
  return buffer::adopt(ctx, std::move(memory));
}

buffer bytes_of(const std::shared_ptr<context>& ctx, const std::shared_ptr<arrow::Buffer>& from) {
  require_argument(ctx, "ctx");
  require_argument(from, "from");
  return view_of(ctx, *from, from);
}

} // namespace saeta
