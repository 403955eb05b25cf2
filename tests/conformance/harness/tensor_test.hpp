// A fixture for DLPack tests: makes columns of numbers, and reads tensors as a consumer does.
#pragma once

#include "conformance/harness/context_test.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "support/dlpack_tensors.hpp"

#include <cstring>
#include <numeric>
#include <span>

namespace saeta::conformance {

using versioned_tensor = support::held_tensor<DLManagedTensorVersioned>;

class tensor_test : public context_test {
protected:
  [[nodiscard]] buffer filled(const void* content, std::size_t size) const {
    const stream_ref work = ctx()->work_stream();
    buffer made = make(size);
    if (size != 0) {
      use_token token(work, {writes(made)});
      ctx()->copies().copy(token.span<std::uint8_t>(made).data(), content, size,
                           ctx()->on_host() ? copy_kind::host_to_host : copy_kind::host_to_device, work);
      token.finish();
      ctx()->synchronize(work);
    }
    return made;
  }
  template <class Value>
  [[nodiscard]] buffer filled(const std::vector<Value>& content) const {
    return filled(content.data(), content.size() * sizeof(Value));
  }
  /// Returns the numbers `first`, `first` + 1, ...
  template <class Value>
  [[nodiscard]] static std::vector<Value> counting(std::size_t count, int first = 0) {
    std::vector<Value> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<Value>(first + static_cast<int>(i));
    }
    return values;
  }
  template <class Value>
  [[nodiscard]] column numbers(type_id id, const std::vector<Value>& values, buffer validity = {}) const {
    return column::make(ctx(), {data_type(id),
                                static_cast<std::int64_t>(values.size()),
                                0,
                                column::unknown_nulls,
                                {std::move(validity), filled(values)},
                                {},
                                {}});
  }
  /// Makes a column of fixed-size lists with `size` values of the child.
  [[nodiscard]] column lists(std::int32_t size, const column& child, buffer validity = {}) const {
    const data_type type =
        data_type::nested("+w:" + std::to_string(size), {field{"item", child.type(), true, {}}});
    return column::make(
        ctx(), {type, child.length() / size, 0, column::unknown_nulls, {std::move(validity)}, {}, {child}});
  }
  [[nodiscard]] column structs(const std::vector<column>& fields, buffer validity = {}) const {
    std::vector<field> described;
    for (const column& each : fields) {
      described.push_back(field{"f" + std::to_string(described.size()), each.type(), true, {}});
    }
    return column::make(ctx(), {data_type::nested("+s", described),
                                fields.front().length(),
                                0,
                                column::unknown_nulls,
                                {std::move(validity)},
                                {},
                                fields});
  }
  /// Makes columns in one allocation that begin `spacing` values apart.
  template <class Value>
  [[nodiscard]] std::vector<column> spaced(type_id id, std::size_t count, std::size_t rows,
                                           std::size_t spacing) const {
    const buffer all = filled(counting<Value>(count * spacing));
    std::vector<column> made;
    for (std::size_t i = 0; i < count; ++i) {
      made.push_back(column::make(ctx(), {data_type(id),
                                          static_cast<std::int64_t>(rows),
                                          0,
                                          0,
                                          {{}, all.slice(i * spacing * sizeof(Value), rows * sizeof(Value))},
                                          {},
                                          {}}));
    }
    return made;
  }
  /// Returns options for an export to a consumer on the context's own stream.
  [[nodiscard]] dlpack_export here(copy_policy copy = copy_policy::when_needed) const {
    dlpack_export how;
    how.stream = dlpack_import_stream(*ctx());
    how.copy = copy;
    return how;
  }
  [[nodiscard]] static std::vector<std::int64_t> shape_of(const DLTensor& tensor) {
    return {tensor.shape, tensor.shape + tensor.ndim};
  }
  [[nodiscard]] static std::vector<std::int64_t> strides_of(const DLTensor& tensor) {
    return {tensor.strides, tensor.strides + tensor.ndim};
  }
  /// Returns the values of a tensor in row-major order, read on the context's own stream or on the host.
  template <class Value>
  [[nodiscard]] std::vector<Value> seen(const DLTensor& tensor) const {
    std::int64_t count = 1;
    std::int64_t last = 0;
    for (std::int32_t i = 0; i < tensor.ndim; ++i) {
      count *= tensor.shape[i];
      last += (tensor.shape[i] - 1) * tensor.strides[i];
    }
    std::vector<Value> values;
    if (count == 0) {
      return values;
    }
    EXPECT_EQ(tensor.dtype.bits, 8 * sizeof(Value));
    std::vector<Value> memory(static_cast<std::size_t>(last) + 1);
    if (tensor.device.device_type == kDLCPU) {
      std::memcpy(memory.data(), tensor.data, memory.size() * sizeof(Value));
    } else {
      const stream_handle work = ctx()->work_stream().native_handle();
      device().copy(memory.data(), tensor.data, memory.size() * sizeof(Value), to_host(), work);
      device().synchronize_stream(work);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t rest = i;
      std::int64_t place = 0;
      for (std::int32_t d = tensor.ndim - 1; d >= 0; --d) {
        place += rest % tensor.shape[d] * tensor.strides[d];
        rest /= tensor.shape[d];
      }
      values.push_back(memory[static_cast<std::size_t>(place)]);
    }
    return values;
  }
  template <class Source>
  static void expect_refused(const Source& source, const dlpack_export& how, errc code,
                             const std::string& text) {
    try {
      const versioned_tensor tensor(export_dlpack(source, how));
      ADD_FAILURE() << "accepted; expected: " << text;
    } catch (const error& e) {
      EXPECT_EQ(name_of(e.code()), name_of(code)) << e.message();
      EXPECT_NE(e.message().find(text), std::string::npos) << e.message();
    }
  }
};

} // namespace saeta::conformance
