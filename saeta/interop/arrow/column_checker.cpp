#include "saeta/interop/arrow/column_checker.hpp"

#include "saeta/base/required.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/interop/arrow/device_memory.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/download.hpp"

#include <algorithm>

namespace saeta {
namespace {

bool may_refer_elsewhere(const column& of) {
  return of.type().check().has_value() || !of.type().children().empty();
}

} // namespace

void column_checker::check(std::span<const column> columns, std::span<const field> fields) {
  if (std::ranges::none_of(columns, may_refer_elsewhere)) {
    return; // plain values: a table may have thousands of such columns
  }
  storage_reads memory;
  for (const column& each : columns) {
    append_reads(each, memory);
  }
  use_token token(ctx_->work_stream(), memory.uses());
  const host_batch view = view_in_place({0, {columns.begin(), columns.end()}});
  const device_memory there(ctx_);
  check_values(view.arrays, fields, known_, ctx_->on_host() ? in_host_memory() : there,
               check_scope::every_row);
  token.finish();
}

void column_checker::check_dictionary(const std::shared_ptr<const column>& values, const field& described) {
  require_argument(values, "values");
  check(std::span(values.get(), 1), std::span(&described, 1));
  known_.remember(view_in_place({0, {*values}}).arrays.front(), values, nullptr);
}

} // namespace saeta
