#include "saeta/bridge/union_slack.hpp"

#include "saeta/bridge/arrow_status.hpp"

#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <cstring>
#include <vector>

namespace saeta::bridge {
namespace {

bool is_union(const arrow::ArrayData& array) {
  const arrow::Type::type id = array.type->storage_id(); // for extension types too
  return id == arrow::Type::SPARSE_UNION || id == arrow::Type::DENSE_UNION;
}

bool has_union(const arrow::ArrayData& array) {
  if (is_union(array)) {
    return true;
  }
  for (const auto& child : array.child_data) {
    if (has_union(*child)) {
      return true;
    }
  }
  return array.dictionary != nullptr && has_union(*array.dictionary);
}

/// Adds as many zeros as there are bytes. An offset is never larger.
std::shared_ptr<arrow::Buffer> with_slack(const std::shared_ptr<arrow::Buffer>& bytes) {
  if (bytes == nullptr || bytes->size() == 0) {
    return bytes;
  }
  const std::int64_t size = bytes->size();
  std::shared_ptr<arrow::Buffer> copy = take(arrow::AllocateBuffer(2 * size), "room behind a union");
  std::memcpy(copy->mutable_data(), bytes->data(), static_cast<std::size_t>(size));
  std::memset(copy->mutable_data() + size, 0, static_cast<std::size_t>(size));
  return arrow::SliceBuffer(copy, 0, size);
}

/// @param sliced  the offset may come from a parent: the offset of a struct, or the first value of a list.
std::shared_ptr<arrow::ArrayData> with_slack(const std::shared_ptr<arrow::ArrayData>& array, bool sliced) {
  if (!has_union(*array)) {
    return array;
  }
  auto made = std::make_shared<arrow::ArrayData>(*array);
  if (is_union(*array) && (sliced || array->offset != 0)) {
    for (auto& buffer : made->buffers) {
      buffer = with_slack(buffer);
    }
  }
  for (auto& child : made->child_data) {
    child = with_slack(child, true);
  }
  if (made->dictionary != nullptr) {
    made->dictionary = with_slack(made->dictionary, false);
  }
  return made;
}

} // namespace

std::shared_ptr<arrow::RecordBatch> with_union_slack(const std::shared_ptr<arrow::RecordBatch>& source) {
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  columns.reserve(static_cast<std::size_t>(source->num_columns()));
  bool changed = false;
  for (const auto& column : source->column_data()) {
    columns.push_back(with_slack(column, false));
    changed = changed || columns.back() != column;
  }
  return changed ? arrow::RecordBatch::Make(source->schema(), source->num_rows(), std::move(columns))
                 : source;
}

} // namespace saeta::bridge
