#include "tensors.hpp"

namespace saeta::py {

dlpack_export asked(std::optional<std::int64_t> stream, std::optional<device_pair> device,
                    std::optional<bool> copy) {
  dlpack_export how;
  how.stream = stream;
  how.copy = policy_of(copy);
  if (device) {
    how.target = tensor_device{device->first, device->second};
  }
  return how;
}

dlpack_export chosen(std::optional<std::int64_t> stream, std::optional<device_pair> device,
                     std::optional<bool> copy, const std::string& nulls, tensor_fill fill, bool reinterpret,
                     bool codes, const std::string& order, const std::optional<data_type>& dtype) {
  dlpack_export how = asked(stream, device, copy);
  how.nulls = nulls == "nan"      ? tensor_nulls::nan
              : nulls == "fill"   ? tensor_nulls::fill
              : nulls == "masked" ? tensor_nulls::masked
              : nulls == "mask"   ? tensor_nulls::mask
                                  : tensor_nulls::refuse;
  how.fill = fill;
  how.reinterpret = reinterpret;
  how.codes = codes;
  how.order = order == "row"      ? tensor_order::row
              : order == "column" ? tensor_order::column
                                  : tensor_order::any;
  how.type = dtype;
  return how;
}

} // namespace saeta::py
