#include "saeta/base/checked.hpp"
#include "saeta/base/foreign_call.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/device/kernels.hpp"
#include "saeta/interop/dlpack/abi.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/interop/dlpack/tensors.hpp"
#include "saeta/interop/own_memory.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "saeta/symbols/symbols.hpp"

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace saeta {
namespace {

constexpr const char* imported_tag = "dlpack";

/// How the rows become a column of a context.
enum class way { view, copy, upload };

/// A host context views all memory that the host can read, also page-locked and managed memory. A GPU's
/// context views managed memory. Ordinals count only for GPUs: the standard gives all other memory ordinal 0.
way choose_way(const context& ctx, const foreign_values& rows, bool needs_gather, copy_policy copy) {
  const tensor_device from = rows.device;
  const device_id here = ctx.device();
  const bool on_gpu = here.kind == device_kind::cuda;
  const std::optional<memory_kind> kind = kind_of(from);
  const bool readable = ctx.on_host() && kind && host_accessible(*kind);
  if (from == to_tensor_device(here, own_kind(here)) || (on_gpu && kind == memory_kind::managed) ||
      readable) {
    if (needs_gather && copy == copy_policy::never) {
      throw error(errc::exchange, concat("dlpack: strides ", numbers_text(rows.strides), " of shape ",
                                         numbers_text(rows.shape),
                                         " are not those of contiguous values, and a copy was forbidden"));
    }
    return needs_gather || copy == copy_policy::always ? way::copy : way::view;
  }
  if (kind != memory_kind::host && !(on_gpu && kind == memory_kind::pinned)) {
    throw error(errc::exchange,
                concat("dlpack: a tensor on device type ", from.type, ", ordinal ", from.ordinal, " (",
                       to_string(from), ") can't enter the context of ", to_string(here),
                       ": use a context of the tensor's device, and copy_to to move it"));
  }
  if (copy == copy_policy::never) {
    throw error(errc::exchange,
                concat("dlpack: the tensor is in host memory (", to_string(from), ") and the context on ",
                       to_string(here), ", and a copy was forbidden"));
  }
  return way::upload;
}

/// A point after the producer's work on the tensor.
point producer_point(context& ctx, tensor_device from, std::optional<std::int64_t> ready) {
  const auto named = ready ? tensor_stream(*ready) : std::nullopt;
  if (ctx.on_host()) {
    if (named) {
      throw error(errc::exchange, concat("dlpack: stream ", *ready,
                                         " was given for an import into the host, which has no streams"));
    }
    return {};
  }
  if (kind_of(from) == memory_kind::host) {
    return {}; // written by the CPU, before the producer handed it out
  }
  if (named) {
    return mark(stream_ref(*ctx.device_backend(), *named));
  }
  if (ready) {
    return {};
  }
  const std::optional<point> all = ctx.clocks()->mark_device();
  if (!all) {
    throw error(errc::exchange,
                concat("dlpack: the producer's stream is unknown and a stream of ", to_string(ctx.device()),
                       " captures a graph, so its work can't be waited for: ", "pass the stream"));
  }
  return *all;
}

/// Imports a tensor that it takes on success only. The deleter is called when the keepalive is dropped.
template <class Owner, class Import>
auto import_owned(Owner&& source, const Import& import) {
  const auto owner = std::make_shared<std::remove_reference_t<Owner>>();
  auto made = import(*source, owner);
  *owner = std::forward<Owner>(source);
  return made;
}

/// Allocates scratch memory for the bits of bools; absent for other types.
buffer scratch_for(const std::shared_ptr<context>& ctx, const foreign_values& rows) {
  return rows.type->is_bool8() && rows.bytes != 0
             ? buffer::allocate(ctx, bitmap_bytes(static_cast<std::int64_t>(rows.bytes)), ctx->work_stream(),
                                imported_tag)
             : buffer{};
}

/// Converts the bytes of bools to 0 and 1, through `scratch`. A view keeps its bytes: in bool8 any nonzero
/// byte is true.
void make_canonical(const std::shared_ptr<context>& ctx, const buffer& bools, const buffer& scratch,
                    const foreign_values& rows) {
  if (!scratch.present()) {
    return;
  }
  const stream_ref work = ctx->work_stream();
  use_token token(work, {updates(bools), writes(scratch)});
  auto* const bytes = token.span<std::uint8_t>(bools).data();
  auto* const bits = token.span<std::uint8_t>(scratch).data();
  const auto count = static_cast<std::int64_t>(rows.bytes);
  ctx->kernels().pack_bool(work.native_handle(), bytes, count, bits);
  ctx->kernels().unpack_bool(work.native_handle(), bits, 0, count, bytes);
  token.finish();
}

/// `view` begins at the lowest address of the values. Everything is allocated before the first read of the
/// view is queued. So a refused allocation leaves no work on memory that stays with the caller.
buffer copy_view(const std::shared_ptr<context>& ctx, const buffer& view, const foreign_values& rows) {
  const stream_ref work = ctx->work_stream();
  buffer own = buffer::allocate(ctx, rows.bytes, work, imported_tag);
  const buffer scratch = scratch_for(ctx, rows);
  if (rows.strided()) {
    use_token token(work, {reads(view), writes(own)});
    strided_values source = rows.found;
    source.first = token.span<const std::byte>(view).data() + (rows.first - rows.lowest);
    ctx->kernels().gather_strided(work.native_handle(), source, rows.type->byte_width(),
                                  token.span<std::byte>(own).data());
    token.finish();
  } else if (rows.bytes != 0) {
    staging_ring::of(ctx)->copy(own, view, work);
  }
  make_canonical(ctx, own, scratch, rows);
  return own;
}

buffer upload_rows(const std::shared_ptr<context>& ctx, const foreign_values& rows, point ready) {
  if (rows.bytes == 0) {
    return buffer::allocate(ctx, 0, ctx->work_stream(), imported_tag);
  }
  point_set producer;
  producer.add(ready);
  ctx->synchronize(producer); // a GPU may still be writing page-locked memory
  // If strides repeat values, the whole range of the tensor is smaller than its values, and each value is
  // sent once. For other strided tensors only the values are sent, without the gaps.
  const bool repeated = rows.strided() && rows.reach < rows.bytes;
  const bool spread = rows.strided() && !repeated;
  std::vector<std::byte> gathered(spread ? rows.bytes : 0);
  if (spread) {
    reference_kernels().gather_strided({}, rows.found, rows.type->byte_width(), gathered.data());
  }
  transfer_plan plan;
  const std::size_t bytes = repeated ? rows.reach : rows.bytes;
  const std::size_t number = plan.add({spread ? gathered.data() : rows.lowest, bytes});
  plan.finish();
  const buffer slab = staging_ring::of(ctx)->upload(ctx, plan, imported_tag);
  buffer values = slab.slice(plan.target_of(number), bytes);
  if (repeated) {
    return copy_view(ctx, values, rows);
  }
  make_canonical(ctx, values, scratch_for(ctx, rows), rows);
  return values;
}

/// The values in memory of the context: contiguous in the wanted order, or as they are in the tensor.
struct placed_values {
  buffer values;
  bool as_they_are = false; ///< with the tensor's strides, from its lowest address on
};

placed_values place_tensor(const std::shared_ptr<context>& ctx, const foreign_values& rows, bool needs_gather,
                           const std::shared_ptr<void>& keepalive, const std::shared_ptr<storage>& known,
                           const dlpack_import& how) {
  const way taken = choose_way(*ctx, rows, needs_gather, how.copy);
  const point ready = producer_point(*ctx, rows.device, how.ready);
  if (taken == way::upload) {
    return {upload_rows(ctx, rows, ready)};
  }
  if (const auto own = share_again(known, *ctx, rows.lowest, rows.reach, ready); own && rows.bytes != 0) {
    return taken == way::copy ? placed_values{copy_view(ctx, *own, rows)} : placed_values{*own, true};
  }
  // On a device the driver is asked for the kind: producers also export managed and page-locked memory as
  // kDLCUDA.
  const std::optional<memory_kind> said = ctx->on_host() ? kind_of(rows.device) : std::nullopt;
  const buffer view = buffer::adopt(ctx, {.pointer = rows.lowest,
                                          .bytes = rows.reach,
                                          .device = ctx->device(),
                                          .kind = said,
                                          .keepalive = keepalive,
                                          .access = rows.access,
                                          .ready = ready,
                                          .owner_orders_own_work = true,
                                          .tag = imported_tag});
  if (taken == way::copy) {
    return {copy_view(ctx, view, rows)};
  }
  return {view, true};
}

column column_of(const std::shared_ptr<context>& ctx, const data_type& type, std::int64_t length,
                 const buffer& values) {
  return column::make(
      ctx, {.type = type, .length = length, .null_count = 0, .buffers = {{}, values}, .dictionary = {}});
}

/// Each dimension after the first becomes a fixed-size list, so that every Arrow library reads the shape
/// without an extension type.
column lists_of(const std::shared_ptr<context>& ctx, std::span<const std::int64_t> shape, column values) {
  if (shape.size() > 1 && values.type().is_byte_bool()) {
    values = relabel_bool8(values, data_type::bool8()); // the type of one-byte bools inside another type
  }
  for (std::size_t i = shape.size(); i-- > 1;) {
    std::int64_t rows = 1;
    for (const std::int64_t extent : shape.first(i)) {
      rows = checked_mul(rows, extent, "rows of a tensor");
    }
    if (shape[i] > std::numeric_limits<std::int32_t>::max()) {
      throw error(errc::exchange, concat("dlpack: shape[", i, "] is ", shape[i],
                                         " and a fixed-size list has at most 2147483647 values"));
    }
    const data_type type =
        data_type::nested(concat("+w:", shape[i]), {field{"item", values.type(), true, {}}});
    column::parts parts;
    parts.type = type;
    parts.length = rows;
    parts.null_count = 0;
    parts.buffers.resize(1);
    parts.children = {std::move(values)};
    values = column::make(ctx, std::move(parts));
  }
  return values;
}

/// @param known  the storage of the tensor, if the memory is ours
column column_of_tensor(const std::shared_ptr<context>& ctx, const foreign_values& rows,
                        const std::shared_ptr<storage>& known, const std::shared_ptr<void>& keepalive,
                        const dlpack_import& how) {
  const placed_values placed = place_tensor(ctx, rows, rows.strided(), keepalive, known, how);
  const std::int64_t count = static_cast<std::int64_t>(rows.bytes) / rows.type->byte_width();
  return lists_of(ctx, rows.shape, column_of(ctx, *rows.type, count, placed.values));
}

void require_type(const field& wanted, const data_type& type, bool reinterpret) {
  if (wanted.type.is_symbol() && can_be_symbols(type)) {
    return;
  }
  const bool relabelled = reinterpret && wanted.type.is_integer() && type.is_integer() &&
                          wanted.type.byte_width() == type.byte_width() &&
                          wanted.type.extension_name().empty();
  if (!(wanted.type == type) && !relabelled) {
    throw error(errc::type_mismatch,
                concat("dlpack: the tensor is of type ", type.name(), " and column '", wanted.name, "' of ",
                       wanted.type.name(),
                       ": only integers of the same width can be reinterpreted, with reinterpret=True"));
  }
}

/// Converts numbers of a tensor to symbols, as the requested schema demands.
column symbols_of(const field& wanted, const column& numbers) {
  try {
    return as_symbols(std::span(&numbers, 1), wanted.type.symbols()).front();
  } catch (const error& why) {
    throw why.refusal() != nullptr
        ? why
        : error(why.code(), concat("dlpack: column '", wanted.name, "': ", why.message()));
  }
}

schema fields_of(const foreign_values& rows, const dlpack_table_import& how) {
  const auto count = static_cast<std::size_t>(rows.shape[1]);
  if (!how.fields) {
    schema schema;
    schema.fields.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      schema.fields.push_back(field{concat("col_", i), *rows.type, false, {}});
    }
    return schema;
  }
  if (how.fields->fields.size() != count) {
    throw error(errc::type_mismatch, concat("dlpack: the tensor has ", count, " columns and the schema ",
                                            how.fields->fields.size(), " fields"));
  }
  for (const field& field : how.fields->fields) {
    require_type(field, *rows.type, how.reinterpret);
  }
  return *how.fields;
}

table table_of_tensor(const std::shared_ptr<context>& ctx, const foreign_values& rows,
                      const std::shared_ptr<storage>& known, const std::shared_ptr<void>& keepalive,
                      const dlpack_table_import& how) {
  schema fields = fields_of(rows, how);
  const std::int64_t length = rows.shape[0];
  const auto width = static_cast<std::size_t>(rows.type->byte_width());
  const std::size_t column_bytes = rows.bytes == 0 ? 0 : static_cast<std::size_t>(length) * width;
  // Columns with contiguous rows are views, wherever the columns are.
  const strided_values& strided_values = rows.found;
  const bool by_columns =
      rows.bytes != 0 && // without bytes there are no dimensions
      (length <= 1 || strided_values.strides[strided_values.dimensions - 1] == rows.type->byte_width());
  const placed_values placed = place_tensor(ctx, rows, rows.bytes != 0 && !by_columns, keepalive, known, how);
  std::int64_t first = 0; // offset of column 0 in bytes
  std::int64_t step = static_cast<std::int64_t>(column_bytes);
  if (placed.as_they_are && rows.bytes != 0) {
    first = rows.first - rows.lowest;
    const bool apart = rows.shape[1] > 1 && !rows.strides.empty();
    step = (apart ? rows.strides[1] : 1) * rows.type->byte_width();
  }
  batch batch{length, {}};
  for (const field& field : fields.fields) {
    const buffer values =
        rows.bytes == 0 ? buffer{} : placed.values.slice(static_cast<std::size_t>(first), column_bytes);
    const bool symbols = field.type.is_symbol();
    column taken = column_of(ctx, symbols ? *rows.type : field.type, length, values);
    batch.columns.push_back(symbols ? symbols_of(field, taken) : std::move(taken));
    first += step;
  }
  return table::make(ctx, std::move(fields), {std::move(batch)});
}

} // namespace

