#include "saeta/interop/cuda_array_interface.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/interop/detail/own_memory.hpp"
#include "saeta/interop/dlpack.hpp"

#include <dlpack/dlpack.h>

#include <string_view>

namespace saeta {
namespace {

constexpr const char* label = "cuda_array_interface";

/// An array as the tensor that the import of DLPack takes.
struct tensor_of_array {
  DLManagedTensorVersioned tensor{};
  std::int64_t shape = 0;
  std::int64_t stride = 1;
  std::shared_ptr<void> owner;
};

void delete_tensor(DLManagedTensorVersioned* tensor) {
  delete static_cast<tensor_of_array*>(tensor->manager_ctx);
}

/// "<f4": byte order, kind and bytes.
DLDataType type_of(const std::string& text) {
  const auto refuse = [&](errc code, std::string_view why) {
    throw error(code, concat(label, ": typestr '", text, "' ", why));
  };
  if (text.size() < 3 || std::string_view("<>=|").find(text[0]) == std::string_view::npos) {
    refuse(errc::format, "is not a byte order, a kind and a number of bytes");
  }
  const std::string_view digits = std::string_view(text).substr(2);
  if (text[0] == '>' && digits != "1") {
    refuse(errc::exchange, "is big-endian, and columns are little-endian");
  }
  const std::uint8_t bits = digits == "1"   ? 8
                            : digits == "2" ? 16
                            : digits == "4" ? 32
                            : digits == "8" ? 64
                                            : 0;
  const auto code = text[1] == 'i'   ? kDLInt
                    : text[1] == 'u' ? kDLUInt
                    : text[1] == 'f' ? kDLFloat
                    : text[1] == 'b' ? kDLBool
                                     : kDLOpaqueHandle;
  if (bits == 0 || code == kDLOpaqueHandle) {
    refuse(errc::exchange, "has no column type: columns carry i, u, f and b of 1, 2, 4 or 8 bytes");
  }
  return {static_cast<std::uint8_t>(code), bits, 1};
}

std::int64_t length_of(const cuda_array& from) {
  if (from.version < 2) {
    throw error(errc::exchange, concat(label, ": version is ", from.version, ", expected 2 or newer"));
  }
  if (from.shape.size() != 1) {
    throw error(errc::exchange,
                concat(label, ": shape has ", from.shape.size(), " dimensions and a column has one"));
  }
  if (from.shape[0] < 0) {
    throw error(errc::format, concat(label, ": shape[0] is ", from.shape[0]));
  }
  return from.shape[0];
}

/// In elements.
std::int64_t stride_of(const cuda_array& from, std::int64_t width) {
  if (!from.strides) {
    return 1;
  }
  if (from.strides->size() != from.shape.size()) {
    throw error(errc::format, concat(label, ": strides has ", from.strides->size(), " entries and shape ",
                                     from.shape.size()));
  }
  const std::int64_t bytes = from.strides->front();
  if (bytes % width != 0) {
    throw error(errc::exchange,
                concat(label, ": strides[0] is ", bytes, " bytes, which is not a multiple of ", width,
                       ", the bytes of a value"));
  }
  return bytes / width;
}

/// What the import waits for, as `__dlpack__` would say it.
std::optional<std::int64_t> ready_of(const cuda_array& from) {
  constexpr std::int64_t nothing_pending = -1;
  return from.stream || from.version < 3 ? from.stream : nothing_pending;
}

column import_array(const std::shared_ptr<context>& home, const cuda_array& from, copy_policy copy) {
  const std::int64_t length = length_of(from);
  const DLDataType type = type_of(from.typestr);
  auto made = std::make_unique<tensor_of_array>();
  made->shape = length;
  made->stride = length > 1 ? stride_of(from, type.bits / 8) : 1;
  made->owner = from.owner;
  made->tensor.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  made->tensor.manager_ctx = made.get();
  made->tensor.deleter = delete_tensor;
  made->tensor.flags = from.read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  const device_id device = home->device();
  const tensor_device here = to_tensor_device(device, own_kind(device));
  made->tensor.dl_tensor = {reinterpret_cast<void*>(from.data),
                            {static_cast<DLDeviceType>(here.type), here.ordinal},
                            1,
                            type,
                            &made->shape,
                            &made->stride,
                            0};
  column taken = import_by_address(home, &made->tensor, {ready_of(from), copy});
  static_cast<void>(made.release()); // the column's now
  return taken;
}

column packed_mask(const std::shared_ptr<context>& home, const cuda_array& mask, std::int64_t rows,
                   copy_policy copy) {
  const std::int64_t length = length_of(mask);
  if (length != rows) {
    throw error(errc::format, concat(label, ": the mask has ", length, " elements and the array ", rows));
  }
  const DLDataType type = type_of(mask.typestr);
  if (type.bits != 8 || type.code == kDLFloat) {
    throw error(errc::exchange, concat(label, ": typestr of the mask is '", mask.typestr,
                                       "', expected bool or an integer of one byte"));
  }
  if (copy == copy_policy::never) {
    throw error(errc::exchange, concat(label, ": the mask has one byte a row and a validity one bit, "
                                              "and a copy was forbidden"));
  }
  return pack_bool(import_array(home, mask, copy_policy::when_needed));
}

} // namespace

column import_cuda_array(const std::shared_ptr<context>& home, const cuda_array& values,
                         const cuda_array* mask, copy_policy copy) {
  if (mask == nullptr) {
    return import_array(home, values, copy);
  }
  const column valid = packed_mask(home, *mask, length_of(values), copy);
  const column plain = import_array(home, values, copy);
  return column::make(home, {.type = plain.type(),
                             .length = plain.length(),
                             .null_count = column::unknown_nulls,
                             .buffers = {valid.values(), plain.values()},
                             .dictionary = {}});
}

cuda_array export_cuda_array(const column& source) {
  const tensor_type type = to_tensor_type(source.type());
  if (const std::int64_t nulls = source.null_count(); nulls != 0) {
    throw error(errc::exchange,
                concat(label, ": ", nulls, " of ", source.length(), " values of a ", source.type().name(),
                       " column are null, and consumers drop masks: use "
                       "DLPack with nulls='nan' (floats), fill=value or with_mask=True"));
  }
  const auto width = static_cast<std::uintptr_t>(source.type().byte_width());
  const auto& home = source.home();
  cuda_array made;
  made.shape = {source.length()};
  made.read_only = true;
  const char kind = type.code == kDLInt ? 'i' : type.code == kDLUInt ? 'u' : type.code == kDLBool ? 'b' : 'f';
  made.typestr = concat(width == 1 ? '|' : '<', kind, width);
  if (source.length() != 0) {
    made.data = source.values().address() + static_cast<std::uintptr_t>(source.offset()) * width;
  }
  // First the hold: whoever writes after the hand-over finds it.
  made.owner = std::make_shared<known_export>(std::span(&source.values(), 1));
  if (home->on_host()) {
    synchronize_handover(source.buffers());
  } else {
    order_handover(source.buffers(), home->work_stream());
    made.stream = dlpack_import_stream(*home);
  }
  return made;
}

} // namespace saeta
