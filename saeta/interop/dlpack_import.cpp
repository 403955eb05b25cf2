#include "saeta/base/foreign_call.hpp"
#include "saeta/base/text.hpp"
#include "saeta/device/kernels.hpp"
#include "saeta/interop/dlpack.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/staging_ring.hpp"

#include <dlpack/dlpack.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace saeta {
namespace {

constexpr const char* imported_tag = "dlpack";

/// A tensor that was found to be sound: its values lie `stride` bytes apart from `first` on.
struct tensor_rows {
  data_type type;
  std::int64_t length = 0;
  std::byte* first = nullptr;
  std::int64_t stride = 0; ///< as wide as a value where they are contiguous
  std::size_t bytes = 0;   ///< of the values, side by side
  std::byte* lowest = nullptr;
  std::size_t reach = 0; ///< bytes from the lowest address to behind the highest value
  tensor_device device;
  mutability access = mutability::writable;

  [[nodiscard]] bool strided() const { return length > 1 && stride != type.byte_width(); }
};

/// What has to happen to the rows so that they can be a column of a context.
enum class way { view, copy, upload };

std::int64_t checked_length(const DLTensor& tensor) {
  if (tensor.ndim < 0) {
    throw error(errc::format, concat("dlpack: ndim is ", tensor.ndim));
  }
  if (tensor.ndim != 1) {
    throw error(errc::exchange,
                concat("dlpack: ndim is ", tensor.ndim, " and a column has one dimension",
                       tensor.ndim == 0 ? ": reshape the scalar to (1,)" : ": pass one column at a time"));
  }
  if (tensor.shape == nullptr) {
    throw error(errc::format, "dlpack: shape is null and ndim is 1");
  }
  const std::int64_t length = tensor.shape[0];
  if (length < 0) {
    throw error(errc::format, concat("dlpack: shape[0] is ", length));
  }
  return length;
}

std::size_t checked_bytes(std::int64_t length, std::size_t width) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(length), width, &bytes) ||
      bytes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())) {
    throw error(errc::format,
                concat("dlpack: shape[0] of ", length, " values of ", width, " bytes overflows"));
  }
  return bytes;
}

/// Finds where the values lie, `rows.bytes` of them, and that the addresses exist.
void place(const DLTensor& tensor, tensor_rows& rows) {
  if (rows.bytes == 0) {
    return; // producers put anything into `data`
  }
  if (tensor.data == nullptr) {
    throw error(errc::format, concat("dlpack: data is null and shape[0] is ", tensor.shape[0]));
  }
  const auto width = static_cast<std::int64_t>(rows.type.byte_width());
  // A single element is contiguous whatever its stride says.
  const std::int64_t step = tensor.strides == nullptr || rows.length == 1 ? 1 : tensor.strides[0];
  const auto base = reinterpret_cast<std::uintptr_t>(tensor.data);
  constexpr auto greatest = static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max());
  std::int64_t last = 0; // bytes from the first value to the last one
  bool outside = __builtin_mul_overflow(step, width, &rows.stride) ||
                 __builtin_mul_overflow(rows.stride, rows.length - 1, &last);
  const auto distance = last < 0 ? 0 - static_cast<std::uintptr_t>(last) : static_cast<std::uintptr_t>(last);
  std::uintptr_t first = 0;
  std::uintptr_t end = 0;
  outside =
      outside || tensor.byte_offset > greatest || __builtin_add_overflow(base, tensor.byte_offset, &first) ||
      (last < 0 && first < distance) ||
      __builtin_add_overflow(first, (last < 0 ? 0 : distance) + static_cast<std::uintptr_t>(width), &end);
  if (outside) {
    throw error(errc::format, concat("dlpack: byte_offset ", tensor.byte_offset, " and ", rows.length,
                                     " values of ", width, " bytes with strides[0] ", step, " from data ",
                                     tensor.data, " leave the address space"));
  }
  if (first % static_cast<std::uintptr_t>(width) != 0) {
    throw error(errc::format, concat("dlpack: data ", tensor.data, " with byte_offset ", tensor.byte_offset,
                                     " is not aligned to its values of ", width, " bytes"));
  }
  rows.first = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  rows.lowest = rows.first + std::min(last, std::int64_t{0});
  rows.reach = distance + static_cast<std::uintptr_t>(width);
}

