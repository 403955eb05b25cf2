#include "saeta/base/checked.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/interop/detail/tensor_values.hpp"
#include "saeta/interop/dlpack.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/transfer/staging_ring.hpp"

#include <dlpack/dlpack.h>

#include <new>
#include <string>

namespace saeta {
namespace {

/// What a consumer gets, whichever struct carries it.
struct tensor_view {
  void* data = nullptr;
  tensor_device device;
  tensor_type type;
  std::int64_t length = 0;
  bool copied = false;
  std::shared_ptr<void> owner; ///< dropped by the deleter
};

/// Keeps a copy that only the consumer knows. It is no export of ours, so it is not counted as one, but the consumer's
/// work is as unknown: the memory is released after all work of the device.
class copy_hold {
public:
  explicit copy_hold(std::shared_ptr<storage> bytes) : bytes_(std::move(bytes)) {
    if (bytes_) {
      bytes_->ordering().begin_export(access::write);
    }
  }
  copy_hold(const copy_hold&) = delete;
  copy_hold& operator=(const copy_hold&) = delete;
  ~copy_hold() {
    if (bytes_ && !bytes_->home()->inherited()) {
      bytes_->ordering().end_export(access::write);
    }
  }

private:
  std::shared_ptr<storage> bytes_;
};

std::size_t value_bytes(const column& source) {
  return checked_mul(static_cast<std::size_t>(source.length()),
                     static_cast<std::size_t>(source.type().byte_width()), "dlpack: bytes of the values");
}

/// The rows of the column, without what its buffer has before and after them.
buffer row_bytes(const column& source) {
  const std::size_t bytes = value_bytes(source);
  return bytes == 0 ? buffer{}
                    : source.values().slice(static_cast<std::size_t>(source.offset()) *
                                                static_cast<std::size_t>(source.type().byte_width()),
                                            bytes);
}

void require_no_nulls(const column& source) {
  const std::int64_t nulls = source.null_count();
  if (nulls != 0) {
    throw error(
        errc::exchange,
        concat("dlpack: ", nulls, " of ", source.length(), " values of a ", source.type().name(),
               " column are null, which a tensor can't say: choose nulls='nan' (floats), fill=value or "
               "with_mask=True, or use to_arrow"));
  }
}

constexpr tensor_device on_host{kDLCPU, 0};

/// True where the CPU can read what lies there.
bool host_reads(tensor_device here) {
  const std::optional<memory_kind> kind = kind_of(here);
  return kind && host_accessible(*kind);
}

/// Why the memory can't be handed out as it is; empty where it can.
std::string reason_to_copy(const column& source, tensor_device here, tensor_device target) {
  if (target != here && target != on_host) {
    throw error(errc::exchange,
                concat("dlpack: the column is on ", to_string(here), " and can't be exported to ",
                       to_string(target), ": only to its own device or to the host"));
  }
  if (target == on_host && !host_reads(here)) {
    return concat("the column is on ", to_string(here), " and the tensor is wanted on the host");
  }
  if (source.type().id() == type_id::boolean) {
    return "a boolean column keeps one bit a value and a tensor one byte";
  }
  return {};
}

/// Who waits for our work: the host, a stream of the consumer, or nobody, where no ordering is asked for.
struct consumer {
  bool on_cpu = false;
  std::optional<stream_handle> stream;
};

/// Checks the stream against the target. Whoever names none for page-locked memory takes it for memory of the CPU.
consumer consumer_of(const dlpack_export& how, tensor_device target) {
  const auto named = how.stream ? tensor_stream(*how.stream) : std::optional(legacy_stream);
  if (target == on_host && how.stream) {
    throw error(errc::exchange, concat("dlpack: stream ", *how.stream,
                                       " was given for a tensor on the host, which has no streams"));
  }
  if (target == on_host || (!how.stream && kind_of(target) == memory_kind::pinned)) {
    return {.on_cpu = true, .stream = std::nullopt};
  }
  return {.on_cpu = false, .stream = named};
}

column copied(const column& source) {
  const auto& home = source.home();
  const stream_ref work = home->work_stream();
  const buffer rows = row_bytes(source);
  buffer own = buffer::allocate(home, rows.size(), work, "dlpack copy");
  if (rows.size() != 0) {
    staging_ring::of(home)->copy(own, rows, work);
  }
  return column::make(home, {.type = source.type(),
                             .length = source.length(),
                             .null_count = 0,
                             .buffers = {{}, own},
                             .dictionary = {}});
}

tensor_view downloaded(const column& source) {
  const buffer rows = row_bytes(source);
  constexpr std::align_val_t alignment{host_alignment};
  void* const bytes = ::operator new(rows.size(), alignment, std::nothrow);
  if (bytes == nullptr) {
    throw error(errc::out_of_memory, concat("dlpack: no host memory for a copy of ", rows.size(), " bytes"));
  }
  tensor_view made;
  made.owner = std::shared_ptr<void>(bytes, [](void* p) { ::operator delete(p, alignment); });
  if (rows.size() != 0) {
    const download_range all{rows, static_cast<std::byte*>(bytes)};
    staging_ring::of(source.home())->download(std::span(&all, 1));
    made.data = bytes;
  }
  made.device = on_host;
  made.copied = true;
  return made;
}

tensor_view in_place(const column& source, bool copy) {
  const buffer rows = row_bytes(source);
  tensor_view made;
  made.copied = copy;
  if (copy) {
    made.owner = std::make_shared<copy_hold>(rows.owner());
  } else {
    made.owner = std::make_shared<export_hold>(source.buffers(), access::read);
  }
  made.data = reinterpret_cast<void*>(rows.address());
  return made;
}

void hand_over(const column& source, bool copy, const consumer& to) {
  const auto& home = source.home();
  if (to.on_cpu) {
    synchronize_handover(source.buffers());
  } else if (to.stream) {
    order_handover(source.buffers(), stream_ref(*home->device_backend(), *to.stream));
  } else if (copy) {
    // A consumer that orders for itself can't know the stream that we copied on.
    synchronize_handover(source.buffers());
  }
}

tensor_device device_of_copy(const column& values, const dlpack_export& how) {
  const tensor_device there = dlpack_device(values);
  if (how.target && *how.target != there) {
    throw error(errc::exchange,
                concat("dlpack: a copy is made on ", to_string(there), " and can't be exported to ",
                       to_string(*how.target), ": ask for the device of the column without one"));
  }
  return there;
}

/// The value for nulls, of a column that is shown as `shown`; nothing where they are not replaced.
std::optional<std::uint64_t> stand_in(const data_type& shown, const dlpack_export& how) {
  switch (how.nulls) {
  case tensor_nulls::nan:
    return nan_bits(shown);
  case tensor_nulls::fill:
    return value_bits(shown, how.fill);
  case tensor_nulls::refuse:
  case tensor_nulls::masked:
    break;
  }
  return std::nullopt;
}

/// True where nulls have to be replaced by `value`. @throws error exchange for nulls that nothing stands for.
bool replaces_nulls(const column& source, const std::optional<std::uint64_t>& value,
                    const dlpack_export& how) {
  if (how.nulls == tensor_nulls::masked) {
    return false;
  }
  if (!value) {
    require_no_nulls(source);
    return false;
  }
  const std::int64_t nulls = source.null_count();
  if (nulls != 0 && how.copy == copy_policy::never) {
    throw error(errc::exchange,
                concat("dlpack: ", nulls, " of ", source.length(), " values of a ", source.type().name(),
                       " column are null and to be replaced, and a copy was forbidden"));
  }
  return nulls != 0;
}

tensor_view make_view(const column& given, const dlpack_export& how) {
  const column source = numbers_of(given, how);
  const bool packed = source.type().id() == type_id::boolean;
  const data_type shown = packed ? data_type::bool8() : source.type();
  const tensor_type type = to_tensor_type(shown);
  const std::optional<std::uint64_t> value = stand_in(shown, how);
  const tensor_device here = dlpack_device(source);
  const tensor_device target = how.target.value_or(here);
  const consumer to = consumer_of(how, target);
  const std::string reason = reason_to_copy(source, here, target);
  if (!reason.empty() && how.copy == copy_policy::never) {
    throw error(errc::exchange, concat("dlpack: ", reason, ", and a copy was forbidden"));
  }
  const bool replaced = replaces_nulls(source, value, how);
  const bool converts = packed || replaced;
  const auto converted = [&] {
    const column bytes = packed ? unpack_bool(source) : source;
    return replaced ? fill_nulls(bytes, *value) : bytes;
  };

  const bool copy = converts || how.copy == copy_policy::always;
  // A copy is in the device's own memory.
  const bool download = target == on_host && (!host_reads(here) || (copy && !source.home()->on_host()));
  tensor_view made;
  if (download) {
    made = downloaded(converted());
  } else {
    const column values = copy && !converts ? copied(source) : converted();
    if (copy) { // first: the hold of a copy says that its consumer writes
      hand_over(values, copy, to);
      made = in_place(values, copy);
    } else { // last: whoever writes after the hand-over finds the hold
      made = in_place(values, copy);
      hand_over(values, copy, to);
    }
    made.device = copy && target != on_host ? device_of_copy(values, how) : target;
  }
  made.type = type;
  made.length = source.length();
  return made;
}

/// One of DLPack's structs with the arrays it points to.
template <class Managed>
struct exported_tensor {
  Managed tensor{};
  std::int64_t shape = 0;
  std::int64_t stride = 1;
  std::shared_ptr<void> owner;
};

template <class Managed>
void delete_tensor(Managed* tensor) noexcept {
  delete static_cast<exported_tensor<Managed>*>(tensor->manager_ctx);
}

template <class Managed>
std::unique_ptr<exported_tensor<Managed>> describe(const tensor_view& from) {
  auto made = std::make_unique<exported_tensor<Managed>>();
  made->shape = from.length;
  made->owner = from.owner;
  made->tensor.manager_ctx = made.get();
  made->tensor.deleter = delete_tensor<Managed>;
  DLTensor& tensor = made->tensor.dl_tensor;
  tensor.data = from.data;
  tensor.device = {static_cast<DLDeviceType>(from.device.type), from.device.ordinal};
  tensor.ndim = 1;
  tensor.dtype = {from.type.code, from.type.bits, from.type.lanes};
  tensor.shape = &made->shape;
  tensor.strides = &made->stride;
  return made;
}

} // namespace

tensor_device dlpack_device(const column& source) {
  const bool has_values =
      source.type().layout() == layout_kind::fixed || source.type().layout() == layout_kind::bits;
  const device_id device = source.home()->device();
  return to_tensor_device(device, has_values && source.values().present() ? source.values().kind()
                                                                          : own_kind(device));
}

DLManagedTensorVersioned* export_dlpack_versioned(const column& source, const dlpack_export& how) {
  const tensor_view view = make_view(source, how);
  const std::uint64_t flags = view.copied ? DLPACK_FLAG_BITMASK_IS_COPIED : DLPACK_FLAG_BITMASK_READ_ONLY;
  auto made = describe<DLManagedTensorVersioned>(view);
  made->tensor.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  made->tensor.flags = flags;
  return &made.release()->tensor;
}

DLManagedTensor* export_dlpack(const column& source, const dlpack_export& how) {
  return &describe<DLManagedTensor>(make_view(source, how)).release()->tensor;
}

} // namespace saeta
