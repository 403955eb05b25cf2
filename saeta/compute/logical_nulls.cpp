#include "saeta/compute/logical_nulls.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/compute/value_rows.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>

namespace saeta {
namespace {

bool refers_to_nulls(const column& source) {
  return source.length() != 0 && std::ranges::any_of(value_columns(source), [](const column& values) {
           return values.null_count() != 0 || refers_to_nulls(values);
         });
}

buffer no_valid_rows(const column& of) {
  const stream_ref work = of.ctx()->work_stream();
  buffer bits = buffer::allocate(of.ctx(), bitmap_bytes(of.length()), work, "nulls");
  use_token token(work, {writes(bits)});
  of.ctx()->copies().fill(token.mutable_data<std::uint8_t>(bits), 0, bits.size(), work);
  token.finish();
  return bits;
}

/// The validity of a column as a column of values of no bytes, so that columns of any type are pieces of one.
column validity_alone(const column& of) {
  static const data_type no_bytes = data_type::parse("w:0");
  if (of.type().id() == type_id::null && of.length() != 0) {
    return column::make(of.ctx(), {no_bytes, of.length(), 0, of.length(), {no_valid_rows(of), {}}, {}});
  }
  return column::make(of.ctx(),
                      {no_bytes, of.length(), of.offset(), of.known_null_count(), {of.validity(), {}}, {}});
}

} // namespace

column visible_nulls(const column& source) {
  if (!refers_to_nulls(source)) {
    return source;
  }
  std::vector<column> values = value_columns(source);
  std::ranges::transform(values, values.begin(),
                         [](const column& each) { return validity_alone(visible_nulls(each)); });
  return take(values, value_rows(source)).front();
}

std::int64_t logical_null_count(const column& source) { return visible_nulls(source).null_count(); }

column with_own_nulls(const column& dictionary) {
  if (!refers_to_nulls(dictionary)) {
    return dictionary;
  }
  const auto width = static_cast<std::size_t>(dictionary.type().byte_width());
  const buffer codes = dictionary.values().slice(static_cast<std::size_t>(dictionary.offset()) * width,
                                                 static_cast<std::size_t>(dictionary.length()) * width);
  return column::make(dictionary.ctx(),
                      {.type = dictionary.type(),
                       .length = dictionary.length(),
                       .buffers = {visible_nulls(dictionary).validity(), codes},
                       .dictionary = std::make_shared<const column>(*dictionary.dictionary())});
}

} // namespace saeta
