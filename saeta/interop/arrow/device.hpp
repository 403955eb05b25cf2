// The Arrow C Device Data Interface: arrays and streams in device memory, without a copy and in order.
//
// What      Imports any conforming ArrowDeviceArray or ArrowDeviceArrayStream, and exports ours, in host,
//           GPU, page-locked or managed memory. Memory that the context's device can use is shared, or copied
//           by one kernel if the caller wants a copy. Page-locked memory enters a GPU's context by one
//           planned transfer. Memory that the context exported is recognised by its address and shared again,
//           whichever library passed it on. No device pointer is followed on the host: the first and last
//           offsets of strings and lists are read from the device, which waits for the producer. Bools of one
//           byte that came from tensors are packed on the device (c_data.hpp).
// Owner     An import takes an array or stream on success and leaves it with the caller, unreleased, on
//           failure (a stream that fails midway is released). An export returns the owner of a struct.
//           Exported arrays have known null counts: unknown ones are counted on the device, and the host
//           waits for them.
// Order     Export: `sync_event` is an event after our last writes, null if none is pending. The event is
//           ours and lives until the release. The memory is reused only after the release and all work of the
//           device (memory/export_hold.hpp). Import: the context's work stream waits for `sync_event` before
//           anything is read, and so does the first use of the columns. The host waits only to read or check
//           values, and for page-locked memory. The producer's release runs after our last use.
// Thread    Release callbacks may run on any thread; they are noexcept.
// Failure   As in c_data.hpp. Also exchange, for a device that the context can't use or an event that it
//           can't wait for.
// Standard  Arrow C Device Data Interface (arrow.apache.org/docs/format/CDeviceDataInterface.html).
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/dlpack/types.hpp"

#include <cstdint>
#include <optional>

namespace SAETA_EXPORT saeta {

/// Exports a batch as a struct array, without moving it.
[[nodiscard]] arrow_device_array export_device_batch(const table& source, std::size_t batch_index);
[[nodiscard]] arrow_device_array export_device_column(const column& source);
/// Exports the batches as a stream. Each batch is exported when it is requested.
[[nodiscard]] arrow_device_stream export_device_stream(const table& source);
/// Exports the pieces of a column as a stream of arrays of its type.
[[nodiscard]] arrow_device_stream export_device_stream(const field& described, std::vector<column> pieces);

/// The device that an array names. @throws error exchange for an unknown device type, format for an invalid
/// device_id.
[[nodiscard]] tensor_device device_of(const ArrowDeviceArray& source);
/// The number of the device that a stream is on. The standard has it in the arrays alone, so the first one is
/// requested, and `source` becomes a stream that still gives it. Empty for a stream without arrays.
/// @throws error if the producer can't make the first array. The stream is released then.
[[nodiscard]] std::optional<std::int64_t> device_number_of(ArrowDeviceArrayStream& source);

/// Imports one record batch: a struct array that matches `fields`.
[[nodiscard]] batch import_device_batch(const std::shared_ptr<context>& ctx, const schema& fields,
                                        ArrowDeviceArray& source, dictionary_cache& dictionaries,
                                        const import_options& options = {});
/// Imports one array of any supported type.
[[nodiscard]] column import_device_column(const std::shared_ptr<context>& ctx, const field& described,
                                          ArrowDeviceArray& source, const import_options& options = {});
/// Imports every array of a stream.
[[nodiscard]] imported_stream
import_device_stream(const std::shared_ptr<context>& ctx, ArrowDeviceArrayStream& source,
                     const import_options& options = {},
                     const std::function<void(std::int64_t rows)>& progress = {});

} // namespace saeta