std::optional<std::int64_t> dlpack_import_stream(const context& ctx) {
  if (ctx.on_host()) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(ctx.work_stream().native_handle());
}

namespace {

/// A struct of another major version has only the version and the deleter at the same place.
mutability checked_access(const DLManagedTensorVersioned& source) {
  if (source.version.major != DLPACK_MAJOR_VERSION) {
    throw error(errc::exchange, concat("dlpack: version is ", source.version.major, ".", source.version.minor,
                                       " and only major version ", DLPACK_MAJOR_VERSION, " can be read"));
  }
  const bool read_only = (source.flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  return read_only ? mutability::read_only : mutability::writable;
}

mutability checked_access(const DLManagedTensor& /*source*/) { return mutability::writable; }

template <class Managed>
foreign_values checked_values(const Managed& source, tensor_layout wanted) {
  return check_tensor(source.dl_tensor, checked_access(source), wanted);
}

template <class Managed>
column import_column(const std::shared_ptr<context>& ctx, const Managed& source,
                     const std::shared_ptr<void>& keepalive, const dlpack_import& how) {
  const foreign_values rows = checked_values(source, tensor_layout::rows);
  return column_of_tensor(ctx, rows, storage_of(source), keepalive, how);
}

template <class Managed>
table import_columns(const std::shared_ptr<context>& ctx, const Managed& source,
                     const std::shared_ptr<void>& keepalive, const dlpack_table_import& how) {
  const foreign_values rows = checked_values(source, tensor_layout::columns);
  return table_of_tensor(ctx, rows, storage_of(source), keepalive, how);
}

template <class Owner>
column take_column(const std::shared_ptr<context>& ctx, Owner&& source, const dlpack_import& how) {
  require_argument(ctx, "ctx");
  require_argument(source, "source");
  return import_owned(std::forward<Owner>(source), [&](const auto& tensor, const auto& owner) {
    return import_column(ctx, tensor, owner, how);
  });
}

template <class Owner>
table take_columns(const std::shared_ptr<context>& ctx, Owner&& source, const dlpack_table_import& how) {
  require_argument(ctx, "ctx");
  require_argument(source, "source");
  return import_owned(std::forward<Owner>(source), [&](const auto& tensor, const auto& owner) {
    return import_columns(ctx, tensor, owner, how);
  });
}

template <class Managed>
void call_deleter(Managed* tensor) noexcept {
  if (tensor->deleter != nullptr) {
    foreign_call([tensor] { tensor->deleter(tensor); });
  }
}

} // namespace

void dlpack_deleter::operator()(DLManagedTensorVersioned* tensor) const noexcept { call_deleter(tensor); }
void dlpack_deleter::operator()(DLManagedTensor* tensor) const noexcept { call_deleter(tensor); }

column import_dlpack(const std::shared_ptr<context>& ctx, dlpack_tensor&& source, const dlpack_import& how) {
  return take_column(ctx, std::move(source), how);
}

column import_dlpack(const std::shared_ptr<context>& ctx, dlpack_legacy_tensor&& source,
                     const dlpack_import& how) {
  return take_column(ctx, std::move(source), how);
}

column import_dlpack(const std::shared_ptr<context>& ctx, const DLManagedTensorVersioned& source,
                     const std::shared_ptr<void>& keepalive, const dlpack_import& how) {
  require_argument(ctx, "ctx");
  return import_column(ctx, source, keepalive, how);
}

column import_dlpack(const std::shared_ptr<context>& ctx, const DLManagedTensor& source,
                     const std::shared_ptr<void>& keepalive, const dlpack_import& how) {
  require_argument(ctx, "ctx");
  return import_column(ctx, source, keepalive, how);
}

table import_dlpack_columns(const std::shared_ptr<context>& ctx, dlpack_tensor&& source,
                            const dlpack_table_import& how) {
  return take_columns(ctx, std::move(source), how);
}

table import_dlpack_columns(const std::shared_ptr<context>& ctx, dlpack_legacy_tensor&& source,
                            const dlpack_table_import& how) {
  return take_columns(ctx, std::move(source), how);
}

table import_dlpack_columns(const std::shared_ptr<context>& ctx, const DLManagedTensorVersioned& source,
                            const std::shared_ptr<void>& keepalive, const dlpack_table_import& how) {
  require_argument(ctx, "ctx");
  return import_columns(ctx, source, keepalive, how);
}

table import_dlpack_columns(const std::shared_ptr<context>& ctx, const DLManagedTensor& source,
                            const std::shared_ptr<void>& keepalive, const dlpack_table_import& how) {
  require_argument(ctx, "ctx");
  return import_columns(ctx, source, keepalive, how);
}

column import_by_address(const std::shared_ptr<context>& ctx, const DLManagedTensorVersioned& source,
                         const std::shared_ptr<void>& keepalive, const dlpack_import& how) {
  require_argument(ctx, "ctx");
  const foreign_values rows = checked_values(source, tensor_layout::rows);
  return column_of_tensor(ctx, rows, find_known(rows.lowest, rows.reach), keepalive, how);
}

} // namespace saeta
