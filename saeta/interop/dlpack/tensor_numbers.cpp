#include "saeta/base/checked.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/nulls.hpp"
#include "saeta/interop/dlpack/tensors.hpp"
#include "saeta/interop/dlpack/types.hpp"
#include "saeta/symbols/symbols.hpp"

#include <algorithm>
#include <numeric>

namespace saeta {
namespace {

/// The options of an export apply to null rows. A tensor can't express null values inside a row.
void require_no_inner_nulls(const column& of, const column& whole) {
  const std::int64_t nulls =
      of.length() == 0 || logical_null_count(of) == 0 ? 0 : nulls_in_valid_rows(of, whole);
  if (nulls != 0) {
    throw error(errc::exchange, concat("dlpack: ", nulls, " of ", of.length(), " values of type ",
                                       of.type().name(), " inside of ", with_article(whole.type().name()),
                                       " column are null, which a tensor can't represent: what is chosen for "
                                       "nulls applies to whole rows"));
  }
}

/// Descends from a column to its numbers and collects the dimensions.
class descent {
public:
  descent(const column& source, const dlpack_export& how) : whole_(source), how_(how) {
    made_.ctx = source.ctx();
    made_.rows = source;
    made_.extents = {source.length()};
    descend(source);
    if (made_.extents.size() == 1 && (made_.converted || source.dictionary() != nullptr)) {
      made_.rows = leaves_.front(); // unlike the source, it has the nulls of the values in its own validity
    }
    made_.shown = how.type ? *how.type : number_type_of(leaves_.front());
    if (leaves_.front().length() != 0) {
      made_.blocks.push_back({leaves_.front().length(), std::move(leaves_)});
    }
  }

  tensor_numbers take() { return std::move(made_); }

private:
  void descend(const column& given) {
    const data_type& type = given.type();
    if (type.id() == type_id::fixed_size_list) {
      add_list(type);
      const column values = given.child(0);
      require_inside(values);
      descend(values);
    } else if (type.id() == type_id::struct_ && type.extension_name().empty()) {
      add_fields(given);
    } else {
      add_numbers(given);
    }
  }

  void add_numbers(const column& given) {
    column numbers = numbers_of(given, how_);
    if (becomes_numbers(given.type(), how_)) {
      made_.converted = given.type();
    }
    const data_type& type = numbers.type();
    const bool inside = whole_.type() != given.type();
    if (inside && type.id() != type_id::boolean && !has_tensor_type(type)) {
      refuse(concat("a column of type ", whole_.type().name()),
             concat(": it has values of type ", type.name(),
                    code_type(type) != nullptr ? ", for which to_numpy and the like take codes=True"
                    : type.is_temporal()       ? ", for which to_numpy and the like take reinterpret=True"
                                               : ""));
    }
    leaves_.push_back(std::move(numbers));
  }

  /// If null rows are refused and the column has some, the export fails anyway, so this check is skipped.
  void require_inside(const column& values) {
    if (how_.nulls != tensor_nulls::refuse || whole_.null_count() == 0) {
      require_no_inner_nulls(values, whole_);
    }
  }

  void add_list(const data_type& type) {
    made_.numbers_a_row = checked_mul(made_.numbers_a_row, std::int64_t{type.list_size()}, "values of a row");
    const std::size_t before = made_.extents.size();
    if (type.extension_name().empty()) {
      made_.extents.push_back(type.list_size());
      if (!made_.order.empty()) {
        made_.order.push_back(static_cast<std::int64_t>(before));
      }
      return;
    }
    if (type.extension_name() != fixed_shape_tensor) {
      refuse(concat("a column of the extension type ", type.extension_name()), "");
    }
    const tensor_metadata said = parse_tensor_metadata(type.extension_metadata());
    std::int64_t size = 1;
    for (const std::int64_t extent : said.shape) {
      size = checked_mul(size, extent, "values of a tensor");
    }
    if (size != type.list_size()) {
      throw error(errc::format, concat("dlpack: metadata of ", fixed_shape_tensor, ": the shape has ", size,
                                       " values and each row ", type.list_size()));
    }
    if (made_.order.empty()) {
      made_.order.resize(before);
      std::iota(made_.order.begin(), made_.order.end(), std::int64_t{0});
    }
    made_.extents.insert(made_.extents.end(), said.shape.begin(), said.shape.end());
    for (const std::int64_t dimension : said.permutation) {
      made_.order.push_back(static_cast<std::int64_t>(before) + dimension);
    }
  }

  void add_fields(const column& given) {
    const std::span<const field> fields = given.type().children();
    if (fields.empty()) {
      refuse("a struct without fields", "");
    }
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const column values = given.child(i);
      if (fields[i].type != fields[0].type) {
        refuse(
            concat("a column of type ", given.type().name()),
            concat(": its fields '", fields[0].name, "' and '", fields[i].name, "' are of different types"));
      }
      if (!fields[i].type.children().empty()) {
        refuse(concat("a column of type ", given.type().name()), ": its fields have fields of their own");
      }
      require_inside(values);
      add_numbers(values);
    }
    if (!made_.order.empty()) {
      made_.order.push_back(static_cast<std::int64_t>(made_.extents.size()));
    }
    made_.extents.push_back(static_cast<std::int64_t>(fields.size()));
  }

  [[noreturn]] static void refuse(const std::string& what, const std::string& why) {
    throw error(errc::exchange,
                concat("dlpack: ", what, " has no tensor type", why, "; to_arrow() has every type"));
  }

