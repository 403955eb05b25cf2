#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/dlpack/abi.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/interop/dlpack/managed_tensor.hpp"
#include "saeta/interop/dlpack/tensors.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/staging/staging_ring.hpp"

#include <new>
#include <string>
#include <vector>

namespace saeta {
namespace {

/// The contents of an exported tensor, for the legacy and the versioned struct.
struct view {
  void* data = nullptr;
  tensor_device device;
  tensor_type type;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides; ///< in values
  bool copied = false;
  tensor_owner owner;
};

/// Text such as "an int8 column" or "the table".
std::string name_of(const tensor_numbers& source) {
  return source.rows ? concat(with_article(source.rows->type().name()), " column") : std::string("the table");
}

/// Text such as "2 of 8 values of an int8 column are null".
std::string nulls_text(const tensor_numbers& source, std::int64_t nulls) {
  return concat(nulls, " of ", source.rows ? source.rows->length() : source.size(), " values of ",
                name_of(source), " are null");
}

constexpr tensor_device cpu_device{kDLCPU, 0};

/// True if the CPU can read memory of this device.
bool host_reads(tensor_device here) {
  const std::optional<memory_kind> kind = kind_of(here);
  return kind && host_accessible(*kind);
}

/// Why the memory can't be handed out without a copy; empty if it can.
std::string reason_to_copy(const tensor_numbers& source, bool in_place, bool only_mask, tensor_device here,
                           tensor_device target) {
  if (target != here && target != cpu_device) {
    throw error(errc::exchange,
                concat("dlpack: the column is on ", to_string(here), " and can't be exported to ",
                       to_string(target), ": only to its own device or to the host"));
  }
  if (target == cpu_device && !host_reads(here)) {
    return concat("the column is on ", to_string(here), " and the tensor was requested on the host");
  }
  if (source.converted) {
    return concat("values of type ", source.converted->name(), " become ", source.shown.name());
  }
  if (in_place) {
    return {};
  }
  if (only_mask) {
    return "a validity buffer has one bit per value and a mask one byte";
  }
  for (const number_block& block : source.blocks) {
    for (const column& column : block.columns) {
      if (column.type().id() == type_id::boolean) {
        return "a boolean column has one bit per value and a tensor one byte";
      }
      if (column.type() != source.shown) {
        return concat("values of type ", column.type().name(), " become ", source.shown.name());
      }
    }
  }
  if (source.blocks.size() > 1) {
    return concat("the table has ", source.blocks.size(), " batches");
  }
  return concat("the columns of ", name_of(source),
                " are not equally spaced in one allocation in the requested order");
}

/// Where the consumer's work is ordered after ours: on the CPU, on a stream, or nowhere if no ordering is
/// wanted.
struct consumer {
  bool on_cpu = false;
  std::optional<stream_handle> stream;
};

/// Checks the stream against the target. A consumer that names no stream for page-locked memory reads it on
/// the CPU.
consumer consumer_of(const dlpack_export& how, tensor_device target) {
  const auto named = how.stream ? tensor_stream(*how.stream) : std::optional(legacy_stream);
  if (target == cpu_device && how.stream) {
    throw error(errc::exchange, concat("dlpack: stream ", *how.stream,
                                       " was given for a tensor on the host, which has no streams"));
  }
  if (target == cpu_device || (!how.stream && kind_of(target) == memory_kind::pinned)) {
    return {.on_cpu = true, .stream = std::nullopt};
  }
  return {.on_cpu = false, .stream = named};
}

view download_view(const std::shared_ptr<context>& ctx, const buffer& values) {
  constexpr std::align_val_t alignment{host_alignment};
  void* const bytes = ::operator new(values.size(), alignment, std::nothrow);
  if (bytes == nullptr) {
    throw error(errc::out_of_memory,
                concat("dlpack: no host memory for a copy of ", values.size(), " bytes"));
  }
  view view;
  view.owner = std::shared_ptr<void>(bytes, [](void* p) { ::operator delete(p, alignment); });
  if (values.size() != 0) {
    const download_range all{values, static_cast<std::byte*>(bytes)};
    staging_ring::of(ctx)->download(std::span(&all, 1));
    view.data = bytes;
  }
  view.device = cpu_device;
  view.copied = true;
  return view;
}

view in_place(const buffer& values, bool copy) {
  view view;
  view.copied = copy;
  if (copy) {
    view.owner.emplace<copy_hold>(values.owner());
  } else {
    view.owner.emplace<export_hold>(std::span(&values, 1), access::read);
  }
  view.data = reinterpret_cast<void*>(values.size() == 0 ? 0 : values.address());
  return view;
}

void hand_over(const std::shared_ptr<context>& ctx, const buffer& values, bool copy, const consumer& to) {
  const std::span all(&values, 1);
  if (to.on_cpu) {
    synchronize_handover(all);
  } else if (to.stream) {
    order_handover(all, *ctx->device_backend(), *to.stream);
  } else if (copy) {
    // The consumer orders its own work, but it can't know the stream of our copy.
    synchronize_handover(all);
  }
}

tensor_device device_of_copy(const tensor_numbers& source, const buffer& values, const dlpack_export& how) {
  const device_id device = source.ctx->device();
  const tensor_device there = to_tensor_device(device, values.present() ? values.kind() : own_kind(device));
  if (how.target && *how.target != there) {
    throw error(errc::exchange,
                concat("dlpack: a copy is made on ", to_string(there), " and can't be exported to ",
                       to_string(*how.target), ": request the column's own device, or no copy"));
  }
  return there;
}

/// The value that replaces nulls in a tensor of type `shown`; nullopt if they are not replaced.
std::optional<std::uint64_t> choose_fill(const data_type& shown, const dlpack_export& how) {
  switch (how.nulls) {
  case tensor_nulls::nan:
    return nan_bits(shown);
  case tensor_nulls::fill:
    return value_bits(shown, how.fill);
  case tensor_nulls::refuse:
  case tensor_nulls::masked:
  case tensor_nulls::mask:
    break;
  }
  return std::nullopt;
}

/// True if nulls must be replaced by `value`. @throws error exchange for nulls without a replacement.
bool replaces_nulls(const tensor_numbers& source, const std::optional<std::uint64_t>& value,
                    const dlpack_export& how) {
  if (how.nulls == tensor_nulls::masked || how.nulls == tensor_nulls::mask) {
    return false;
  }
  const std::int64_t nulls = source.null_count();
  if (nulls != 0 && !value) {
    throw error(errc::exchange,
                concat("dlpack: ", nulls_text(source, nulls),
                       ", which a tensor can't represent: to_torch, to_numpy and the like take ",
                       source.shown.is_floating() ? "nulls='nan', " : "",
                       "fill=value or nulls='mask', and drop_null() leaves the rows out"));
  }
  if (nulls != 0 && how.copy == copy_policy::never) {
    throw error(errc::exchange, concat("dlpack: ", nulls_text(source, nulls),
                                       " and must be replaced, and a copy was forbidden"));
  }
  return nulls != 0;
}

/// Kind and device of the memory of the numbers.
tensor_device device_of(const tensor_numbers& source) {
  const device_id device = source.ctx->device();
  const bool found = !source.empty() && source.blocks.front().columns.front().values().present();
  return to_tensor_device(device,
                          found ? source.blocks.front().columns.front().values().kind() : own_kind(device));
}

view make_view(const tensor_numbers& source, const dlpack_export& how) {
  const bool only_mask = how.nulls == tensor_nulls::mask;
  const std::optional<std::uint64_t> value = choose_fill(source.shown, how);
  const tensor_device here = device_of(source);
  const tensor_device target = how.target.value_or(here);
  const consumer to = consumer_of(how, target);
  const std::optional<numbers_in_place> numbers_in_place =
      only_mask ? std::nullopt : find_in_place(source, how.order);
  const std::string reason = reason_to_copy(source, numbers_in_place.has_value(), only_mask, here, target);
  if (!reason.empty() && how.copy == copy_policy::never) {
    throw error(errc::exchange, concat("dlpack: ", reason, ", and a copy was forbidden"));
  }
  const bool replaced = replaces_nulls(source, value, how);
  const bool converts = !numbers_in_place || replaced;
  const auto gather = [&] {
    return gather_tensor(source, how.order, replaced ? value : std::nullopt, only_mask);
  };

  const bool owned = how.owned || source.converted.has_value();
  const bool copy = converts || owned || how.copy == copy_policy::always;
  // A copy is in the device's own memory.
  const bool download = target == cpu_device && (!host_reads(here) || (copy && !source.ctx->on_host()));
  const bool side_by_side = source.empty() || source.blocks.front().columns.size() == 1;
  const auto place = [&]() -> view {
    if (download) {
      return download_view(source.ctx, converts || !side_by_side ? gather() : numbers_in_place->first);
    }
    if (copy) { // the hand-over comes first, because the hold of a copy marks its consumer as a writer
      const buffer values = owned && !converts ? numbers_in_place->first : gather();
      hand_over(source.ctx, values, copy, to);
      view result = in_place(values, copy);
      result.device = target == cpu_device ? target : device_of_copy(source, values, how);
      return result;
    }
    view placed =
        in_place(numbers_in_place->first, copy); // the hold begins first, so that later writers find it
    hand_over(source.ctx, numbers_in_place->first, copy, to);
    placed.device = target;
    return placed;
  };
  view tensor = place();
  tensor.type = to_tensor_type(source.shown);
  tensor.shape = reorder(source.extents, source.order);
  tensor.strides = reorder(
      tensor.copied ? dense_strides(source.extents, how.order) : numbers_in_place->strides, source.order);
  return tensor;
}

view make_view(const column& source, const dlpack_export& how) {
  if (how.nulls != tensor_nulls::mask) {
    return make_view(numbers_of_column(source, how), how);
  }
  dlpack_export plain = how;
  plain.nulls = tensor_nulls::refuse;
  return make_view(numbers_of_column(is_valid(source), plain), plain);
}

view make_view(const table& source, const dlpack_export& how) {
  return make_view(numbers_of_table(source, how), how);
}

constexpr std::uint64_t flags_of(bool copied) {
  return copied ? DLPACK_FLAG_BITMASK_IS_COPIED : DLPACK_FLAG_BITMASK_READ_ONLY;
}

template <class Managed>
using owned_tensor = std::unique_ptr<Managed, dlpack_deleter>;

template <class Managed>
owned_tensor<Managed> managed(view from) {
  auto tensor = std::make_unique<exported_tensor<Managed>>(from.shape, from.strides, std::move(from.owner));
  tensor->describe(from.data, from.device, from.type, flags_of(from.copied));
  return owned_tensor<Managed>(tensor.release()->get());
}

/// Fast path for a column of numbers that is handed out unchanged, which is the most common case. Returns
/// null in all other cases. The tensor is the same as from the general path.
template <class Managed>
owned_tensor<Managed> plain_tensor(const column& source, const dlpack_export& how) {
  const bool numbers = source.type().byte_width() != 0 && has_tensor_type(source.type());
  const bool as_it_is =
      how.copy != copy_policy::always && !how.owned && !how.type && how.nulls != tensor_nulls::mask;
  if (!numbers || !as_it_is || source.length() == 0 || !source.values().present()) {
    return nullptr;
  }
  const tensor_device here = to_tensor_device(source.ctx()->device(), source.values().kind());
  const tensor_device target = how.target.value_or(here);
  if (target != here && !(target == cpu_device && host_reads(here))) {
    return nullptr;
  }
  if (how.nulls != tensor_nulls::masked && (how.nulls != tensor_nulls::refuse || source.null_count() != 0)) {
    return nullptr;
  }
  const consumer to = consumer_of(how, target);
  const buffer values = row_values(source);
  const std::int64_t length = source.length();
  constexpr std::int64_t side_by_side = 1;
  tensor_owner owner(std::in_place_type<export_hold>, std::span(&values, 1), access::read);
  auto tensor = std::make_unique<exported_tensor<Managed>>(std::span(&length, 1), std::span(&side_by_side, 1),
                                                           std::move(owner));
  hand_over(source.ctx(), values, false, to); // last, so that later writers find the hold
  tensor->describe(reinterpret_cast<void*>(values.address()), target, to_tensor_type(source.type()),
                   flags_of(false));
  return owned_tensor<Managed>(tensor.release()->get());
}

template <class Managed>
owned_tensor<Managed> export_column(const column& source, const dlpack_export& how) {
  owned_tensor<Managed> plain = plain_tensor<Managed>(source, how);
  return plain != nullptr ? std::move(plain) : managed<Managed>(make_view(source, how));
}

/// The first column inside fixed-size lists and structs that has the values; for other types the column
/// itself.
const column& innermost(const column& source) {
  const column* column = &source;
  while (!column->children().empty() &&
         (column->type().id() == type_id::fixed_size_list || column->type().id() == type_id::struct_)) {
    column = &column->children().front();
  }
  return *column;
}

} // namespace

tensor_device dlpack_device(const column& source) {
  const column& numbers = innermost(source);
  const buffer_role role = numbers.type().buffer(1).role;
  const bool has_values = role == buffer_role::values || role == buffer_role::bits;
  const device_id device = source.ctx()->device();
  return to_tensor_device(device, has_values && numbers.values().present() ? numbers.values().kind()
                                                                           : own_kind(device));
}

tensor_device dlpack_device(const table& source) {
  const device_id device = source.ctx()->device();
  for (const batch& rows : source.batches()) {
    if (rows.rows != 0 && !rows.columns.empty()) {
      return dlpack_device(rows.columns.front());
    }
  }
  return to_tensor_device(device, own_kind(device));
}

dlpack_tensor export_dlpack(const column& source, const dlpack_export& how) {
  return export_column<DLManagedTensorVersioned>(source, how);
}

dlpack_legacy_tensor export_dlpack_legacy(const column& source, const dlpack_export& how) {
  return export_column<DLManagedTensor>(source, how);
}

dlpack_tensor export_dlpack(const table& source, const dlpack_export& how) {
  return managed<DLManagedTensorVersioned>(make_view(source, how));
}

dlpack_legacy_tensor export_dlpack_legacy(const table& source, const dlpack_export& how) {
  return managed<DLManagedTensor>(make_view(source, how));
}

dlpack_tensor allocate_dlpack(const std::shared_ptr<context>& ctx, tensor_type type,
                              std::span<const std::int64_t> shape) {
  require_argument(ctx, "ctx");
  std::uint64_t bytes = (std::uint64_t{type.bits} * type.lanes + 7) / 8;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      throw error(errc::format, concat("dlpack: shape of the prototype has a dimension of ", extent));
    }
    bytes = checked_mul(bytes, static_cast<std::uint64_t>(extent), "bytes of a tensor");
  }
  const buffer values = buffer::allocate(ctx, bytes, ctx->work_stream(), "dlpack allocation");
  tensor_owner owner(std::in_place_type<copy_hold>, values.owner());
  auto tensor = std::make_unique<exported_tensor<DLManagedTensorVersioned>>(
      shape, dense_strides({shape.begin(), shape.end()}, tensor_order::row), std::move(owner));
  tensor->describe(reinterpret_cast<void*>(bytes == 0 ? 0 : values.address()),
                   to_tensor_device(ctx->device(), values.kind()), type, 0);
  return dlpack_tensor(tensor.release()->get());
}

