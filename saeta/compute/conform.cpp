#include "saeta/compute/conform.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/column/same_type.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace saeta {
namespace {

/// The same rows of the same memory, whose types fit.
column described(const column& source, const data_type& to) {
  if (source.type() == to) {
    return source;
  }
  if (source.type().id() == type_id::null) {
    return nulls(source.ctx(), to, source.length());
  }
  return retyped(source, to, described);
}

} // namespace

column nulls(const std::shared_ptr<context>& ctx, const data_type& type, std::int64_t rows) {
  const column none = column::empty(ctx, type);
  if (rows == 0 || type.id() == type_id::null) {
    return rows == 0 ? none : column::make(ctx, {type, rows, 0, rows, {}, {}});
  }
  selected_rows chosen = allocate_rows(ctx, rows);
  chosen.nullable = true;
  use_token token(ctx->work_stream(), {writes(chosen.memory)});
  ctx->copies().fill(token.mutable_data<std::byte>(chosen.memory), 0xff, chosen.memory.size(),
                     token.stream()); // no_row
  token.finish();
  const std::vector<column> made = take(std::span(&none, 1), chosen);
  if (made.size() != 1) {
    throw error(errc::overflow, concat(rows, " nulls of type ", type.name(), " do not fit into one column"));
  }
  return made.front();
}

column conform(const column& source, const data_type& to) {
  if (source.type() == to) {
    return source;
  }
  if (united_type(to, source.type()) != to) {
    throw error(errc::type_mismatch,
                concat("a column of ", source.type().name(), " is not one of ", to.name()));
  }
  return described(source, to);
}

batch conform(batch source, const schema& fields) {
  for (std::size_t i = 0; i < source.columns.size(); ++i) {
    source.columns[i] = conform(source.columns[i], fields.fields[i].type);
  }
  return source;
}

table conform(const table& source, std::shared_ptr<const schema_index> fields) {
  if (source.shared_fields() == fields) {
    return source;
  }
  if (fields->fields().fields.size() != source.column_count()) {
    throw error(errc::invalid_argument, concat("a schema of ", fields->fields().fields.size(), " fields for ",
                                               source.column_count(), " columns"));
  }
  std::vector<batch> made;
  for (const batch& each : source.batches()) {
    made.push_back(conform(each, fields->fields()));
  }
  return table::make_sharing(source.ctx(), std::move(fields), std::move(made));
}

} // namespace saeta
