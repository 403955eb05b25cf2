#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/export.hpp"
#include "saeta/interop/own_memory.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/download.hpp"

#include <algorithm>

namespace saeta {
namespace {

/// Private data of an export. It lives as long as a consumer has the array or a part of it.
struct handed_out {
  explicit handed_out(std::span<const buffer> views) : hold(views) {}

  known_export hold;
  buffer nothing; ///< zeros on the device, for buffers without bytes
  std::optional<event> written;
  event_handle written_handle{}; ///< the handle that `sync_event` points to
};

struct device_view {
  host_batch arrays;
  std::shared_ptr<handed_out> owner;
};

bool lacks_bytes(const column& of) {
  for (std::size_t i = 0; i < of.buffers().size(); ++i) {
    if (of.length() == 0 ||
        (!of.buffers()[i].present() && of.type().buffer(i).role != buffer_role::validity)) {
      return true;
    }
  }
  return std::ranges::any_of(of.children(), lacks_bytes) ||
         (of.dictionary() != nullptr && lacks_bytes(*of.dictionary()));
}

buffer allocate_zeros(const std::shared_ptr<context>& ctx) {
  constexpr std::size_t bytes = 64;
  const stream_ref work = ctx->work_stream();
  buffer result = buffer::allocate(ctx, bytes, work, "arrow export");
  use_token token(work, {writes(result)});
  ctx->copies().fill(token.span<std::byte>(result).data(), 0, bytes, work);
  token.finish();
  return result;
}

/// Appends the arrays whose null count is not known. Shared dictionaries are replaced by copies, which may
/// change.
void append_uncounted(host_array& from, std::vector<host_array*>& to) {
  if (null_count_of(from) == column::unknown_nulls) {
    to.push_back(&from);
  }
  for (host_array& child : from.children) {
    append_uncounted(child, to);
  }
  if (from.dictionary != nullptr) {
    auto own = std::make_shared<host_array>(*from.dictionary);
    append_uncounted(*own, to);
    from.dictionary = std::move(own);
  }
}

/// Counts all unknown nulls, with one read of the results. A consumer could count by itself, but libarrow
/// counts on the host whatever the memory is: it would follow device pointers when it exports or prints an
/// imported array.
void count_nulls(const std::shared_ptr<context>& ctx, std::span<const buffer> views,
                 std::span<host_array> arrays) {
  std::vector<host_array*> uncounted;
  for (host_array& array : arrays) {
    append_uncounted(array, uncounted);
  }
  if (ctx->on_host() || uncounted.empty()) {
    return;
  }
  std::vector<use> used;
  for (const buffer& view : views) {
    used.push_back(reads(view));
  }
  use_token token(ctx->work_stream(), used);
  const auto counts =
      kernel_results(ctx, uncounted.size(), {}, [&](const use_token& results, std::int64_t* values) {
        for (const host_array* array : uncounted) {
          ctx->kernels().count_nulls(results.stream().native_handle(),
                                     reinterpret_cast<const std::uint8_t*>(array->buffers[0].data()),
                                     array->offset, array->length, values++);
        }
      });
  token.finish();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    uncounted[i]->null_count = counts[i];
  }
}

/// The hold begins before the hand-over, so that later writers wait for the consumer.
device_view view_of(const std::shared_ptr<context>& ctx, const batch& source) {
  std::vector<buffer> views;
  for (const column& part : source.columns) {
    append_buffers(part, views);
  }
  buffer nothing;
  if (!ctx->on_host() && std::ranges::any_of(source.columns, lacks_bytes)) {
    nothing = allocate_zeros(ctx);
    views.push_back(nothing);
  }
  device_view view;
  view.owner = std::make_shared<handed_out>(views);
  view.owner->nothing = std::move(nothing);
  view.arrays = view_in_place(source);
  view.arrays.keepalive = view.owner;
  count_nulls(ctx, views, view.arrays.arrays);
  for (host_array& array : view.arrays.arrays) {
    push_offsets_down(array, nullptr);
  }
  view.owner->written = handover_event(ctx, views);
  return view;
}

const void* placeholder_of(const device_view& from) {
  const buffer& there = from.owner->nothing;
  return there.present() ? reinterpret_cast<const void*>(there.address()) : no_bytes();
}

arrow_device_array device_array_of(device_view& from, arrow_array array, tensor_device where) {
  ArrowDeviceArray target{};
  target.device_type = where.type;
  target.device_id = where.ordinal;
  if (from.owner->written) {
    from.owner->written_handle = from.owner->written->ref().native_handle();
    target.sync_event = &from.owner->written_handle;
  }
  target.array = array.release();
  return arrow_device_array(target);
}

void append_kinds(const column& of, std::vector<memory_kind>& kinds) {
  if (of.type().is_byte_bool()) {
    kinds.push_back(own_kind(of.ctx()->device())); // the packed bits are in the device's own memory
    return;
  }
  std::vector<buffer> views;
  append_buffers(of, views);
  for (const buffer& view : views) {
    if (view.present()) {
      kinds.push_back(view.kind());
    }
  }
}

} // namespace

tensor_device device_for(const context& ctx, std::span<const column> parts) {
  std::vector<memory_kind> kinds;
  for (const column& part : parts) {
    append_kinds(part, kinds);
  }
  const bool one_kind =
      !kinds.empty() && std::ranges::adjacent_find(kinds, std::not_equal_to{}) == kinds.end();
  // The device can use all the kinds, so buffers of several kinds are exported as its own kind.
  const memory_kind kind = one_kind ? kinds.front() : own_kind(ctx.device());
  const tensor_device device = to_tensor_device(ctx.device(), kind);
  return {device.type, kind == memory_kind::host ? -1 : ctx.device().ordinal};
}

arrow_device_array export_to_device(const std::shared_ptr<context>& ctx, const batch& source,
                                    tensor_device where) {
  device_view view = view_of(ctx, as_arrow(source));
  return device_array_of(view, exported_struct(view.arrays, placeholder_of(view)), where);
}

arrow_device_array export_to_device(const column& source, tensor_device where) {
  device_view view = view_of(source.ctx(), {source.length(), {as_arrow(source)}});
  return device_array_of(
      view, build_array(view.arrays.arrays.front(), view.arrays.keepalive, placeholder_of(view)), where);
}

arrow_device_array export_device_batch(const table& source, std::size_t batch_index) {
  if (batch_index >= source.batches().size()) {
    throw error(errc::out_of_range,
                concat("batch ", batch_index, " of a table with ", source.batches().size(), " batches"));
  }
  const batch& part = source.batches()[batch_index];
  return export_to_device(source.ctx(), part, device_for(*source.ctx(), part.columns));
}

arrow_device_array export_device_column(const column& source) {
  return export_to_device(source, device_for(*source.ctx(), std::span(&source, 1)));
}

} // namespace saeta
