// libarrow's own objects over memory of ours: arrow::Buffer, arrow::Device and arrow::MemoryManager for a context.
//
// What      With them libarrow, and pyarrow on it, takes device arrays in, copies them between devices and shows them. Each context
//           has a memory manager for every kind of its memory: the device's own, page-locked, managed. Page-locked and managed
//           memory can be viewed on the CPU without a copy; other device memory is copied.
// Owner     An arrow::Buffer holds an export of its bytes, and its memory manager the context. A memory manager lives while somebody
//           holds it or a buffer of it. The memory is charged to the context's budget.
// Order     libarrow's users follow addresses on streams that nobody announces, and most never ask for an event. So the host waits
//           for pending writes before an address is given out, and while the buffer lives, and afterwards, its users are
//           unknown work (memory/export_hold.hpp). Whatever is read for libarrow goes through a use token, and the host waits for it.
//           Memory of others is read after all work of its device and after its sync event, because libarrow reads the
//           offsets of strings before it looks at the event.
// Thread    Any. Buffers may be dropped on any thread.
// Failure   Functions here throw `error`. The methods that libarrow calls return a Status (ipc/arrow_status.hpp).
#pragma once

#include "saeta/memory/buffer.hpp"

#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace arrow {
class MemoryManager;
enum class DeviceAllocationType : char;
} // namespace arrow

namespace saeta {

class context;

/// The bytes as libarrow's buffer, which is the CPU's (`is_cpu`) on a host context alone. The host waits for their last write.
/// @param mode  read: an immutable buffer; write or read_write: a mutable one, whose users may write at any time.
/// @throws error invalid_argument (absent, or to write read-only memory), busy (unknown writes, while a graph is captured), device.
std::shared_ptr<arrow::Buffer> arrow_buffer(const buffer& bytes, access mode = access::read);

/// A part of a buffer, mutable where that is. libarrow's own slices of a mutable buffer forget its memory manager, so that they claim
/// to be memory of the CPU.
/// @throws error out_of_range naming the numbers.
std::shared_ptr<arrow::Buffer> slice_buffer(const std::shared_ptr<arrow::Buffer>& of, std::int64_t offset,
                                            std::int64_t bytes);

/// The bytes of ours that the buffer shows: one of `arrow_buffer`, a slice of one, or one that libarrow made from our exports, which is
/// known by its address. Where that one comes with an event, later uses of the bytes wait for it, too. Nothing for memory of
/// others, and for a buffer of no bytes that is not ours.
std::optional<buffer> own_bytes(const arrow::Buffer& of);

/// Those, or a view of memory of others that the device of `ctx` can use, kept by the arrow buffer. Its first use comes after all that
/// is queued on the device now.
/// @throws error exchange naming both devices for memory elsewhere, busy while a graph is captured, closed, device.
buffer bytes_of(const std::shared_ptr<context>& ctx, const std::shared_ptr<arrow::Buffer>& from);

/// Notes the null counts of an array on a device that nobody knows, counted there, as libarrow notes those that it counts: it would follow
/// pointers of the device on the host. Arrays on the CPU, and on devices of no context of ours, stay as they are.
/// @throws error format (a validity buffer that is too small), busy, device.
void count_nulls(const arrow::ArrayData& of);

/// The context's memory manager for its own memory, which on a host context is the CPU's: the same object as long as somebody holds it.
std::shared_ptr<arrow::MemoryManager> memory_manager_of(const std::shared_ptr<context>& ctx);
/// The same for page-locked or managed memory; on a host context all memory is the host's.
std::shared_ptr<arrow::MemoryManager> memory_manager_of(const std::shared_ptr<context>& ctx,
                                                        memory_kind kind);

/// The context behind a memory manager of ours; null for others.
std::shared_ptr<context> context_of(const arrow::MemoryManager& of);

/// The context of a device number.
using context_finder = std::function<std::shared_ptr<context>(std::int64_t ordinal)>;

/// Makes libarrow find our memory managers when it imports arrays on devices of this type. Once a process and type: asking again
/// changes nothing.
/// @param type  kCUDA, kCUDA_HOST, kCUDA_MANAGED, or kEXT_DEV, which tests use.
/// @throws error invalid_argument (another type), exchange (another library has registered the type).
void register_devices(arrow::DeviceAllocationType type, context_finder open);

} // namespace saeta
