#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/copy_to.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/import.hpp"
#include "saeta/interop/own_memory.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/symbols/symbol_arrays.hpp"

#include <algorithm>

namespace saeta {
namespace {

/// How a context gets the rows of an array.
enum class way {
  as_host_memory, ///< the CPU reads it: a view on a host context, a transfer to a device
  view,           ///< the context's device uses the memory where it is
};

/// Does not check `reserved`, because pyarrow does not set it.
void require_struct(const ArrowDeviceArray& source) {
  if (source.array.release == nullptr) {
    throw error(errc::closed, "the ArrowDeviceArray was released already");
  }
}

/// Any GPU can use managed memory. Page-locked memory enters a GPU's context by a transfer, like host memory.
way choose_way(const context& ctx, const ArrowDeviceArray& source) {
  const tensor_device from = device_of(source);
  const memory_kind kind = *kind_of(from);
  const device_id here = ctx.device();
  if (kind == memory_kind::host) {
    if (source.sync_event != nullptr) {
      throw error(errc::format,
                  "ArrowDeviceArray: sync_event is set for memory of the CPU, which has no events");
    }
    return way::as_host_memory;
  }
  const bool on_gpu = here.kind == device_kind::cuda;
  if ((kind == memory_kind::managed && on_gpu) || from == to_tensor_device(here, own_kind(here))) {
    return way::view;
  }
  const bool readable = host_accessible(kind);
  if (readable && (on_gpu || source.sync_event == nullptr)) {
    return way::as_host_memory;
  }
  throw error(errc::exchange,
              concat("arrow: an array on ", to_string(from), " can't be imported into the context of ",
                     to_string(here),
                     readable ? ", which can't wait for its sync_event"
                              : ": use a context of the array's device, and copy_to to move it"));
}

/// The producer's event. CUDA and the simulated device both pass a pointer to an event handle.
event_ref event_of(const context& ctx, const ArrowDeviceArray& source) {
  return {*ctx.device_backend(), *static_cast<const event_handle*>(source.sync_event)};
}

void require_alignment(const host_batch& view) {
  if (!std::ranges::all_of(view.arrays, aligned)) {
    throw error(errc::exchange, "arrow: the buffers of an array on a device are not aligned to their values");
  }
}

/// @param look  makes the host_batch of the struct. It reads values through the memory that it is given.
template <class Look>
placed_batch view_on_device(const std::shared_ptr<context>& ctx, ArrowDeviceArray& source,
                            std::span<const field> fields, dictionary_cache& dictionaries,
                            const import_options& options, Look look) {
  const stream_ref work = ctx->work_stream();
  if (source.sync_event != nullptr) {
    work.wait(event_of(*ctx, source));
  }
  const device_memory memory(ctx);
  host_batch view = look(memory);
  require_alignment(view);
  if (options.check == validation::full) {
    check_values(view.arrays, fields, dictionaries, memory, options.scope);
  }
  // The columns share an owner that is still empty, so a failure leaves the struct with the caller.
  const auto owner = std::make_shared<arrow_device_array>();
  view.keepalive = owner;
  const point ready = mark(work);
  batch placed =
      adopt(ctx, view, dictionaries,
            {.tag = options.upload.tag, .on_device = true, .ready = ready, .own = find_own(*ctx, ready)});
  if (options.copy == copy_policy::always) {
    placed.columns = copy_columns(ctx, placed.columns, options.upload.tag);
  }
  wire_symbols(ctx, fields, view, dictionaries).apply(placed);
  owner->take(source);
  return {std::move(placed), std::move(view)};
}

/// Waits for the producer's work, before the CPU reads the memory.
void await(const context& ctx, const ArrowDeviceArray& source) {
  if (source.sync_event != nullptr) {
    event_of(ctx, source).synchronize();
  }
}

} // namespace

tensor_device device_of(const ArrowDeviceArray& source) {
  tensor_device tensor_device{source.device_type, 0};
  const std::optional<memory_kind> kind = kind_of(tensor_device);
  if (!kind) {
    throw error(errc::exchange,
                concat("arrow: device type ", source.device_type,
                       " is not supported: expected CPU (1), CUDA (2), CUDA_HOST (3) or CUDA_MANAGED (13)"));
  }
  if (*kind == memory_kind::device) {
    tensor_device.ordinal = static_cast<std::int32_t>(source.device_id);
    if (source.device_id < 0 || tensor_device.ordinal != source.device_id) {
      throw error(errc::format, concat("ArrowDeviceArray: device_id is ", source.device_id,
                                       ", which is not the number of a device"));
    }
  }
  return tensor_device;
}

placed_batch place_device_batch(const std::shared_ptr<context>& ctx, const schema& fields,
                                ArrowDeviceArray& source, dictionary_cache& dictionaries,
                                const import_options& options) {
  require_struct(source);
  if (choose_way(*ctx, source) == way::as_host_memory) {
    await(*ctx, source);
    return place_batch(ctx, fields, source.array, dictionaries, options);
  }
  return view_on_device(ctx, source, fields.fields, dictionaries, options, [&](const array_memory& memory) {
    return view_batch(fields, source.array, memory, options.scope);
  });
}

placed_batch place_device_column(const std::shared_ptr<context>& ctx, const field& described,
                                 ArrowDeviceArray& source, dictionary_cache& dictionaries,
                                 const import_options& options) {
  require_struct(source);
  if (choose_way(*ctx, source) == way::as_host_memory) {
    await(*ctx, source);
    return place_column(ctx, described, source.array, dictionaries, options);
  }
  return view_on_device(ctx, source, std::span(&described, 1), dictionaries, options,
                        [&](const array_memory& memory) {
                          host_batch view;
                          view.rows = source.array.length;
                          view.arrays.push_back(view_array(described.type, source.array,
                                                           array_place::column(described.name), memory));
                          return view;
                        });
}

batch import_device_batch(const std::shared_ptr<context>& ctx, const schema& fields, ArrowDeviceArray& source,
                          dictionary_cache& dictionaries, const import_options& options) {
  require_argument(ctx, "ctx");
  return place_device_batch(ctx, fields, source, dictionaries, options).columns;
}

column import_device_column(const std::shared_ptr<context>& ctx, const field& described,
                            ArrowDeviceArray& source, const import_options& options) {
  require_argument(ctx, "ctx");
  dictionary_cache dictionaries;
  return place_device_column(ctx, described, source, dictionaries, options).columns.columns.front();
}

} // namespace saeta
