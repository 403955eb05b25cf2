#include "values.hpp"

#include "gil.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstring>
#include <map>
#include <string_view>

namespace saeta::py {
namespace {

bool bit_at(std::span<const std::byte> bits, std::int64_t index) {
  const auto byte = static_cast<unsigned>(bits[static_cast<std::size_t>(index / 8)]);
  return ((byte >> static_cast<unsigned>(index % 8)) & 1U) != 0;
}

template <class Offset>
std::string_view variable_value(const host_array& from, std::int64_t row) {
  Offset bounds[2];
  std::memcpy(bounds, from.buffers[1].data() + static_cast<std::size_t>(row) * sizeof(Offset),
              sizeof(bounds));
  const auto* bytes = reinterpret_cast<const char*>(from.buffers[2].data());
  return {bytes + bounds[0], static_cast<std::size_t>(bounds[1] - bounds[0])};
}

std::string_view fixed_value(const host_array& from, std::int64_t row) {
  const auto width = static_cast<std::size_t>(from.type.byte_width());
  return {reinterpret_cast<const char*>(from.buffers[1].data()) + static_cast<std::size_t>(row) * width,
          width};
}

nb::object value_at(const host_array& from, std::int64_t index) {
  const std::int64_t row = from.offset + index;
  const layout_kind layout = from.type.layout();
  if (layout == layout_kind::none || (from.buffers[0].data() != nullptr && !bit_at(from.buffers[0], row))) {
    return nb::none();
  }
  if (layout == layout_kind::bits) {
    return nb::bool_(bit_at(from.buffers[1], row));
  }
  const std::string_view bytes = layout == layout_kind::offsets32   ? variable_value<std::int32_t>(from, row)
                                 : layout == layout_kind::offsets64 ? variable_value<std::int64_t>(from, row)
                                                                    : fixed_value(from, row);
  return nb::bytes(bytes.data(), bytes.size());
}

void append_plain(const column& piece, nb::list& result) {
  const host_batch rows = without_gil([&] {
    return download(piece.where(), batch{piece.length(), {piece}});
  });
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    result.append(value_at(rows.arrays[0], row));
  }
}

/// The same rows as a column of their indices.
column indices_of(const column& piece) {
  column::parts parts;
  parts.type = *piece.type().index_type();
  parts.length = piece.length();
  parts.offset = piece.offset();
  parts.null_count = piece.known_null_count();
  parts.buffers.assign(piece.buffers().begin(), piece.buffers().end());
  return column::make(piece.where(), std::move(parts));
}

/// Reads the indices first, then only the values that these rows name.
void append_dictionary(const column& piece, nb::list& result) {
  nb::list indices;
  append_plain(indices_of(piece), indices);
  std::map<std::int64_t, nb::object> known;
  for (const nb::handle raw : indices) {
    if (raw.is_none()) {
      result.append(nb::none());
      continue;
    }
    const auto bytes = nb::borrow<nb::bytes>(raw);
    std::int64_t index = 0; // an index is never negative, so its low bytes are its value
    std::memcpy(&index, bytes.c_str(), bytes.size());
    auto found = known.find(index);
    if (found == known.end()) {
      found = known.emplace(index, raw_values({piece.dictionary()->slice(index, 1)})[0]).first;
    }
    result.append(found->second);
  }
}

} // namespace

nb::list raw_values(const std::vector<column>& pieces) {
  nb::list result;
  for (const column& piece : pieces) {
    if (piece.length() == 0) {
      continue;
    }
    if (piece.type().id() == type_id::dictionary) {
      append_dictionary(piece, result);
    } else {
      append_plain(piece, result);
    }
  }
  return result;
}

} // namespace saeta::py