  const column& whole_;
  const dlpack_export& how_;
  tensor_numbers made_;
  std::vector<column> leaves_;
};

void require_conversion(const data_type& from, const data_type& to, std::string_view what) {
  const bool narrow = narrow_float_of(from) != nullptr || narrow_float_of(to) != nullptr;
  if (narrow && from != to) {
    throw error(errc::type_mismatch,
                concat("dlpack: ", what, "values of type ", from.name(), " can't become ", to.name(),
                       ": narrow floats are exported as they are, without dtype="));
  }
  if (!converts(number_kind_of(from), number_kind_of(to))) {
    throw error(
        errc::type_mismatch,
        concat("dlpack: ", what, "values of type ", from.name(), " can't become ", to.name(),
               " without loss: choose a float type, or an integer type that can represent all of them"));
  }
}

} // namespace

tensor_numbers numbers_of_column(const column& source, const dlpack_export& how) {
  tensor_numbers numbers = descent(source, how).take();
  if (how.type) {
    for (const number_block& block : numbers.blocks) {
      require_conversion(number_type_of(block.columns.front()), numbers.shown, "");
    }
  }
  return numbers;
}

tensor_numbers numbers_of_table(const table& source, const dlpack_export& how) {
  const std::vector<field>& fields = source.fields().fields;
  if (fields.empty()) {
    throw error(errc::exchange, "dlpack: a table without columns has no tensor type");
  }
  tensor_numbers numbers;
  numbers.ctx = source.ctx();
  numbers.extents = {source.rows(), static_cast<std::int64_t>(fields.size())};
  // Types are checked even if there are no rows.
  std::vector<data_type> types;
  types.reserve(fields.size());
  const bool only_mask = how.nulls == tensor_nulls::mask;
  for (std::size_t i = 0; i < fields.size() && !only_mask; ++i) {
    types.push_back(number_type_of(numbers_of(column::empty(numbers.ctx, fields[i].type), how)));
    if (becomes_numbers(fields[i].type, how)) {
      numbers.converted = fields[i].type;
    }
  }
  numbers.shown = only_mask ? data_type::bool8() : how.type.value_or(types.front());
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (how.type) {
      require_conversion(types[i], numbers.shown, concat("column '", fields[i].name, "': "));
    } else if (types[i] != types[0]) {
      throw error(errc::type_mismatch,
                  concat("dlpack: column '", fields[0].name, "' is of type ", types[0].name(), ", column '",
                         fields[i].name, "' of type ", types[i].name(),
                         ", and a tensor has one type: name it with dtype= of to_torch, to_numpy and the "
                         "like, or select() columns of one type"));
    }
  }
  for (const batch& rows : source.batches()) {
    if (rows.rows != 0) {
      number_block& block = numbers.blocks.emplace_back();
      block.rows = rows.rows;
      for (const column& column : rows.columns) {
        block.columns.push_back(numbers_of(column, how));
      }
    }
  }
  return numbers;
}

std::int64_t tensor_numbers::null_count() const {
  if (rows) {
    return rows->null_count();
  }
  std::int64_t nulls = 0;
  for (const number_block& block : blocks) {
    for (const column& column : block.columns) {
      nulls += column.null_count();
    }
  }
  return nulls;
}

std::int64_t tensor_numbers::size() const {
  std::int64_t values = 1;
  for (const std::int64_t extent : extents) {
    values = checked_mul(values, extent, "dlpack: values of a tensor");
  }
  return values;
}

std::vector<std::int64_t> reorder(const std::vector<std::int64_t>& values,
                                  const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> result = values;
  for (std::size_t i = 0; i < order.size(); ++i) {
    result[i] = values[static_cast<std::size_t>(order[i])];
  }
  return result;
}

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& extents, tensor_order order) {
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t step = 1;
  const auto next = [&](std::size_t dimension) {
    strides[dimension] = step;
    step *= std::max(extents[dimension], std::int64_t{1});
  };
  for (std::size_t i = 0; i < extents.size(); ++i) {
    next(order == tensor_order::column ? i : extents.size() - 1 - i);
  }
  return strides;
}

std::optional<numbers_in_place> find_in_place(const tensor_numbers& of, tensor_order wanted) {
  if (of.empty()) {
    return numbers_in_place{{}, dense_strides(of.extents, wanted)};
  }
  const number_block& only = of.blocks.front();
  const bool as_shown =
      std::ranges::all_of(only.columns, [&](const column& column) { return column.type() == of.shown; });
  if (of.blocks.size() != 1 || !as_shown) {
    return std::nullopt;
  }
  numbers_in_place place{row_values(only.columns.front()), dense_strides(of.extents, wanted)};
  if (only.columns.size() == 1) {
    return place;
  }
  const auto width = static_cast<std::uintptr_t>(of.shown.byte_width());
  const std::uintptr_t start = place.first.address();
  const std::uintptr_t spacing = row_values(only.columns[1]).address() - start;
  for (std::size_t i = 1; i < only.columns.size(); ++i) {
    const buffer values = row_values(only.columns[i]);
    if (values.owner() != place.first.owner() || values.address() != start + i * spacing) {
      return std::nullopt;
    }
  }
  const auto step = static_cast<std::int64_t>(spacing);
  const bool side_by_side = only.rows == 1 && spacing == width;
  if (step <= 0 || spacing % width != 0 || (wanted == tensor_order::row && !side_by_side)) {
    return std::nullopt;
  }
  const std::vector<std::int64_t> rows(of.extents.begin(), of.extents.end() - 1);
  place.strides = dense_strides(rows, tensor_order::row);
  place.strides.push_back(step / static_cast<std::int64_t>(width));
  return place;
}

} // namespace saeta
