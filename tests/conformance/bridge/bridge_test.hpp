// A fixture for a context under libarrow: the context's memory manager, builders for arrays of many types,
// and copies of bytes between the host and the device.
#pragma once

#include "conformance/harness/context_test.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bridge.hpp"

#include <arrow/api.h>
#include <arrow/c/abi.h>
#include <arrow/c/bridge.h>

#include <memory>
#include <string>
#include <vector>

namespace saeta::conformance {

class bridge_test : public context_test {
protected:
  using array_ptr = std::shared_ptr<arrow::Array>;
  using batch_ptr = std::shared_ptr<arrow::RecordBatch>;
  using buffer_ptr = std::shared_ptr<arrow::Buffer>;

  template <class T>
  static T take(arrow::Result<T> result) {
    return bridge::take(std::move(result), "test");
  }
  static void check(const arrow::Status& status) { bridge::check(status, "test"); }

  [[nodiscard]] std::shared_ptr<arrow::MemoryManager> manager() const { return memory_manager_of(ctx()); }
  [[nodiscard]] static std::shared_ptr<arrow::MemoryManager> cpu() {
    return arrow::default_cpu_memory_manager();
  }
  [[nodiscard]] arrow::DeviceMemoryMapper mapper() const {
    return [here = manager()](ArrowDeviceType type,
                              std::int64_t) -> arrow::Result<std::shared_ptr<arrow::MemoryManager>> {
      if (type == ARROW_DEVICE_CPU) {
        return cpu(); // arrays without buffers are also on the CPU
      }
      if (type != static_cast<ArrowDeviceType>(here->device()->device_type())) {
        return arrow::Status::Invalid("device type ", type);
      }
      return here;
    };
  }

  static std::string text(std::size_t bytes) {
    std::string made(bytes, ' ');
    for (std::size_t i = 0; i < bytes; ++i) {
      made[i] = static_cast<char>('a' + i % 23);
    }
    return made;
  }
  [[nodiscard]] buffer_ptr there(const std::string& bytes) const {
    return take(arrow::Buffer::Copy(arrow::Buffer::FromString(bytes), manager()));
  }
  static std::string here(const buffer_ptr& bytes) {
    return take(arrow::Buffer::Copy(bytes, cpu()))->ToString();
  }

  /// Appends a null for a null pointer, or an int as a value of the builder's type.
  template <class Builder, class Value>
  static void append(Builder& builder, const Value& value) {
    if constexpr (std::is_same_v<Value, std::nullptr_t>) {
      check(builder.AppendNull());
    } else if constexpr (std::is_same_v<Value, int>) {
      check(builder.Append(static_cast<decltype(builder.GetValue(0))>(value)));
    } else {
      check(builder.Append(value));
    }
  }

  template <class Builder, class... Values>
  static array_ptr array(Builder&& builder, const Values&... values) {
    (append(builder, values), ...);
    array_ptr made;
    check(builder.Finish(&made));
    return made;
  }

  /// Returns a batch of five rows with a column of each Arrow layout.
  static batch_ptr all_types() {
    using namespace arrow;
    const array_ptr ints = array(Int64Builder(), 1, nullptr, 3, 4, 5);
    const array_ptr strings = array(StringBuilder(), "one", nullptr, "", "a longer one", "five");
    const array_ptr views = array(StringViewBuilder(), "short", nullptr,
                                  "one that is longer than twelve bytes", "", "another long string view");
    const array_ptr offsets = array(Int32Builder(), 0, 1, 1, 3, 4, 5);
    const array_ptr tags = array(Int8Builder(), 0, 1, 0, 1, 0);
    const array_ptr dense = array(Int32Builder(), 0, 0, 1, 1, 2);
    Decimal128Builder decimals(decimal128(20, 2));
    std::vector<std::pair<std::string, array_ptr>> columns{
        {"ints", ints},
        {"plain", array(Int16Builder(), 1, 2, 3, 4, 5)},
        {"bools", array(BooleanBuilder(), true, nullptr, false, true, true)},
        {"doubles", array(DoubleBuilder(), 0.5, nullptr, 1.5, 2.5, 3.5)},
        {"strings", strings},
        {"large", array(LargeStringBuilder(), "x", "yy", nullptr, "zzz", "")},
        {"views", views},
        {"decimals", array(decimals, Decimal128(1), Decimal128(-2), nullptr, Decimal128(4), Decimal128(5))},
        {"nulls", std::make_shared<NullArray>(5)},
        {"lists", take(ListArray::FromArrays(*offsets, *strings))},
        {"dictionary",
         take(DictionaryArray::FromArrays(dictionary(int32(), utf8()),
                                          array(Int32Builder(), 4, nullptr, 0, 0, 3), strings))},
        {"structs", take(StructArray::Make({ints, strings}, std::vector<std::string>{"a", "b"}))},
        {"sparse", take(SparseUnionArray::Make(*tags, {ints, strings}))},
        {"dense", take(DenseUnionArray::Make(*tags, *dense, {ints, strings}))},
        {"fixed",
         take(FixedSizeListArray::FromArrays(array(Int8Builder(), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 2))},
    };
    FieldVector fields;
    ArrayVector arrays;
    for (auto& [name, values] : columns) {
      fields.push_back(field(name, values->type()));
      arrays.push_back(values);
    }
    return RecordBatch::Make(schema(fields), 5, arrays);
  }

  template <class Look>
  static void for_each_buffer(const arrow::ArrayData& of, const Look& look) {
    for (const buffer_ptr& each : of.buffers) {
      if (each != nullptr) {
        look(each);
      }
    }
    for (const auto& child : of.child_data) {
      for_each_buffer(*child, look);
    }
    if (of.dictionary != nullptr) {
      for_each_buffer(*of.dictionary, look);
    }
  }
  template <class Look>
  static void for_each_buffer(const arrow::RecordBatch& of, const Look& look) {
    for (const auto& column : of.column_data()) {
      for_each_buffer(*column, look);
    }
  }
  /// Copies a batch to host memory and checks that all values are valid.
  static batch_ptr on_cpu(const batch_ptr& of) {
    batch_ptr copied = take(of->CopyTo(cpu()));
    check(copied->ValidateFull());
    return copied;
  }
};

} // namespace saeta::conformance