// Splits a column with offsets into two columns.

namespace {

/// A single offset of 0. An array without rows may have no offsets, but the result has one more than rows.
buffer make_zero_offset(const std::shared_ptr<context>& ctx, std::size_t width) {
  const stream_ref work = ctx->work_stream();
  buffer zero = buffer::allocate(ctx, width, work, "offsets");
  use_token token(work, {writes(zero)});
  ctx->copies().fill(token.span<std::byte>(zero).data(), 0, width, work);
  token.finish();
  return zero;
}

column numbers(const std::shared_ptr<context>& ctx, type_id id, std::int64_t offset, std::int64_t length,
               const buffer& values) {
  return column::make(ctx, {data_type(id), length, offset, 0, {{}, values}, {}, {}});
}

} // namespace

offset_parts offsets_and_values(const column& source) {
  const auto& ctx = source.ctx();
  const std::size_t width = source.type().offset_width();
  if (width == 0) {
    throw error(errc::exchange,
                concat("a column of type ", source.type().name(),
                       " has no offsets: only strings, binaries, lists and maps have them; use to_arrow"));
  }
  const type_id id = width == 4 ? type_id::int32 : type_id::int64;
  const std::int64_t count = checked_add(source.length(), std::int64_t{1}, "offsets of a column");
  const buffer& offsets = source.offsets();
  const bool none = source.length() == 0 && offsets.size() < width;
  column first = none ? numbers(ctx, id, 0, 1, make_zero_offset(ctx, width))
                      : numbers(ctx, id, source.length() == 0 ? 0 : source.offset(), count, offsets);
  if (!source.children().empty()) {
    return {std::move(first), source.children().front()};
  }
  const buffer& bytes = source.bytes();
  return {std::move(first), numbers(ctx, type_id::uint8, 0, static_cast<std::int64_t>(bytes.size()), bytes)};
}

} // namespace saeta
