// Tables as rapidsmpf::PackedData, for its shuffles and collectives, and back, without a copy.
//
// @code
// const cuda::stream_ref packing = resource->stream_pool()->get_stream();
// rapidsmpf::PackedData data = pack_data(orders, *resource, packing); // ordered on `packing`
// const table received = unpack_data(ctx, std::move(data), *resource);
// @endcode
//
// What      The metadata is that of the packed form (ipc/packed.hpp), and the data is its body. A table that
//           is packed already is not copied. Nor is a body that arrives in device memory; one that rapidsmpf
//           has spilled to the host is copied back.
// Owner     The packed data shares the memory of the table, which must not be written while it lives. The
//           table of `unpack_data` owns its memory, charged to the context that rapidsmpf allocates from
//           (memory_limit.hpp), and may be spilled like any other.
// Order     On the stream of the data, in both directions (rmm/device_buffer.hpp): the stream waits for the
//           last writes of the table, and users of the received table wait for what is queued on the stream.
// Thread    Any.
// Failure   invalid_argument for a context on the host. Otherwise as ipc::pack, ipc::unpack and
//           rmm/device_buffer.hpp. rapidsmpf::reservation_error and rmm::out_of_memory if a spilled body has
//           no room on the device.
// Links     librapidsmpf (26.10).
#pragma once

#include "saeta/ipc/packed.hpp"
#include "saeta/rapidsmpf/memory_limit.hpp"
#include "saeta/rmm/device_buffer.hpp"

#include <cstdint>
#include <memory>
#include <rapidsmpf/memory/buffer_resource.hpp>
#include <rapidsmpf/memory/packed_data.hpp>
#include <span>
#include <utility>
#include <vector>

namespace saeta {

inline void require_gpu(const context& ctx) {
  if (ctx.on_host()) {
    throw error(errc::invalid_argument,
                "packed data of rapidsmpf is memory of a GPU, and the context is that of the host");
  }
}

/// @param to      the resource that owns the data afterwards, on the device of the table
/// @param stream  the stream of the data from now on
[[nodiscard]] inline rapidsmpf::PackedData pack_data(const table& source, rapidsmpf::BufferResource& to,
                                                     cuda::stream_ref stream) {
  require_gpu(*source.ctx());
  const ipc::packed_table packed = ipc::pack(source);
  const auto* const described = reinterpret_cast<const std::uint8_t*>(packed.metadata.data());
  return {std::make_unique<std::vector<std::uint8_t>>(described, described + packed.metadata.size()),
          to.move(lend_device_buffer(packed.body, stream), stream)};
}

/// @param ctx    a context of the device that has the bytes
/// @param from   the resource that owns the data
/// @param check  structure: for trusted senders, nothing of the body is read
[[nodiscard]] inline table unpack_data(const std::shared_ptr<context>& ctx, rapidsmpf::PackedData packed,
                                       rapidsmpf::BufferResource& from, validation check = validation::full) {
  require_gpu(*ctx);
  const bool spilled = packed.data->mem_type() != rapidsmpf::MemoryType::DEVICE;
  auto reserved =
      from.reserve_device_memory_and_spill(spilled ? packed.data->size : 0, rapidsmpf::AllowOverbooking::NO);
  std::unique_ptr<rmm::device_buffer> body = from.move_to_device_buffer(std::move(packed.data), reserved);
  rmm::device_async_resource_ref source = body->memory_resource();
  buffer bytes;
  if (const auto* const counts = cuda::mr::resource_cast<rapidsmpf::RmmResourceAdaptor>(&source)) {
    update_memory_limit(from, body->size()); // before the adaptor counts that the bytes are gone
    bytes = take_device_buffer(ctx, std::move(body), counts->get_upstream_resource(), "rapidsmpf");
  } else {
    bytes = take_device_buffer(ctx, std::move(body), source, "rapidsmpf");
  }
  return ipc::unpack(ctx, std::as_bytes(std::span(*packed.metadata)), bytes, check);
}

} // namespace saeta
