// libarrow's own objects over our memory: an arrow::Buffer, Device and MemoryManager for a context.
//
// What      With these objects libarrow, and pyarrow on top of it, imports device arrays, copies them between
//           devices and prints them. Each context has one memory manager for every kind of its memory: the
//           device's own, page-locked, managed. The CPU can view page-locked and managed memory without a
//           copy; other device memory is copied.
// Owner     An arrow::Buffer holds an export of its bytes, and its memory manager holds the context. A memory
//           manager lives as long as it or one of its buffers is held. The memory is charged to the context's
//           budget.
// Order     libarrow's users follow addresses on streams that are not announced, and most never ask for an
//           event. So the host waits for pending writes before an address is given out. While the buffer
//           lives, and afterwards, its users are unknown work (memory/export_hold.hpp). Reads for libarrow go
//           through a use token, and the host waits for them. Memory of other libraries is read after all
//           work of its device and after its sync event, because libarrow reads the offsets of strings before
//           it looks at the event.
// Thread    Any. Buffers may be dropped on any thread.
// Failure   Functions here throw `error`. The methods that libarrow calls return a Status
//           (bridge/arrow_status.hpp).
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/memory/buffer.hpp"

#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace arrow {
class MemoryManager;
enum class DeviceAllocationType : char;
} // namespace arrow

namespace SAETA_EXPORT saeta {

class context;

/// The bytes as a buffer of libarrow. It is CPU memory (`is_cpu`) only on a host context. The host waits for
/// the last write.
/// @param mode  read: an immutable buffer; write or read_write: a mutable one, whose users may write at any
///              time.
/// @throws error invalid_argument (an absent buffer, or write access to read-only memory), busy (unknown
///         writes while a graph is captured), device.
[[nodiscard]] std::shared_ptr<arrow::Buffer> arrow_buffer(const buffer& bytes, access mode = access::read);

/// A slice of a buffer, mutable if the buffer is. libarrow's own slices of a mutable buffer lose its memory
/// manager and claim to be CPU memory.
/// @throws error out_of_range naming the numbers.
[[nodiscard]] std::shared_ptr<arrow::Buffer> slice_buffer(const std::shared_ptr<arrow::Buffer>& of,
                                                          std::int64_t offset, std::int64_t bytes);

/// The bytes of ours that the buffer shows. It may be a buffer of `arrow_buffer`, a slice of one, or a buffer
/// that libarrow made from our exports, which is recognised by its address. If the latter has an event, later
/// uses of the bytes wait for it too. Returns nullopt for other memory, and for an empty buffer that is not
/// ours.
[[nodiscard]] std::optional<buffer> own_bytes(const arrow::Buffer& of);

/// The bytes from own_bytes if `ctx` shares memory with their context, else a view of memory that the device
/// of `ctx` can use. The view keeps the arrow buffer. Its first use comes after all work that is queued on
/// the device now.
/// @throws error exchange naming both devices for memory elsewhere, busy while a graph is captured, closed,
///         device.
[[nodiscard]] buffer bytes_of(const std::shared_ptr<context>& ctx,
                              const std::shared_ptr<arrow::Buffer>& from);

/// Counts the unknown null counts of an array on a device, and stores them in the array as libarrow stores
/// its own. libarrow would count on the host and follow device pointers there. Arrays on the CPU, and on
/// devices without a context of ours, stay unchanged.
/// @throws error format (a validity buffer that is too small), busy, device.
void count_nulls(const arrow::ArrayData& of);

/// The memory manager for the context's own memory, which is CPU memory on a host context. Every call returns
/// the same object as long as it is held.
[[nodiscard]] std::shared_ptr<arrow::MemoryManager> memory_manager_of(const std::shared_ptr<context>& ctx);
/// The same for page-locked or managed memory. On a host context all memory is the host's.
[[nodiscard]] std::shared_ptr<arrow::MemoryManager> memory_manager_of(const std::shared_ptr<context>& ctx,
                                                                      memory_kind kind);

/// The context of one of our memory managers; null for others.
[[nodiscard]] std::shared_ptr<context> context_of(const arrow::MemoryManager& of);

/// Returns the context of a device number; null if there is no such device.
using context_finder = std::function<std::shared_ptr<context>(std::int64_t ordinal)>;

/// Makes libarrow find our memory managers when it imports arrays on devices of this type. A second call for
/// the same type has no effect.
/// @param type  kCUDA, kCUDA_HOST, kCUDA_MANAGED, or kEXT_DEV, which tests use.
/// @throws error invalid_argument (another type), exchange (another library has registered the type).
void register_devices(arrow::DeviceAllocationType type, context_finder open);

/// The libarrow release that this library was built with, and the release that is loaded now ("26.0.1").
[[nodiscard]] std::string built_arrow_version();
[[nodiscard]] std::string loaded_arrow_version();

} // namespace saeta
