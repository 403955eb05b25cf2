#include "saeta/column/same_type.hpp"

#include "saeta/base/text.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

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
  // Two types of one id both have the part, or neither has it.
  return a == nullptr || same_type(*a, *b, check_metadata);
}

/// Compares everything but children, indices and values.
bool same_kind(const data_type& a, const data_type& b) {
  return a.id() == b.id() && a.format() == b.format() && a.ordered() == b.ordered() &&
         a.keys_sorted() == b.keys_sorted() && a.is_byte_bool() == b.is_byte_bool() &&
         a.symbols() == b.symbols() && a.extension_name() == b.extension_name() &&
         a.extension_metadata() == b.extension_metadata();
}

bool is_null(const data_type& type) { return type.id() == type_id::null && type.extension_name().empty(); }

/// @param named  whether the names must be the same
std::optional<field> united_field(const field& first, const field& other, bool named) {
  auto type = named && first.name != other.name ? std::nullopt : united_type(first.type, other.type);
  if (!type) {
    return std::nullopt;
  }
  return field{first.name, *type, first.nullable || other.nullable, first.metadata};
}

std::optional<data_type> united_dictionary(const data_type& first, const data_type& other) {
  const auto values = united_type(*first.value_type(), *other.value_type());
  if (!values || *first.index_type() != *other.index_type()) {
    return std::nullopt;
  }
  return data_type::dictionary(*first.index_type(), *values, first.ordered());
}

using fields = std::vector<field>;

std::optional<fields> united_fields(std::span<const field> first, std::span<const field> other, bool named) {
  if (first.size() != other.size()) {
    return std::nullopt;
  }
  fields fields;
  for (std::size_t i = 0; i < first.size(); ++i) {
    auto together = united_field(first[i], other[i], named);
    if (!together) {
      return std::nullopt;
    }
    fields.push_back(*std::move(together));
  }
  return fields;
}

std::optional<fields> united_children(const data_type& first, const data_type& other) {
  if (first.id() != type_id::map) {
    return united_fields(first.children(), other.children(), first.has_named_children());
  }
  const field& entries = first.children()[0];
  auto below = united_fields(entries.type.children(), other.children()[0].type.children(), false);
  if (!below) {
    return std::nullopt;
  }
  const data_type rows = data_type::nested(entries.type.format(), *std::move(below));
  return fields{{entries.name, rows, entries.nullable, entries.metadata}};
}

std::optional<data_type> united_nested(const data_type& first, const data_type& other) {
  auto children = united_children(first, other);
  if (!children || children->empty()) {
    return std::nullopt;
  }
  return data_type::nested(first.format(), *std::move(children), first.keys_sorted());
}

std::string described(const field* of, const char* otherwise) {
  return of == nullptr ? otherwise
                       : concat("'", of->name, "' (", of->type.name(), of->nullable ? ")" : ", not null)");
}

[[noreturn]] void refuse(std::string_view name, std::size_t column, const field* has, const field* expected,
                         std::string_view expected_by) {
  throw error(errc::type_mismatch, concat(name, ": column ", column, " is ", described(has, "missing"),
                                          ", expected ", described(expected, "no such column"),
                                          expected_by.empty() ? "" : " as in ", expected_by));
}

const field* field_at(const schema& of, std::size_t place) {
  return place < of.fields.size() ? &of.fields[place] : nullptr;
}

} // namespace

bool same_type(const data_type& a, const data_type& b, bool check_metadata) {
  return same_kind(a, b) && same_children(a, b, check_metadata) &&
         is_same_or_both_null(a.index_type(), b.index_type(), check_metadata) &&
         is_same_or_both_null(a.value_type(), b.value_type(), check_metadata);
}

bool same_schema(const schema& a, const schema& b, bool check_metadata) {
  return same_fields(a.fields, b.fields, true, check_metadata) &&
         (!check_metadata || a.metadata == b.metadata);
}

std::optional<data_type> united_type(const data_type& first, const data_type& other) {
  if (first == other || is_null(other)) {
    return first;
  }
  if (is_null(first)) {
    return other;
  }
  if (!same_kind(first, other)) {
    return std::nullopt;
  }
  auto result =
      first.id() == type_id::dictionary ? united_dictionary(first, other) : united_nested(first, other);
  if (result && !first.extension_name().empty()) {
    return result->with_extension(first.extension_name(), first.extension_metadata());
  }
  return result;
}

schema united_schema(const schema& first, std::string_view first_name, const schema& other,
                     std::string_view other_name) {
  schema schema{{}, first.metadata};
  for (std::size_t i = 0; i < std::max(first.fields.size(), other.fields.size()); ++i) {
    const field* const expected = field_at(first, i);
    const field* const has = field_at(other, i);
    auto together =
        expected == nullptr || has == nullptr ? std::nullopt : united_field(*expected, *has, true);
    if (!together) {
      refuse(other_name, i, has, expected, first_name);
    }
    schema.fields.push_back(*std::move(together));
  }
  return schema;
}

void require_fits(const schema& given, std::string_view name, const schema& meant) {
  for (std::size_t i = 0; i < std::max(given.fields.size(), meant.fields.size()); ++i) {
    const field* const has = field_at(given, i);
    const field* const expected = field_at(meant, i);
    if (has == nullptr || expected == nullptr || united_field(*expected, *has, true) != *expected) {
      refuse(name, i, has, expected, {});
    }
  }
}

} // namespace saeta
