#include "python/src/column/values.hpp"

#include "python/src/column/checked_array.hpp"
#include "python/src/core/gil.hpp"
#include "saeta/base/pages.hpp"
#include "saeta/base/text.hpp"
#include "saeta/runtime/runtime.hpp"
#include "saeta/symbols/symbols.hpp"
#include "saeta/transfer/download.hpp"

#include <algorithm>
#include <cstring>
#include <map>

namespace saeta::py {
namespace {

/// A lower bound of an object's size: its slot in this list and its slot in the list made from it.
constexpr std::uint64_t bytes_of_object = 2 * sizeof(void*);
/// Below this number, the available memory is not queried, because the query takes longer than making the
/// objects.
constexpr std::uint64_t few_objects = std::uint64_t{4} << 20;

/// Makes Python objects from rows of arrays, at most `most` values per row.
class value_maker {
public:
  value_maker(array_reader& reader, std::int64_t most) : reader_(reader), most_(most) {}

  nb::object row(const host_array& from, std::int64_t index) {
    room_ = most_;
    return value_at(from, index);
  }

private:
  /// `index` counts from the offset of the array.
  nb::object value_at(const host_array& from, std::int64_t index) {
    require_rows(from, index, 1);
    const std::int64_t row = from.offset + index;
    return has_nulls(from) && !reader_.bit(from, 0, row) ? nb::none() : valid_value(from, row);
  }

  /// The value of a row that is not null. `row` counts from the beginning of the buffers.
  nb::object valid_value(const host_array& from, std::int64_t row) {
    switch (from.type.layout()) {
    case layout_kind::bits:
      return nb::bool_(reader_.bit(from, 1, row));
    case layout_kind::fixed:
      return fixed_value(from, row);
    case layout_kind::bytes: {
      const std::int64_t first = reader_.integer(from, 1, row);
      return bytes_at(from, 2, first, reader_.integer(from, 1, row + 1) - first);
    }
    case layout_kind::views:
      return viewed_value(from, row);
    case layout_kind::list:
    case layout_kind::list_view:
    case layout_kind::fixed_list:
      return items_of(from.children[0], reader_.items(from, row));
    case layout_kind::structure: {
      nb::list values;
      for (auto child = from.children.begin(); child != from.children.end() && take_room(); ++child) {
        values.append(value_at(*child, row));
      }
      return values;
    }
    case layout_kind::dense_union:
    case layout_kind::sparse_union: {
      const union_place place = reader_.place_in_union(from, row);
      return nb::make_tuple(place.child, value_at(from.children[place.child], place.row));
    }
    case layout_kind::run_ends:
      return value_at(from.children[1], reader_.run(from, row));
    case layout_kind::none:
      break;
    }
    return nb::none();
  }

  nb::object fixed_value(const host_array& from, std::int64_t row) {
    if (from.dictionary != nullptr) {
      return value_at(*from.dictionary, reader_.integer(from, 1, row));
    }
    if (from.type.is_symbol()) {
      const auto number = static_cast<symbol>(reader_.integer(from, 1, row));
      const auto name = from.type.symbols()->lookup(number);
      return name ? as_bytes({reinterpret_cast<const std::byte*>(name->data()), name->size()})
                  : nb::object(nb::int_(number));
    }
    const std::int64_t width = from.type.byte_width();
    return bytes_at(from, 1, row * width, width);
  }

  /// A view has 16 bytes: a size, then either up to 12 bytes of data, or 4 bytes of data, a buffer index and
  /// an offset.
  nb::object viewed_value(const host_array& from, std::int64_t row) {
    std::int32_t view[4];
    const auto width = static_cast<std::int64_t>(sizeof view);
    std::memcpy(view, reader_.bytes(from, 1, row * width, width).data(), sizeof view);
    constexpr std::int32_t most_inline = 12;
    if (view[0] >= 0 && view[0] <= most_inline) {
      return as_bytes(
          std::as_bytes(std::span(view)).subspan(sizeof(std::int32_t), static_cast<std::size_t>(view[0])));
    }
    return bytes_at(from, view[2] < 0 ? from.buffers.size() : 2 + static_cast<std::size_t>(view[2]), view[3],
                    view[0]);
  }

  nb::object items_of(const host_array& child, const child_rows& items) {
    nb::list values;
    for (std::int64_t i = 0; i < items.count && take_room(); ++i) {
      values.append(value_at(child, items.first + i));
    }
    return values;
  }

  nb::object bytes_at(const host_array& from, std::size_t buffer, std::int64_t first, std::int64_t count) {
    return as_bytes(reader_.bytes(from, buffer, first, count));
  }

