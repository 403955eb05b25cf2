#include "saeta/interop/cuda_array/cuda_array_interface.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/interop/dlpack/abi.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/interop/dlpack/tensors.hpp"
#include "saeta/interop/own_memory.hpp"

#include <algorithm>
#include <string_view>

namespace saeta {
namespace {

constexpr const char* label = "cuda_array_interface";

/// An array as a tensor for the DLPack import.
struct tensor_of_array {
  DLManagedTensorVersioned tensor{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::shared_ptr<void> owner;
};

/// Parses a typestr such as "<f4": byte order, kind and number of bytes.
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
    refuse(errc::exchange, "has no column type: columns hold kinds i, u, f and b of 1, 2, 4 or 8 bytes");
  }
  return {static_cast<std::uint8_t>(code), bits, 1};
}

void require_shape(const cuda_array& from) {
  if (from.version < 2) {
    throw error(errc::exchange, concat(label, ": version is ", from.version, ", expected 2 or newer"));
  }
  if (from.shape.empty()) {
    throw error(errc::exchange,
                concat(label, ": shape has 0 dimensions, expected at least one, which counts rows"));
  }
  for (std::size_t i = 0; i < from.shape.size(); ++i) {
    if (from.shape[i] < 0) {
      throw error(errc::format, concat(label, ": shape[", i, "] is ", from.shape[i]));
    }
  }
  if (from.strides && from.strides->size() != from.shape.size()) {
    throw error(errc::format, concat(label, ": strides has ", from.strides->size(), " entries and shape ",
                                     from.shape.size()));
  }
}

/// Strides in elements; empty if they follow from the shape. For a dimension with one element the stride has
/// no meaning and is ignored.
std::vector<std::int64_t> strides_of(const cuda_array& from, std::int64_t width) {
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; from.strides && i < from.shape.size(); ++i) {
    const std::int64_t bytes = from.shape[i] > 1 ? (*from.strides)[i] : 0;
    if (bytes % width != 0) {
      throw error(errc::exchange,
                  concat(label, ": strides[", i, "] is ", bytes, " bytes, which is not a multiple of ", width,
                         ", the bytes of a value"));
    }
    values.push_back(bytes / width);
  }
  return values;
}

/// The stream that the import waits for, as a number of `__dlpack__`.
std::optional<std::int64_t> ready_of(const cuda_array& from) {
  constexpr std::int64_t nothing_pending = -1;
  return from.stream || from.version < 3 ? from.stream : nothing_pending;
}

column import_array(const std::shared_ptr<context>& ctx, const cuda_array& from, copy_policy copy) {
  require_shape(from);
  const DLDataType type = type_of(from.typestr);
  const auto array = std::make_shared<tensor_of_array>();
  array->shape = from.shape;
  array->strides = strides_of(from, type.bits / 8);
  array->owner = from.owner;
  array->tensor.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  array->tensor.flags = from.read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  const device_id device = ctx->device();
  const tensor_device here = to_tensor_device(device, own_kind(device));
  array->tensor.dl_tensor = {reinterpret_cast<void*>(from.data),
                             {static_cast<DLDeviceType>(here.type), here.ordinal},
                             static_cast<std::int32_t>(array->shape.size()),
                             type,
                             array->shape.data(),
                             array->strides.empty() ? nullptr : array->strides.data(),
                             0};
  return import_by_address(ctx, array->tensor, array, {ready_of(from), copy});
}

column mask_of(const std::shared_ptr<context>& ctx, const cuda_array& mask, std::int64_t rows,
               copy_policy copy) {
  require_shape(mask);
  if (mask.shape.size() != 1) {
    throw error(errc::exchange, concat(label, ": the mask has ", mask.shape.size(),
                                       " dimensions, expected 1: only whole rows can be null"));
  }
  if (mask.shape[0] != rows) {
    throw error(errc::format,
                concat(label, ": the mask has ", mask.shape[0], " elements and the array ", rows));
  }
  const DLDataType type = type_of(mask.typestr);
  if (type.bits != 8 || type.code == kDLFloat) {
    throw error(errc::exchange, concat(label, ": typestr of the mask is '", mask.typestr,
                                       "', expected bool or an integer of one byte"));
  }
  if (copy == copy_policy::never) {
    throw error(
        errc::exchange,
        concat(label,
               ": the mask has one byte per row and a validity buffer one bit, and a copy was forbidden"));
  }
  return import_array(ctx, mask, copy_policy::when_needed);
}

} // namespace

column import_cuda_array(const std::shared_ptr<context>& ctx, const cuda_array& values,
                         const cuda_array* mask, copy_policy copy) {
  require_argument(ctx, "ctx");
  if (mask == nullptr) {
    return import_array(ctx, values, copy);
  }
  require_shape(values);
  const column valid = mask_of(ctx, *mask, values.shape[0], copy);
  return with_validity(import_array(ctx, values, copy), valid);
}

cuda_array export_cuda_array(const column& source) {
  const tensor_numbers numbers = numbers_of_column(source, {});
  const tensor_type type = to_tensor_type(numbers.shown);
  if (narrow_float_of(numbers.shown) != nullptr) {
    throw error(errc::exchange,
                concat(label, ": type ", numbers.shown.name(), " has no typestr: use DLPack"));
  }
  if (const std::int64_t nulls = source.null_count(); nulls != 0) {
    throw error(errc::exchange,
                concat(label, ": ", nulls, " of ", source.length(), " values of ",
                       with_article(source.type().name()),
                       " column are null, and consumers drop masks: to_torch, to_cupy and the "
                       "like take ",
                       numbers.shown.is_floating() ? "nulls='nan', " : "", "fill=value or nulls='mask'"));
  }
  const std::optional<numbers_in_place> place = find_in_place(numbers, tensor_order::any);
  if (!place) {
    throw error(errc::exchange,
                concat(label, ": the values of ", with_article(source.type().name()),
                       " column are not one array in memory: use DLPack, which gathers them"));
  }
  const auto& ctx = source.ctx();
  const std::int64_t width = numbers.shown.byte_width();
  cuda_array array;
  array.shape = reorder(numbers.extents, numbers.order);
  array.read_only = true;
  const char kind = type.code == kDLInt ? 'i' : type.code == kDLUInt ? 'u' : type.code == kDLBool ? 'b' : 'f';
  array.typestr = concat(width == 1 ? '|' : '<', kind, width);
  const std::vector<std::int64_t> strides = reorder(place->strides, numbers.order);
  if (strides != dense_strides(array.shape, tensor_order::row)) {
    array.strides = strides;
    std::ranges::for_each(*array.strides, [&](std::int64_t& stride) { stride *= width; });
  }
  if (numbers.size() != 0) {
    array.data = place->first.address();
  }
  // The hold begins before the hand-over, so that later writers find it.
  const std::span shown(&place->first, 1);
  array.owner = std::make_shared<known_export>(shown);
  if (ctx->on_host()) {
    synchronize_handover(shown);
  } else {
    order_handover(shown, ctx->work_stream());
    array.stream = dlpack_import_stream(*ctx);
  }
  return array;
}

} // namespace saeta
