#include "saeta/interop/arrow/bools.hpp"

#include "saeta/column/bits.hpp"

namespace saeta {

data_type arrow_type(const data_type& type) {
  return type.is_byte_bool() ? data_type(type_id::boolean) : type;
}

column as_arrow(const column& source) { return source.type().is_byte_bool() ? pack_bool(source) : source; }

batch as_arrow(const batch& source) {
  batch shown{source.rows, {}};
  shown.columns.reserve(source.columns.size());
  for (const column& part : source.columns) {
    shown.columns.push_back(as_arrow(part));
  }
  return shown;
}

} // namespace saeta
