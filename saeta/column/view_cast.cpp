#include "saeta/column/view_cast.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/schema.hpp"

#include <algorithm>
#include <string_view>

namespace saeta {
namespace {

/// Whether values are signed integers, or times stored as such.
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
    return false; // a number may be missing in the table
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

} // namespace saeta
