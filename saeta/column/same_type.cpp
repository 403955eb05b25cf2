#include "saeta/column/same_type.hpp"

#include <algorithm>

namespace saeta {
namespace {

bool same_field(const field& a, const field& b, bool check_names, bool check_metadata) {
  return (!check_names || a.name == b.name) && a.nullable == b.nullable &&
         (!check_metadata || a.metadata == b.metadata) && same_type(a.type, b.type, check_metadata);
}

bool same_fields(std::span<const field> a, std::span<const field> b, bool check_names, bool check_metadata) {
  return std::ranges::equal(
      a, b, [&](const field& x, const field& y) { return same_field(x, y, check_names, check_metadata); });
}

bool same_children(const data_type& a, const data_type& b, bool check_metadata) {
  if (a.id() != type_id::map) {
    return same_fields(a.children(), b.children(), check_metadata || a.has_named_children(), check_metadata);
  }
  const field& left = a.children()[0]; // the entries
  const field& right = b.children()[0];
  return left.nullable == right.nullable &&
         (!check_metadata || (left.name == right.name && left.metadata == right.metadata)) &&
         same_fields(left.type.children(), right.type.children(), check_metadata, check_metadata);
}

bool is_same_or_both_null(const data_type* a, const data_type* b, bool check_metadata) {
  return a == nullptr || same_type(*a, *b, check_metadata); // types of one id both have it, or neither
}

} // namespace

bool same_type(const data_type& a, const data_type& b, bool check_metadata) {
  return a.id() == b.id() && a.format() == b.format() && a.ordered() == b.ordered() &&
         a.keys_sorted() == b.keys_sorted() && a.is_byte_bool() == b.is_byte_bool() &&
         a.symbols() == b.symbols() && a.extension_name() == b.extension_name() &&
         a.extension_metadata() == b.extension_metadata() && same_children(a, b, check_metadata) &&
         is_same_or_both_null(a.index_type(), b.index_type(), check_metadata) &&
         is_same_or_both_null(a.value_type(), b.value_type(), check_metadata);
}

bool same_schema(const schema& a, const schema& b, bool check_metadata) {
  return same_fields(a.fields, b.fields, true, check_metadata) &&
         (!check_metadata || a.metadata == b.metadata);
}

} // namespace saeta
