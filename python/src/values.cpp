#include "values.hpp"

#include "gil.hpp"
#include "saeta/transfer/download.hpp"

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

/// The same rows of a dictionary column as a column of their indices.
column indices_of(const column& source) {
  column::parts parts;
  parts.type = *source.type().index_type();
  parts.length = source.length();
  parts.offset = source.offset();
  parts.null_count = source.known_null_count();
  parts.buffers.assign(source.buffers().begin(), source.buffers().end());
  return column::make(source.home(), std::move(parts));
}

/// The index in the bytes of one; never negative, so its low bytes are its value.
std::int64_t index_in(nb::handle raw) {
  const auto bytes = nb::borrow<nb::bytes>(raw);
  std::int64_t index = 0;
  std::memcpy(&index, bytes.c_str(), bytes.size());
  return index;
}

/// Values for indices: only those that the rows name are read, all in one transfer.
nb::list looked_up(const column& dictionary, const nb::list& indices) {
  std::map<std::int64_t, std::size_t> places;
  batch named{1, {}};
  for (const nb::handle raw : indices) {
    if (!raw.is_none() && places.emplace(index_in(raw), named.columns.size()).second) {
      named.columns.push_back(dictionary.slice(index_in(raw), 1));
    }
  }
  const std::vector<nb::list> values = raw_values(dictionary.home(), named);
  nb::list result;
  for (const nb::handle raw : indices) {
    result.append(raw.is_none() ? nb::none() : nb::object(values[places[index_in(raw)]][0]));
  }
  return result;
}

} // namespace

std::vector<nb::list> raw_values(const std::shared_ptr<context>& home, const batch& rows) {
  batch plain{rows.rows, {}};
  for (const column& each : rows.columns) {
    plain.columns.push_back(each.dictionary() != nullptr ? indices_of(each) : each);
  }
  std::vector<nb::list> result(rows.columns.size());
  if (rows.rows == 0 || rows.columns.empty()) {
    return result;
  }
  const host_batch on_host = without_gil([&] { return download(home, plain); });
  for (std::size_t i = 0; i < result.size(); ++i) {
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      result[i].append(value_at(on_host.arrays[i], row));
    }
    if (const column* dictionary = rows.columns[i].dictionary()) {
      result[i] = looked_up(*dictionary, result[i]);
    }
  }
  return result;
}

} // namespace saeta::py