tensor_rows check(const DLTensor& tensor, mutability access) {
  tensor_rows rows;
  rows.type = from_tensor_type({tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes});
  rows.length = checked_length(tensor);
  rows.bytes = checked_bytes(rows.length, static_cast<std::size_t>(rows.type.byte_width()));
  place(tensor, rows);
  rows.device = {tensor.device.device_type, tensor.device.device_id};
  rows.access = access;
  return rows;
}

/// Memory that the host can load is a view for a host context whatever page-locked or managed it, and so is managed
/// memory for the GPU. Ordinals count for GPUs only: the standard gives all other memory ordinal 0.
way way_into(const context& home, const tensor_rows& rows, copy_policy copy) {
  const tensor_device from = rows.device;
  const device_id here = home.device();
  const bool on_gpu = here.kind == device_kind::cuda;
  const std::optional<memory_kind> kind = kind_of(from);
  const bool readable = home.on_host() && kind && host_accessible(*kind);
  if (from == to_tensor_device(here, own_kind(here)) || (on_gpu && kind == memory_kind::managed) ||
      readable) {
    if (rows.strided() && copy == copy_policy::never) {
      throw error(errc::exchange,
                  concat("dlpack: strides[0] is ", rows.stride / rows.type.byte_width(), " elements over ",
                         rows.length, " rows and a column is contiguous, and a copy was forbidden"));
    }
    return rows.strided() || copy == copy_policy::always ? way::copy : way::view;
  }
  if (kind != memory_kind::host && !(on_gpu && kind == memory_kind::pinned)) {
    throw error(errc::exchange, concat("dlpack: a tensor on device type ", from.type, ", ordinal ",
                                       from.ordinal, " (", to_string(from), ") can't enter the context of ",
                                       to_string(here), ": use a context of the tensor's device"));
  }
  if (copy == copy_policy::never) {
    throw error(errc::exchange,
                concat("dlpack: the tensor is in host memory (", to_string(from), ") and the context on ",
                       to_string(here), ", and a copy was forbidden"));
  }
  return way::upload;
}

/// After the producer's work on the tensor.
point producer_point(context& home, tensor_device from, std::optional<std::int64_t> ready) {
  const auto named = ready ? tensor_stream(*ready) : std::nullopt;
  if (home.on_host()) {
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
    return mark(stream_ref(*home.device_backend(), *named));
  }
  if (ready) {
    return {};
  }
  const std::optional<point> all = home.clocks()->mark_device();
  if (!all) {
    throw error(errc::exchange,
                concat("dlpack: the producer's stream is unknown and a stream of ", to_string(home.device()),
                       " captures a graph, so its work can't be waited for: ", "pass the stream"));
  }
  return *all;
}

/// Calls the producer's deleter at the end of its life, once it has been armed: an import that fails leaves the tensor
/// with the caller.
template <class Managed>
class lender {
public:
  lender() = default;
  lender(const lender&) = delete;
  lender& operator=(const lender&) = delete;
  ~lender() {
    if (tensor_ != nullptr && tensor_->deleter != nullptr) {
      foreign_call([this] { tensor_->deleter(tensor_); });
    }
  }
  void arm(Managed* tensor) noexcept { tensor_ = tensor; }

private:
  Managed* tensor_ = nullptr;
};

/// Room for the bits of bools; absent for other types.
buffer scratch_for(const std::shared_ptr<context>& home, const tensor_rows& rows) {
  return rows.type.is_bool8() && rows.length != 0
             ? buffer::allocate(home, bitmap_bytes(rows.length), home->work_stream(), imported_tag)
             : buffer{};
}

/// Makes the bytes of bools 0 and 1, by way of `scratch`. A view keeps its bytes instead: bool8 takes any but 0 for true.
void make_canonical(const std::shared_ptr<context>& home, const buffer& bools, const buffer& scratch,
                    const tensor_rows& rows) {
  if (!scratch.present()) {
    return;
  }
  const stream_ref work = home->work_stream();
  use_token token(work, {updates(bools), writes(scratch)});
  auto* const bytes = token.mutable_data<std::uint8_t>(bools);
  auto* const bits = token.mutable_data<std::uint8_t>(scratch);
  home->kernels().pack_bool(work.native_handle(), bytes, rows.length, bits);
  home->kernels().unpack_bool(work.native_handle(), bits, 0, rows.length, bytes);
  token.finish();
}

