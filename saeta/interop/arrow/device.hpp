// The Arrow C Device Data Interface: arrays and streams in the memory of a device, without a copy and in order.
//
// What      Import of any conforming ArrowDeviceArray / ArrowDeviceArrayStream, and export of ours, for memory of the host, of a
//           GPU, page-locked and managed memory. Memory that the context's device can use is shared, or copied by one kernel
//           where the caller wants a copy; of page-locked memory a GPU's context makes one planned transfer. Memory that the
//           context exported is known by its address and shared again, whoever passed it on. No pointer of a device is followed on the host: of strings and lists the
//           first and last offset are read from the device, which waits for the producer. Booleans of one byte that came from
//           tensors are packed on the device, as arrow_c.hpp says.
// Owner     Import takes an array or stream on success and leaves it with the caller, unreleased, on failure (a stream that failed
//           in the middle is released). Export fills a struct that the caller releases.
//           Null counts of what is exported are known: those that are not are counted on the device, and the host waits for them.
// Order     Export: `sync_event` is an event behind our last writes, null where none is pending; the event is ours and lives until
//           the release. The memory is reused only after the release and all work of the device (memory/export_hold.hpp).
//           Import: the context's work stream waits for `sync_event` before anything is read, and so does the first use of the
//           columns; the host does not. The producer's release comes after our last use.
// Thread    Release callbacks may run on any thread; they are noexcept.
// Failure   As arrow_c.hpp; exchange for a device that the context can't use, and for an event that it can't wait for.
// Standard  Arrow C Device Data Interface (arrow.apache.org/docs/format/CDeviceDataInterface.html).
#pragma once

#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/dlpack/types.hpp"

extern "C" {
struct ArrowDeviceArray;
struct ArrowDeviceArrayStream;
}

namespace saeta {

/// A batch as a struct array, where it is.
void export_device_batch(const table& source, std::size_t batch_index, ArrowDeviceArray& target);
void export_device_column(const column& source, ArrowDeviceArray& target);
/// The batches, each exported when it is asked for.
void export_device_stream(const table& source, ArrowDeviceArrayStream& target);
/// The pieces of a column as a stream of arrays of its type.
void export_device_stream(const field& described, std::vector<column> pieces, ArrowDeviceArrayStream& target);

/// The device that an array says it is on. @throws error format for a type that the standard does not name.
tensor_device device_of(const ArrowDeviceArray& source);

/// One record batch (a struct array matching `fields`).
batch import_device_batch(const std::shared_ptr<context>& ctx, const schema& fields, ArrowDeviceArray& source,
                          dictionary_cache& dictionaries, const import_options& options = {});
/// One array of any type.
column import_device_column(const std::shared_ptr<context>& ctx, const field& described,
                            ArrowDeviceArray& source, const import_options& options = {});
/// Every array of a stream.
imported_stream import_device_stream(const std::shared_ptr<context>& ctx, ArrowDeviceArrayStream& source,
                                     const import_options& options = {},
                                     const std::function<void(std::int64_t)>& progress = {});

} // namespace saeta
