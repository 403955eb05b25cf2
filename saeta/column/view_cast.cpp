#include "saeta/column/view_cast.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/column/schema.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace saeta {
namespace {

/// Whether values are signed integers, or times that are stored as signed integers.
bool counts(const data_type& type) noexcept {
  return type.id() == type_id::int32 || type.id() == type_id::int64 || type.is_temporal();
}

/// At least one must be a plain integer: between two time types the cast would change the moment.
bool same_count(const data_type& from, const data_type& to) noexcept {
  const auto plain = [](const data_type& type) { return type.is_integer(); };
  if (!counts(from) || !counts(to) || from.byte_width() != to.byte_width()) {
    return false;
  }
  return plain(from) || plain(to);
}

/// "tsu:UTC" and "tsu:Europe/Paris" count the same moments; a timestamp without a zone does not.
bool same_moments(const data_type& from, const data_type& to) noexcept {
  constexpr std::size_t unit = 4; // "tsu:"
  const std::string_view a = from.format();
  const std::string_view b = to.format();
  return from.id() == type_id::timestamp && to.id() == type_id::timestamp &&
         a.substr(0, unit) == b.substr(0, unit) && (a.size() == unit) == (b.size() == unit);
}

bool text_as_bytes(type_id from, type_id to) noexcept {
  return (from == type_id::string && to == type_id::binary) ||
         (from == type_id::large_string && to == type_id::large_binary) ||
         (from == type_id::string_view && to == type_id::binary_view);
}

bool same_parts(const data_type& from, const data_type& to) noexcept {
  const auto fields = [](const field& a, const field& b) { return is_view_cast(a.type, b.type); };
  if (from.id() == type_id::dictionary) {
    return *from.index_type() == *to.index_type() && is_view_cast(*from.value_type(), *to.value_type());
  }
  return from.format() == to.format() && !from.children().empty() &&
         std::ranges::equal(from.children(), to.children(), fields);
}

} // namespace

bool is_view_cast(const data_type& from, const data_type& to) noexcept {
  if (from == to || (from.is_bool8() && to.is_bool8())) {
    return true;
  }
  if (to.is_symbol()) {
    return false; // a number may be missing in the symbol table, so the values need a check
  }
  if (!to.extension_name().empty() && to.extension_name() != from.extension_name()) {
    return false; // the values must already be of that extension
  }
  if (from.is_bool8() != to.is_bool8() && from.extension_name().empty()) {
    return false; // Arrow does not know byte_bool
  }
  if (from.id() == to.id() && from.children().empty() && from.id() != type_id::dictionary) {
    return from.format() == to.format() || same_moments(from, to);
  }
  return same_count(from, to) || text_as_bytes(from.id(), to.id()) ||
         (from.id() == to.id() && same_parts(from, to));
}

column retyped(const column& source, const data_type& to,
               const std::function<column(const column&, const data_type&)>& part) {
  column::parts parts;
  parts.type = to;
  parts.length = source.length();
  parts.offset = source.offset();
  parts.null_count = source.known_null_count();
  parts.buffers.assign(source.buffers().begin(), source.buffers().end());
  if (source.dictionary() != nullptr) {
    parts.dictionary = std::make_shared<const column>(part(*source.dictionary(), *to.value_type()));
  }
  for (std::size_t i = 0; i < source.children().size(); ++i) {
    parts.children.push_back(part(source.children()[i], to.children()[i].type));
  }
  return column::make(source.ctx(), std::move(parts));
}

column view_cast(const column& source, const data_type& to) {
  if (source.type() == to) {
    return source;
  }
  if (!is_view_cast(source.type(), to)) {
    throw error(errc::type_mismatch, concat("a column of ", source.type().name(), " can't be viewed as ",
                                            to.name(), ": its bytes would have to change"));
  }
  return retyped(source, to, view_cast);
}

namespace {

column::parts parts_of(const column& source) {
  column::parts parts{.type = source.type(),
                      .length = source.length(),
                      .offset = source.offset(),
                      .null_count = source.known_null_count(),
                      .buffers = {source.buffers().begin(), source.buffers().end()}};
  parts.children.assign(source.children().begin(), source.children().end());
  return parts;
}

bool is_fixed_list(const column& of) { return of.type().mapping() == row_mapping::fixed_size; }

} // namespace

column relabel(const column& source, const data_type& type) {
  column::parts parts = parts_of(source);
  if (is_fixed_list(source)) {
    parts.children.front() = relabel(parts.children.front(), type);
    field item = source.type().children().front();
    item.type = parts.children.front().type();
    parts.type = data_type::nested(source.type().format(), {std::move(item)});
    return column::make(source.ctx(), std::move(parts));
  }
  if (type.byte_width() == 0 || source.type().byte_width() != type.byte_width()) {
    throw error(errc::type_mismatch, concat("a column of type ", source.type().name(), " has values of ",
                                            source.type().byte_width(), " bytes, those of type ", type.name(),
                                            " have ", type.byte_width()));
  }
  parts.type = type;
  return column::make(source.ctx(), std::move(parts));
}

column with_validity(const column& values, const column& valid) {
  column::parts parts = parts_of(values);
  if (is_fixed_list(values) && is_fixed_list(valid)) {
    parts.children.front() = with_validity(parts.children.front(), valid.children().front());
  } else {
    parts.null_count = column::unknown_nulls;
    parts.buffers[0] = pack_bool(valid).values();
  }
  return column::make(values.ctx(), std::move(parts));
}

} // namespace saeta
