#include "saeta/ipc/write/value_bits.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/util.h>
#include <arrow/compare.h>
#include <arrow/extension_type.h>
#include <arrow/type.h>

namespace saeta::ipc::detail {
namespace {

/// Returns the integer type of the same width for a floating-point type.
std::shared_ptr<arrow::DataType> as_integers(const std::shared_ptr<arrow::DataType>& type) {
  switch (type->id()) {
  case arrow::Type::EXTENSION:
    return as_integers(dynamic_cast<const arrow::ExtensionType&>(*type).storage_type());
  case arrow::Type::HALF_FLOAT:
    return arrow::uint16();
  case arrow::Type::FLOAT:
    return arrow::uint32();
  case arrow::Type::DOUBLE:
    return arrow::uint64();
  default:
    return type;
  }
}

std::shared_ptr<arrow::Array> as_bits(const arrow::Array& of) {
  auto made = of.data()->Copy();
  made->type = as_integers(of.type());
  return arrow::MakeArray(made);
}

} // namespace

bool same_bits(const arrow::Array& a, const arrow::Array& b, std::int64_t rows) {
  const auto strict = arrow::EqualOptions::Defaults().nans_equal(false).signed_zeros_equal(false);
  return a.length() >= rows && b.length() >= rows &&
         arrow::ArrayRangeEquals(*as_bits(a), *as_bits(b), 0, rows, 0, strict);
}

bool same_bits(const arrow::Array& a, const arrow::Array& b) {
  return a.length() == b.length() && same_bits(a, b, a.length());
}

} // namespace saeta::ipc::detail
