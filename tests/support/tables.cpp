#include "support/tables.hpp"

#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/transfer/download.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace saeta::support {
namespace {

bool bit_of(std::span<const std::byte> bits, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  return (std::to_integer<unsigned>(bits[at / 8]) >> (at % 8) & 1U) != 0;
}

template <class T>
T number_at(std::span<const std::byte> values, std::int64_t index) {
  T value;
  std::memcpy(&value, values.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

std::string text(std::span<const std::byte> bytes, std::size_t offset, std::size_t count) {
  return count == 0 ? std::string()
                    : std::string(reinterpret_cast<const char*>(bytes.data()) + offset, count);
}

template <class T>
std::string string_at(const host_array& from, std::int64_t row) {
  const T first = number_at<T>(from.buffers[1], row);
  const T last = number_at<T>(from.buffers[1], row + 1);
  return text(from.buffers[2], static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
}

std::int64_t index_at(const host_array& from, std::int64_t row) {
  switch (from.type.byte_width()) {
  case 1:
    return from.type.is_signed() ? number_at<std::int8_t>(from.buffers[1], row)
                                 : std::int64_t{number_at<std::uint8_t>(from.buffers[1], row)};
  case 2:
    return from.type.is_signed() ? number_at<std::int16_t>(from.buffers[1], row)
                                 : std::int64_t{number_at<std::uint16_t>(from.buffers[1], row)};
  case 4:
    return from.type.is_signed() ? number_at<std::int32_t>(from.buffers[1], row)
                                 : std::int64_t{number_at<std::uint32_t>(from.buffers[1], row)};
  default:
    return number_at<std::int64_t>(from.buffers[1], row);
  }
}

cell cell_at(const host_array& from, std::int64_t row);

/// Encodes rows [first, first + count) of a child so that different lists give different strings.
std::string cells_of(const host_array& child, std::int64_t first, std::int64_t count) {
  std::string all;
  for (std::int64_t i = 0; i < count; ++i) {
    const cell one = cell_at(child, child.offset + first + i);
    all += one ? concat(one->size(), ":", *one) : "null";
  }
  return all;
}

/// Reads value `row` of a buffer of signed integers.
std::int64_t integer_at(const host_array& from, std::size_t buffer, std::int64_t row) {
  const std::int32_t width = from.type.buffer(buffer).width;
  return width == 1   ? std::int64_t{number_at<std::int8_t>(from.buffers[buffer], row)}
         : width == 2 ? std::int64_t{number_at<std::int16_t>(from.buffers[buffer], row)}
         : width == 4 ? std::int64_t{number_at<std::int32_t>(from.buffers[buffer], row)}
                      : number_at<std::int64_t>(from.buffers[buffer], row);
}

std::string view_at(const host_array& from, std::int64_t row) {
  const auto one = number_at<std::array<std::int32_t, 4>>(from.buffers[1], row);
  const auto size = static_cast<std::size_t>(one[0]);
  return size <= 12 ? text(from.buffers[1], static_cast<std::size_t>(row) * 16 + 4, size)
                    : text(from.buffers[2 + static_cast<std::size_t>(one[2])],
                           static_cast<std::size_t>(one[3]), size);
}

std::string union_at(const host_array& from, std::int64_t row) {
  const std::int64_t id = integer_at(from, 0, row);
  const auto child = static_cast<std::size_t>(std::ranges::find(from.type.type_codes(), id) -
                                              from.type.type_codes().begin());
  const bool dense = from.type.layout() == layout_kind::dense_union;
  return concat(id, "=", cells_of(from.children[child], dense ? integer_at(from, 1, row) : row, 1));
}

/// Encodes a row of a type with children.
std::string nested_at(const host_array& from, std::int64_t row) {
  switch (from.type.layout()) {
  case layout_kind::list:
    return cells_of(from.children[0], integer_at(from, 1, row),
                    integer_at(from, 1, row + 1) - integer_at(from, 1, row));
  case layout_kind::list_view:
    return cells_of(from.children[0], integer_at(from, 1, row), integer_at(from, 2, row));
  case layout_kind::dense_union:
  case layout_kind::sparse_union:
    return union_at(from, row);
  case layout_kind::run_ends: {
    const host_array& ends = from.children[0];
    std::int64_t run = 0;
    for (std::int64_t behind = ends.length; run < behind;) {
      const std::int64_t middle = run + (behind - run) / 2;
      if (integer_at(ends, 1, ends.offset + middle) <= row) {
        run = middle + 1;
      } else {
        behind = middle;
      }
    }
    return cells_of(from.children[1], run, 1);
  }
  default: {
    const auto rows = rows_of_children(from.type, row, 1).value();
    std::string all;
    for (const host_array& child : from.children) {
      all += cells_of(child, rows.first, rows.count);
    }
    return all;
  }
  }
}

/// @param row  relative to the start of the buffers, not to the array's offset
cell cell_at(const host_array& from, std::int64_t row) {
  const bool has_validity = from.type.has_validity() && !from.buffers[0].empty();
  if (from.type.layout() == layout_kind::none || (has_validity && !bit_of(from.buffers[0], row))) {
    return std::nullopt;
  }
  if (from.dictionary != nullptr) {
    return cell_at(*from.dictionary, from.dictionary->offset + index_at(from, row));
  }
  switch (from.type.layout()) {
  case layout_kind::bits:
    return std::string(1, bit_of(from.buffers[1], row) ? '\1' : '\0');
  case layout_kind::bytes:
    return from.type.offset_width() == sizeof(std::int32_t) ? string_at<std::int32_t>(from, row)
                                                            : string_at<std::int64_t>(from, row);
  case layout_kind::views:
    return view_at(from, row);
  case layout_kind::fixed: {
    const auto width = static_cast<std::size_t>(from.type.byte_width());
    return text(from.buffers[1], static_cast<std::size_t>(row) * width, width);
  }
  default:
    return nested_at(from, row);
  }
}

shared_array random_column(const data_type& type, std::int64_t rows, const shared_array& dictionary,
                           std::uint64_t seed) {
  const array_shape shape{rows, static_cast<std::int64_t>(seed % 11), nulls::some, true};
  return dictionary ? random_indices(type, shape, dictionary, seed) : random_array(type, shape, seed);
}

shared_array random_dictionary(const data_type& type, const table_shape& shape, std::uint64_t seed) {
  return type.value_type() == nullptr
             ? nullptr
             : random_array(*type.value_type(),
                            {5 + static_cast<std::int64_t>(seed % 20), 3, shape.in_dictionaries}, seed);
}

shared_array made(plain_array from) { return std::make_shared<const plain_array>(std::move(from)); }

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

} // namespace

table table_of(const std::shared_ptr<context>& ctx, const schema& fields,
               const std::vector<std::vector<shared_array>>& batches) {
  dictionary_cache dictionaries;
  std::vector<batch> imported;
  for (const auto& columns : batches) {
    auto source = to_c_batch(columns, columns.empty() ? 0 : columns.front()->length);
    imported.push_back(import_batch(ctx, fields, source.get(), dictionaries));
  }
  return table::make(ctx, fields, std::move(imported));
}

table random_table(const std::shared_ptr<context>& ctx, const std::vector<data_type>& types,
                   const table_shape& shape) {
  schema fields;
  fields.metadata = {{"origin", "test"}, {"empty", ""}, {"origin", "again"}};
  std::vector<std::vector<shared_array>> batches(shape.batch_rows.size());
  for (std::size_t c = 0; c < types.size(); ++c) {
    fields.fields.push_back({concat(c, ":", types[c].name()), types[c], true, {{"number", concat(c)}}});
    const std::uint64_t seed = shape.seed * 1000 + c * 10;
    shared_array dictionary = random_dictionary(types[c], shape, seed);
    for (std::size_t b = 0; b < batches.size(); ++b) {
      if (!shape.one_dictionary) {
        dictionary = random_dictionary(types[c], shape, seed + b);
      }
      batches[b].push_back(random_column(types[c], shape.batch_rows[b], dictionary, seed + b));
    }
  }
  return table_of(ctx, fields, batches);
}

shared_array strings(const std::vector<std::string_view>& values) {
  std::vector<std::int32_t> offsets{0};
  std::string letters;
  for (const auto value : values) {
    letters += value;
    offsets.push_back(static_cast<std::int32_t>(letters.size()));
  }
  plain_array array;
  array.type = data_type(type_id::string);
  array.length = static_cast<std::int64_t>(values.size());
  array.buffers = {{}, bytes_of(offsets), bytes_of(std::vector<char>(letters.begin(), letters.end()))};
  return made(std::move(array));
}

shared_array indices(const std::vector<std::int32_t>& values, shared_array dictionary) {
  plain_array array;
  array.type = data_type::dictionary(data_type(type_id::int32), dictionary->type);
  array.length = static_cast<std::int64_t>(values.size());
  array.buffers = {{}, bytes_of(values)};
  array.dictionary = std::move(dictionary);
  return made(std::move(array));
}

std::vector<cell> cells(const column& source) {
  const host_batch down = download(source.ctx(), {source.length(), {source}});
  const host_array& array = down.arrays.front();
  std::vector<cell> rows;
  for (std::int64_t row = 0; row < array.length; ++row) {
    rows.push_back(cell_at(array, array.offset + row));
  }
  return rows;
}

std::vector<cell> cells(const table& source, std::size_t index) {
  std::vector<cell> rows;
  for (const column& piece : source.pieces(index)) {
    const auto more = cells(piece);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

::testing::AssertionResult same_contents(const table& seen, const table& expected) {
  const auto differ = [] { return ::testing::AssertionFailure(); };
  if (!(seen.fields() == expected.fields())) {
    return differ() << "the schemas differ";
  }
  if (seen.batches().size() != expected.batches().size()) {
    return differ() << seen.batches().size() << " batches, expected " << expected.batches().size();
  }
  for (std::size_t b = 0; b < expected.batches().size(); ++b) {
    const batch& here = seen.batches()[b];
    const batch& there = expected.batches()[b];
    if (here.rows != there.rows) {
      return differ() << "batch " << b << " has " << here.rows << " rows, expected " << there.rows;
    }
    for (std::size_t c = 0; c < expected.column_count(); ++c) {
      const auto name = concat("batch ", b, ", column '", expected.fields().fields[c].name, "': ");
      if (cells(here.columns[c]) != cells(there.columns[c])) {
        return differ() << name << "the values differ";
      }
      if (here.columns[c].null_count() != there.columns[c].null_count()) {
        return differ() << name << here.columns[c].null_count() << " nulls, expected "
                        << there.columns[c].null_count();
      }
    }
  }
  return ::testing::AssertionSuccess();
}

} // namespace saeta::support