/// `view` begins at the lowest address of the values. Everything is allocated before the first read of the view is queued:
/// a refusal leaves no work on memory that stays with the caller.
buffer copied(const std::shared_ptr<context>& home, const buffer& view, const tensor_rows& rows) {
  const stream_ref work = home->work_stream();
  buffer own = buffer::allocate(home, rows.bytes, work, imported_tag);
  const buffer scratch = scratch_for(home, rows);
  if (rows.strided()) {
    use_token token(work, {reads(view), writes(own)});
    const auto* const first = token.data<std::byte>(view) + (rows.first - rows.lowest);
    home->kernels().gather_strided(work.native_handle(), first, rows.stride, rows.type.byte_width(),
                                   rows.length, token.mutable_data<std::byte>(own));
    token.finish();
  } else if (rows.bytes != 0) {
    staging_ring::of(home)->copy(own, view, work);
  }
  make_canonical(home, own, scratch, rows);
  return own;
}

buffer uploaded(const std::shared_ptr<context>& home, const tensor_rows& rows, point ready) {
  if (rows.bytes == 0) {
    return buffer::allocate(home, 0, home->work_stream(), imported_tag);
  }
  point_set producer;
  producer.add(ready);
  home->synchronize(producer); // a GPU may still be writing page-locked memory
  // One value that stands for many rows travels once: its rows need more memory than the tensor has. Of other strided
  // tensors only the values travel.
  const bool repeated = rows.strided() && rows.stride == 0;
  const bool spread = rows.strided() && !repeated;
  std::vector<std::byte> gathered(spread ? rows.bytes : 0);
  if (spread) {
    reference_kernels().gather_strided({}, rows.first, rows.stride, rows.type.byte_width(), rows.length,
                                       gathered.data());
  }
  transfer_plan plan;
  const std::size_t bytes = repeated ? rows.reach : rows.bytes;
  const std::size_t number = plan.add({spread ? gathered.data() : rows.first, bytes});
  plan.finish();
  const buffer slab = staging_ring::of(home)->upload(home, plan, imported_tag);
  buffer values = slab.slice(plan.target_of(number), bytes);
  if (repeated) {
    return copied(home, values, rows);
  }
  make_canonical(home, values, scratch_for(home, rows), rows);
  return values;
}

template <class Managed>
column import_tensor(const std::shared_ptr<context>& home, Managed* source, mutability access,
                     const dlpack_import& how) {
  const tensor_rows rows = check(source->dl_tensor, access);
  const way taken = way_into(*home, rows, how.copy);
  const point ready = producer_point(*home, rows.device, how.ready);
  const auto keepalive = std::make_shared<lender<Managed>>();

  // A device's driver knows better than a producer: managed and page-locked memory is handed out as the device's, too.
  const std::optional<memory_kind> said = home->on_host() ? kind_of(rows.device) : std::nullopt;

  buffer values;
  if (taken == way::upload) {
    values = uploaded(home, rows, ready);
  } else {
    values = buffer::adopt(home, {.pointer = rows.lowest,
                                  .bytes = rows.reach,
                                  .device = home->device(),
                                  .kind = said,
                                  .keepalive = keepalive,
                                  .access = rows.access,
                                  .ready = ready,
                                  .tag = imported_tag});
    if (taken == way::copy) {
      values = copied(home, values, rows);
    }
  }
  column made = column::make(
      home,
      {.type = rows.type, .length = rows.length, .null_count = 0, .buffers = {{}, values}, .dictionary = {}});
  keepalive->arm(source);
  return made;
}

void require_tensor(const void* source) {
  if (source == nullptr) {
    throw error(errc::invalid_argument, "dlpack: the tensor is null");
  }
}

} // namespace

std::optional<std::int64_t> dlpack_import_stream(const context& home) {
  if (home.on_host()) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(home.work_stream().native_handle());
}

column import_dlpack(const std::shared_ptr<context>& home, DLManagedTensorVersioned* source,
                     const dlpack_import& how) {
  require_tensor(source);
  // Only the version and the deleter keep their place in another major version.
  if (source->version.major != DLPACK_MAJOR_VERSION) {
    throw error(errc::exchange,
                concat("dlpack: version is ", source->version.major, ".", source->version.minor,
                       " and only major version ", DLPACK_MAJOR_VERSION, " can be read"));
  }
  const bool read_only = (source->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  return import_tensor(home, source, read_only ? mutability::read_only : mutability::writable, how);
}

column import_dlpack(const std::shared_ptr<context>& home, DLManagedTensor* source,
                     const dlpack_import& how) {
  require_tensor(source);
  return import_tensor(home, source, mutability::writable, how);
}

} // namespace saeta
