#include "saeta/transfer/makers.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"

#include <limits>

namespace saeta {
namespace {

void append_bit_to(std::vector<std::uint8_t>& bits, std::int64_t row, bool value) {
  if (row % 8 == 0) {
    bits.push_back(0);
  }
  bits.back() = static_cast<std::uint8_t>(bits.back() | (static_cast<unsigned>(value) << (row % 8)));
}

template <class T>
std::vector<T> offsets_of(std::span<const std::int64_t> ends) {
  std::vector<T> offsets{0};
  offsets.reserve(ends.size() + 1);
  for (const std::int64_t end : ends) {
    offsets.push_back(static_cast<T>(end));
  }
  return offsets;
}

} // namespace

void detail::row_list::append_validity(bool valid) {
  if (!valid && nulls_ == 0) { // all rows before are valid
    for (std::int64_t row = 0; row < length_; ++row) {
      append_bit_to(validity_, row, true);
    }
  }
  nulls_ += valid ? 0 : 1;
  if (nulls_ != 0) {
    append_bit_to(validity_, length_, valid);
  }
  ++length_;
}

void detail::row_list::append_bit(bool value) { append_bit_to(bits_, length_, value); }

void detail::row_list::append_text(std::string_view value) {
  if (!is_utf8(value)) {
    throw error(errc::format, concat("row ", length_, ": the text is not UTF-8: ", value));
  }
  text_.append(value);
  ends_.push_back(static_cast<std::int64_t>(text_.size()));
}

column detail::row_list::upload_to(const std::shared_ptr<context>& ctx, const data_type& type,
                                   std::span<const std::byte> values, std::string tag) const {
  require_argument(ctx, "ctx");
  host_array rows{type, length_, 0, nulls_, {std::as_bytes(std::span(validity_))}};
  std::vector<std::int32_t> offsets;
  std::vector<std::int64_t> large_offsets;
  if (type.layout() == layout_kind::bits) {
    rows.buffers.push_back(std::as_bytes(std::span(bits_)));
  } else if (type.layout() == layout_kind::fixed) {
    rows.buffers.push_back(values);
  } else {
    if (text_.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      rows.type = data_type(type_id::large_string);
      large_offsets = offsets_of<std::int64_t>(ends_);
      rows.buffers.push_back(std::as_bytes(std::span(large_offsets)));
    } else {
      offsets = offsets_of<std::int32_t>(ends_);
      rows.buffers.push_back(std::as_bytes(std::span(offsets)));
    }
    rows.buffers.push_back(std::as_bytes(std::span(text_)));
  }
  host_batch source;
  source.rows = length_;
  source.arrays.push_back(std::move(rows));
  dictionary_cache none;
  upload_options options;
  options.tag = std::move(tag);
  return upload(ctx, source, none, options).columns.front();
}

table make_table(std::shared_ptr<context> ctx, std::span<const std::pair<std::string, column>> columns) {
  schema fields;
  batch rows;
  for (const auto& [name, each] : columns) {
    if (each.length() != columns.front().second.length()) {
      throw error(errc::invalid_argument,
                  concat("column '", name, "' has ", each.length(), " rows, expected ",
                         columns.front().second.length(), " as column '", columns.front().first, "'"));
    }
    fields.fields.push_back({name, each.type(), each.known_null_count() != 0, {}});
    rows.rows = each.length();
    rows.columns.push_back(each);
  }
  return table::make(std::move(ctx), std::move(fields), {std::move(rows)});
}

} // namespace saeta
