#include "values.hpp"

#include "gil.hpp"
#include "saeta/column/symbol_table.hpp"
#include "saeta/transfer/download.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

namespace saeta::py {
namespace {

bool bit_at(std::span<const std::byte> bits, std::int64_t index) {
  const auto byte = static_cast<unsigned>(bits[static_cast<std::size_t>(index / 8)]);
  return ((byte >> static_cast<unsigned>(index % 8)) & 1U) != 0;
}

/// Value `row` of a buffer of integers; indices are never so large that their sign would matter.
std::int64_t integer_at(const host_array& from, std::size_t buffer, std::int64_t row) {
  const auto width = static_cast<std::size_t>(from.type.buffer(buffer).width);
  std::int64_t value = 0;
  std::memcpy(&value, from.buffers[buffer].data() + static_cast<std::size_t>(row) * width, width);
  return value;
}

nb::object bytes_at(std::span<const std::byte> from, std::size_t first, std::size_t count) {
  return nb::bytes(reinterpret_cast<const char*>(from.data()) + first, count);
}

/// A view of 16 bytes: a size, then up to 12 bytes, or 4 bytes, the number of a buffer, and an offset in it.
nb::object viewed_value(const host_array& from, std::int64_t row) {
  std::int32_t view[4];
  const auto place = static_cast<std::size_t>(row) * sizeof view;
  std::memcpy(view, from.buffers[1].data() + place, sizeof view);
  const auto size = static_cast<std::size_t>(view[0]);
  return size <= 12 ? bytes_at(from.buffers[1], place + sizeof(std::int32_t), size)
                    : bytes_at(from.buffers[2 + static_cast<std::size_t>(view[2])],
                               static_cast<std::size_t>(view[3]), size);
}

nb::object value_at(const host_array& from, std::int64_t index);

nb::object values_of(const host_array& child, std::int64_t first, std::int64_t count) {
  nb::list values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.append(value_at(child, first + i));
  }
  return values;
}

/// The number of the child and its value.
nb::object union_value(const host_array& from, std::int64_t row) {
  const auto codes = from.type.type_codes();
  const auto child =
      static_cast<std::size_t>(std::ranges::find(codes, integer_at(from, 0, row)) - codes.begin());
  const bool dense = from.type.layout() == layout_kind::dense_union;
  return nb::make_tuple(child, value_at(from.children[child], dense ? integer_at(from, 1, row) : row));
}

nb::object run_value(const host_array& from, std::int64_t row) {
  const host_array& ends = from.children[0];
  std::int64_t run = 0;
  for (std::int64_t behind = ends.length; run < behind;) {
    const std::int64_t middle = run + (behind - run) / 2;
    if (integer_at(ends, 1, ends.offset + middle) > row) {
      behind = middle;
    } else {
      run = middle + 1;
    }
  }
  return value_at(from.children[1], run);
}

/// What raw_values gives for a row that is not null; `row` counts from the beginning of the buffers.
nb::object valid_value(const host_array& from, std::int64_t row) {
  switch (from.type.layout()) {
  case layout_kind::bits:
    return nb::bool_(bit_at(from.buffers[1], row));
  case layout_kind::fixed: {
    if (from.dictionary != nullptr) {
      return value_at(*from.dictionary, integer_at(from, 1, row));
    }
    if (from.type.is_symbol()) {
      const auto number = static_cast<symbol>(integer_at(from, 1, row));
      const auto name = from.type.symbols()->lookup(number);
      return name ? nb::object(nb::bytes(name->data(), name->size())) : nb::object(nb::int_(number));
    }
    const auto width = static_cast<std::size_t>(from.type.byte_width());
    return bytes_at(from.buffers[1], static_cast<std::size_t>(row) * width, width);
  }
  case layout_kind::bytes: {
    const std::int64_t first = integer_at(from, 1, row);
    return bytes_at(from.buffers[2], static_cast<std::size_t>(first),
                    static_cast<std::size_t>(integer_at(from, 1, row + 1) - first));
  }
  case layout_kind::views:
    return viewed_value(from, row);
  case layout_kind::list: {
    const std::int64_t first = integer_at(from, 1, row);
    return values_of(from.children[0], first, integer_at(from, 1, row + 1) - first);
  }
  case layout_kind::list_view:
    return values_of(from.children[0], integer_at(from, 1, row), integer_at(from, 2, row));
  case layout_kind::fixed_list:
    return values_of(from.children[0], row * from.type.list_size(), from.type.list_size());
  case layout_kind::structure: {
    nb::list values;
    for (const host_array& child : from.children) {
      values.append(value_at(child, row));
    }
    return values;
  }
  case layout_kind::dense_union:
  case layout_kind::sparse_union:
    return union_value(from, row);
  case layout_kind::run_ends:
    return run_value(from, row);
  case layout_kind::none:
    break;
  }
  return nb::none();
}

nb::object value_at(const host_array& from, std::int64_t index) {
  const std::int64_t row = from.offset + index;
  const bool has_validity = from.type.has_validity() && from.buffers[0].data() != nullptr;
  return has_validity && !bit_at(from.buffers[0], row) ? nb::none() : valid_value(from, row);
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