  nb::object as_bytes(std::span<const std::byte> from) const {
    const std::size_t count = std::min(from.size(), static_cast<std::size_t>(most_));
    return nb::bytes(reinterpret_cast<const char*>(from.data()), count);
  }

  bool take_room() { return room_ > 0 && room_-- > 0; }

  array_reader& reader_;
  std::int64_t most_;
  std::int64_t room_ = 0;
};

/// Decodes an index. It is never negative, so its bytes are the low bytes of the result.
std::int64_t index_in(nb::handle raw) {
  const auto bytes = nb::borrow<nb::bytes>(raw);
  std::int64_t index = 0;
  std::memcpy(&index, bytes.c_str(), bytes.size());
  return index;
}

/// The distinct indices of rows, and the number of occurrences of each.
struct named_rows {
  struct place {
    std::size_t number = 0;
    std::uint64_t times = 0;
  };
  std::map<std::int64_t, place> of;
  batch values{1, {}};
};

named_rows rows_named(const column& dictionary, const nb::list& indices) {
  named_rows named;
  for (const nb::handle raw : indices) {
    if (raw.is_none()) {
      continue;
    }
    const auto [found, is_new] = named.of.try_emplace(index_in(raw));
    if (is_new) {
      found->second.number = named.values.columns.size();
      named.values.columns.push_back(dictionary.slice(found->first, 1));
    }
    ++found->second.times;
  }
  return named;
}

/// The values of indices. Reads only values that the rows refer to, all in one transfer.
nb::list look_up(const column& dictionary, const nb::list& indices, std::int64_t most) {
  const named_rows named = rows_named(dictionary, indices);
  nb::list values;
  if (!named.of.empty()) {
    const host_batch on_host = without_gil([&] { return download(dictionary.ctx(), named.values); });
    array_reader reader;
    if (most == everything) {
      object_count objects(reader, machine_bytes() / bytes_of_object);
      for (const auto& [index, place] : named.of) {
        objects.add(on_host.arrays[place.number], 0, 1, place.times);
      }
      require_memory_for(objects.total(), "the values of the dictionary");
    }
    value_maker maker(reader, most);
    for (const host_array& each : on_host.arrays) {
      values.append(maker.row(each, 0));
    }
  }
  nb::list result;
  for (const nb::handle raw : indices) {
    result.append(raw.is_none() ? nb::none() : nb::object(values[named.of.at(index_in(raw)).number]));
  }
  return result;
}

nb::list values_of(const column& source, const host_array& from, std::int64_t rows, std::int64_t most) {
  array_reader reader;
  if (most == everything) {
    object_count objects(reader, machine_bytes() / bytes_of_object);
    objects.add(from, 0, rows);
    require_memory_for(objects.total(), "the values");
  }
  value_maker maker(reader, most);
  nb::list values;
  for (std::int64_t row = 0; row < rows; ++row) {
    values.append(maker.row(from, row));
  }
  return source.dictionary() != nullptr ? look_up(*source.dictionary(), values, most) : values;
}

} // namespace

void require_memory_for(std::uint64_t objects, std::string_view label) {
  require_memory_for(objects, bytes_of_object, "Python objects", label);
}

void require_memory_for(std::uint64_t count, std::uint64_t bytes_of_each, std::string_view what,
                        std::string_view label) {
  if (count < few_objects) {
    return;
  }
  const std::uint64_t available =
      describe_device({}).free_bytes.value_or(std::numeric_limits<std::uint64_t>::max());
  if (count > available / bytes_of_each) {
    const uint128 bytes = uint128{count} * bytes_of_each;
    throw error(
        errc::out_of_memory,
        concat(label, " are ", count, " ", what, ", which take at least ", decimal(bytes), " bytes, and ",
               available, " bytes (", human_bytes(available),
               ") of memory are available: take fewer rows with slice(), or to_arrow(), which makes none"));
  }
}

std::vector<nb::list> raw_values(const std::shared_ptr<context>& ctx, const batch& rows,
                                 std::span<const field> fields, std::int64_t most) {
  batch plain{rows.rows, {}};
  for (const column& each : rows.columns) {
    plain.columns.push_back(each.dictionary() != nullptr ? codes_of(each) : each);
  }
  std::vector<nb::list> result(rows.columns.size());
  if (rows.rows == 0 || rows.columns.empty()) {
    return result;
  }
  const host_batch on_host = without_gil([&] { return download(ctx, plain); });
  for (std::size_t i = 0; i < result.size(); ++i) {
    try {
      result[i] = values_of(rows.columns[i], on_host.arrays[i], rows.rows, most);
    } catch (const error& why) {
      throw error(why.code(), concat("column '", fields[i].name, "': ", why.message()));
    }
  }
  return result;
}

} // namespace saeta::py
