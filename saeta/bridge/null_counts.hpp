// Null counts of arrays that were read from a message, which may state them wrongly.
#pragma once

#include <arrow/array/data.h>
#include <arrow/type.h>

namespace saeta::bridge {

/// Sets the null count of an array whose type has no validity: all rows of type null, and no others.
inline void set_nulls_of_type(arrow::ArrayData& of) {
  if (of.type->layout().buffers.front().kind != arrow::DataTypeLayout::BITMAP) {
    of.null_count = of.type->storage_id() == arrow::Type::NA ? of.length : 0;
  }
}

} // namespace saeta::bridge
