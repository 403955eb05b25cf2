#include "saeta/base/text.hpp"
#include "saeta/interop/dlpack/tensors.hpp"

#include <algorithm>
#include <limits>

namespace saeta {
namespace {

constexpr std::int32_t most_dimensions = 64;

std::span<const std::int64_t> checked_shape(const DLTensor& tensor) {
  if (tensor.ndim < 0) {
    throw error(errc::format, concat("dlpack: ndim is ", tensor.ndim));
  }
  if (tensor.ndim == 0) {
    throw error(errc::exchange, "dlpack: ndim is 0 and a column has rows: reshape the scalar to (1,)");
  }
  if (tensor.ndim > most_dimensions) { // NumPy's limit, checked before the shape is read
    throw error(errc::exchange, concat("dlpack: ndim is ", tensor.ndim, " and at most ", most_dimensions,
                                       " dimensions are supported"));
  }
  if (tensor.shape == nullptr) {
    throw error(errc::format, concat("dlpack: shape is null and ndim is ", tensor.ndim));
  }
  const std::span<const std::int64_t> shape(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) {
      throw error(errc::format, concat("dlpack: shape[", i, "] is ", shape[i]));
    }
  }
  return shape;
}

/// The bytes of all values. If one extent is 0, the result is 0, whatever the other extents are.
std::size_t checked_bytes(std::span<const std::int64_t> shape, std::size_t width) {
  std::size_t bytes = width;
  if (std::ranges::count(shape, 0) != 0) {
    return 0;
  }
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(static_cast<std::size_t>(extent), bytes, &bytes) ||
        bytes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())) {
      throw error(errc::format,
                  concat("dlpack: shape ", numbers_text(shape), " of values of ", width, " bytes overflows"));
    }
  }
  return bytes;
}

/// Finds where the values are, merges contiguous dimensions, and checks that the addresses exist.
class placement {
public:
  placement(const DLTensor& tensor, foreign_values& values)
      : tensor_(tensor), values_(values), width_(values.type->byte_width()) {}

  void place(tensor_layout wanted) {
    if (values_.bytes == 0) {
      return; // `data` may be anything then
    }
    if (tensor_.data == nullptr) {
      throw error(errc::format, concat("dlpack: data is null and shape is ", numbers_text(values_.shape)));
    }
    if (wanted == tensor_layout::columns) {
      add(0, stride_of(0));
      add(1, stride_of(1));
    } else {
      for (std::size_t i = values_.shape.size(); i-- > 0;) {
        add(i, stride_of(i));
      }
    }
    std::reverse(values_.found.extents, values_.found.extents + values_.found.dimensions);
    std::reverse(values_.found.strides, values_.found.strides + values_.found.dimensions);
    find_addresses();
  }

private:
  /// In bytes. If the tensor names no strides, they follow from its shape.
  std::int64_t stride_of(std::size_t dimension) {
    std::int64_t stride = width_;
    if (values_.strides.empty()) {
      for (std::size_t i = dimension + 1; i < values_.shape.size(); ++i) {
        stride *= values_.shape[i]; // at most the bytes of all values, so no overflow
      }
    } else if (__builtin_mul_overflow(values_.strides[dimension], width_, &stride) &&
               values_.shape[dimension] != 1) {
      refuse();
    }
    return stride;
  }

  /// Called for the fastest dimension first. A dimension with one element may have any stride.
  void add(std::size_t dimension, std::int64_t stride) {
    const std::int64_t extent = values_.shape[dimension];
    if (extent == 1) {
      return;
    }
    strided_values& values = values_.found;
    std::int64_t reach = 0; // bytes from the first to the last value
    if (__builtin_mul_overflow(stride, extent - 1, &reach)) {
      refuse();
    }
    const std::uint64_t distance =
        reach < 0 ? 0 - static_cast<std::uint64_t>(reach) : static_cast<std::uint64_t>(reach);
    std::uint64_t& sum = reach < 0 ? below_ : above_;
    if (__builtin_add_overflow(sum, distance, &sum)) {
      refuse();
    }
    std::int64_t side_by_side = 0;
    const int last = values.dimensions - 1;
    if (last >= 0 && !__builtin_mul_overflow(values.strides[last], values.extents[last], &side_by_side) &&
        side_by_side == stride) {
      values.extents[last] *= extent;
      return;
    }
    if (values.dimensions == strided_values::most_dimensions) {
      throw error(errc::exchange,
                  concat("dlpack: shape ", numbers_text(values_.shape), " with strides ",
                         numbers_text(values_.strides), " has more than ", strided_values::most_dimensions,
                         " dimensions that can't be merged: make it contiguous"));
    }
    values.extents[values.dimensions] = extent;
    values.strides[values.dimensions] = stride;
    ++values.dimensions;
  }

  void find_addresses() {
    constexpr auto greatest = static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max());
    const auto base = reinterpret_cast<std::uintptr_t>(tensor_.data);
    const auto width = static_cast<std::uint64_t>(width_);
    std::uintptr_t first = 0;
    std::uintptr_t end = 0;
    if (tensor_.byte_offset > greatest || __builtin_add_overflow(base, tensor_.byte_offset, &first) ||
        first < below_ || __builtin_add_overflow(first, above_, &end) ||
        __builtin_add_overflow(end, width, &end)) {
      refuse();
    }
    if (first % width != 0) {
      throw error(errc::format,
                  concat("dlpack: data ", tensor_.data, " with byte_offset ", tensor_.byte_offset,
                         " is not aligned to its values of ", width, " bytes"));
    }
    values_.first = static_cast<std::byte*>(tensor_.data) + tensor_.byte_offset;
    values_.lowest = values_.first - below_;
    values_.reach = below_ + above_ + width;
    values_.found.first = values_.first;
  }

  [[noreturn]] void refuse() const {
    throw error(errc::format, concat("dlpack: byte_offset ", tensor_.byte_offset, " and values of ", width_,
                                     " bytes of shape ", numbers_text(values_.shape), " with strides ",
                                     numbers_text(values_.strides), " from data ", tensor_.data,
                                     " leave the address space"));
  }

  const DLTensor& tensor_;
  foreign_values& values_;
  std::int64_t width_;
  std::uint64_t below_ = 0; ///< bytes from the lowest value to the first one
  std::uint64_t above_ = 0; ///< bytes from the first value to the highest one
};

} // namespace

std::string numbers_text(std::span<const std::int64_t> numbers) {
  std::string text = "(";
  for (const std::int64_t number : numbers) {
    text += concat(text.size() == 1 ? "" : ", ", number);
  }
  return text + ")";
}

foreign_values check_tensor(const DLTensor& tensor, mutability access, tensor_layout wanted) {
  foreign_values values;
  values.type = &from_tensor_type({tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes});
  values.shape = checked_shape(tensor);
  if (tensor.strides != nullptr) {
    values.strides = {tensor.strides, values.shape.size()};
  }
  if (wanted == tensor_layout::columns && values.shape.size() != 2) {
    throw error(errc::exchange,
                concat("dlpack: ndim is ", tensor.ndim, " and a table of columns has two dimensions"));
  }
  values.bytes = checked_bytes(values.shape, static_cast<std::size_t>(values.type->byte_width()));
  placement(tensor, values).place(wanted);
  values.device = {tensor.device.device_type, tensor.device.device_id};
  values.access = access;
  return values;
}

} // namespace saeta
