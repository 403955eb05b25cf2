#include "saeta/column/same_values.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/column/schema.hpp"

#include <utility>

namespace saeta {
namespace {

column::parts parts_of(const column& source) {
  column::parts made{.type = source.type(),
                     .length = source.length(),
                     .offset = source.offset(),
                     .null_count = source.known_null_count(),
                     .buffers = {source.buffers().begin(), source.buffers().end()}};
  made.children.assign(source.children().begin(), source.children().end());
  return made;
}

bool is_fixed_list(const column& of) { return of.type().mapping() == row_mapping::fixed_size; }

} // namespace

column relabel(const column& source, const data_type& type) {
  column::parts made = parts_of(source);
  if (is_fixed_list(source)) {
    made.children.front() = relabel(made.children.front(), type);
    field item = source.type().children().front();
    item.type = made.children.front().type();
    made.type = data_type::nested(source.type().format(), {std::move(item)});
    return column::make(source.ctx(), std::move(made));
  }
  if (type.byte_width() == 0 || source.type().byte_width() != type.byte_width()) {
    throw error(errc::type_mismatch, concat("a column of type ", source.type().name(), " has values of ",
                                            source.type().byte_width(), " bytes, those of type ", type.name(),
                                            " have ", type.byte_width()));
  }
  made.type = type;
  return column::make(source.ctx(), std::move(made));
}

column with_validity(const column& values, const column& valid) {
  column::parts made = parts_of(values);
  if (is_fixed_list(values) && is_fixed_list(valid)) {
    made.children.front() = with_validity(made.children.front(), valid.children().front());
  } else {
    made.null_count = column::unknown_nulls;
    made.buffers[0] = pack_bool(valid).values();
  }
  return column::make(values.ctx(), std::move(made));
}

} // namespace saeta
