#include "saeta/ipc/detail/written_dictionaries.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/detail/arrow_bridge.hpp"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>

#include <algorithm>

namespace saeta::ipc::detail {
namespace {

/// True when two dictionaries of one column are the same memory.
bool same(const column& a, const column& b) {
  const auto same_range = [](const buffer& x, const buffer& y) {
    return x.present() == y.present() && x.address() == y.address() && x.size() == y.size();
  };
  return a.length() == b.length() && a.offset() == b.offset() && a.dictionary() == b.dictionary() &&
         std::ranges::equal(a.buffers(), b.buffers(), same_range) &&
         std::ranges::equal(a.children(), b.children(), same);
}

table with_plain_indices(const table& source) {
  schema fields = source.fields();
  std::vector<batch> batches(source.batches().begin(), source.batches().end());
  for (std::size_t number = 0; number < fields.fields.size(); ++number) {
    auto& type = fields.fields[number].type;
    if (type.index_type() != nullptr) {
      type = data_type(*type.index_type());
      for (auto& part : batches) {
        part.columns[number] = indices_of(part.columns[number]);
      }
    } else if (type.is_symbol()) {
      type = data_type(type_id::uint32);
      for (auto& part : batches) {
        part.columns[number] = view_cast(part.columns[number], type);
      }
    }
  }
  return table::make(source.home(), std::move(fields), std::move(batches));
}

/// libarrow writes dictionaries whose values are indices of another, and can't read them.
bool has_dictionary_of_dictionary(const data_type& type) {
  const auto inside = [](const field& child) { return has_dictionary_of_dictionary(child.type); };
  const data_type* const values = type.value_type();
  return std::ranges::any_of(type.children(), inside) ||
         (values != nullptr &&
          (values->id() == type_id::dictionary || has_dictionary_of_dictionary(*values)));
}

/// The dictionaries inside of a column: of its children and of the values of its own dictionary.
void append_inner_dictionaries(const column& of, std::vector<const column*>& found) {
  for (const column& child : of.children()) {
    if (child.dictionary() != nullptr) {
      found.push_back(child.dictionary());
    }
    append_inner_dictionaries(child, found);
  }
  if (of.dictionary() != nullptr) {
    append_inner_dictionaries(*of.dictionary(), found);
  }
}

bool equal(const column& a, const column& b) {
  return same(a, b) || export_array(a)->Equals(export_array(b));
}

const arrow::DictionaryType& dictionary_type(const arrow::Field& described) {
  const arrow::DataType* type = described.type().get();
  if (const auto* const extension = dynamic_cast<const arrow::ExtensionType*>(type)) {
    type = extension->storage_type().get();
  }
  return dynamic_cast<const arrow::DictionaryType&>(*type);
}

/// What the renumbering of one batch needs to know.
struct renumbering {
  const arrow::ArrayData& indices;
  const std::vector<std::int32_t>& renumbered;
  const std::string& column;
};

template <class Index>
std::shared_ptr<arrow::Buffer> renumber_as(const renumbering& from) {
  const auto& indices = from.indices;
  const auto rows = indices.offset + indices.length;
  auto target = take(arrow::AllocateBuffer(rows * static_cast<std::int64_t>(sizeof(Index))), from.column);
  auto* const written = target->mutable_data_as<Index>();
  std::fill_n(written, rows, Index{0});
  const auto* const read = indices.GetValues<Index>(1, 0);
  const auto* const validity = indices.buffers[0] == nullptr ? nullptr : indices.buffers[0]->data();
  for (std::int64_t row = indices.offset; row < rows; ++row) {
    if (validity != nullptr && !arrow::bit_util::GetBit(validity, static_cast<std::uint64_t>(row))) {
      continue; // what stands under a null is no index
    }
    if (!std::in_range<std::size_t>(read[row]) ||
        static_cast<std::size_t>(read[row]) >= from.renumbered.size()) {
      throw error(errc::out_of_range,
                  concat("column '", from.column, "': index ", +read[row], " in row ", row - indices.offset,
                         ", the dictionary has ", from.renumbered.size(), " values"));
    }
    written[row] = static_cast<Index>(from.renumbered[static_cast<std::size_t>(read[row])]);
  }
  return target;
}

std::shared_ptr<arrow::Buffer> renumber(const renumbering& from) {
  switch (from.indices.type->id()) {
  case arrow::Type::INT8:
    return renumber_as<std::int8_t>(from);
  case arrow::Type::UINT8:
    return renumber_as<std::uint8_t>(from);
  case arrow::Type::INT16:
    return renumber_as<std::int16_t>(from);
  case arrow::Type::UINT16:
    return renumber_as<std::uint16_t>(from);
  case arrow::Type::INT32:
    return renumber_as<std::int32_t>(from);
  case arrow::Type::UINT32:
    return renumber_as<std::uint32_t>(from);
  case arrow::Type::INT64:
    return renumber_as<std::int64_t>(from);
  default:
    return renumber_as<std::uint64_t>(from);
  }
}

/// Bytes of names, which threads may write after the dictionary itself is gone.
class text_buffer final : public arrow::Buffer {
public:
  text_buffer(std::span<const std::byte> bytes, std::shared_ptr<const void> kept)
      : arrow::Buffer(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                      static_cast<std::int64_t>(bytes.size())),
        kept_(std::move(kept)) {}

private:
  std::shared_ptr<const void> kept_;
};

/// Rows of symbols in libarrow's memory.
host_array symbols_in(const arrow::ArrayData& numbers) {
  const auto bytes = [](const std::shared_ptr<arrow::Buffer>& of) {
    return of == nullptr ? std::span<const std::byte>()
                         : std::as_bytes(std::span(of->data(), static_cast<std::size_t>(of->size())));
  };
  host_array made;
  made.type = data_type(type_id::uint32);
  made.length = numbers.length;
  made.offset = numbers.offset;
  made.buffers = {bytes(numbers.buffers[0]), bytes(numbers.buffers[1])};
  return made;
}

} // namespace

written_dictionaries::written_dictionaries(const table& source, const arrow::Schema& described,
                                           container format)
    : indices_(with_plain_indices(source)) {
  for (std::size_t number = 0; number < source.column_count(); ++number) {
    require_inner(source, number, format);
  }
  for (std::size_t number = 0; number < source.column_count(); ++number) {
    if (source.fields().fields[number].type.index_type() != nullptr) {
      auto& gathered = columns_.emplace_back(gather(source, number));
      if (format == container::file) {
        unite(gathered, *described.field(static_cast<int>(number)));
      }
    } else if (source.fields().fields[number].type.is_symbol()) {
      symbols_.push_back(gather_names(source, number));
    }
  }
}

written_dictionaries::symbol_column written_dictionaries::gather_names(const table& source,
                                                                       std::size_t number) {
  const field& described = source.fields().fields[number];
  symbol_column made{number, concat("column '", described.name, "'"),
                     std::make_unique<symbol_dictionary>(described.type.symbols()), nullptr};
  for (std::size_t b = 0; b < source.batches().size(); ++b) {
    const auto numbers =
        export_array(view_cast(source.batches()[b].columns[number], data_type(type_id::uint32)));
    made.names->take(symbols_in(*numbers->data()), concat("batch ", b, ": ", made.label), nullptr);
  }
  const host_array there = made.names->values();
  const auto text = [&](std::size_t i) {
    return std::make_shared<text_buffer>(there.buffers[i], made.names->keepalive());
  };
  made.values = arrow::ArrayData::Make(arrow::utf8(), there.length, {nullptr, text(1), text(2)}, 0);
  return made;
}

std::shared_ptr<arrow::ArrayData> written_dictionaries::renamed(const symbol_column& column,
                                                                const arrow::ArrayData& numbers,
                                                                const arrow::Field& described) {
  const std::int64_t rows = numbers.offset + numbers.length;
  auto target = take(arrow::AllocateBuffer(rows * static_cast<std::int64_t>(sizeof(symbol))), column.label);
  auto* const indices = target->mutable_data_as<std::uint32_t>();
  std::fill_n(indices, numbers.offset, 0U);
  column.names->take(symbols_in(numbers), column.label, indices + numbers.offset);
  auto made = numbers.Copy();
  made->buffers[1] = std::move(target);
  made->type = described.type();
  made->dictionary = column.values;
  return made;
}

void written_dictionaries::require_inner(const table& source, std::size_t number, container format) {
  const field& described = source.fields().fields[number];
  if (has_dictionary_of_dictionary(described.type)) {
    throw error(errc::unsupported,
                concat("column '", described.name, "': type ", described.type.name(),
                       " can't be written: the values of a dictionary are indices of another"));
  }
  if (format != container::file || source.batches().empty()) {
    return;
  }
  std::vector<const column*> first;
  append_inner_dictionaries(source.batches().front().columns[number], first);
  for (std::size_t b = 1; !first.empty() && b < source.batches().size(); ++b) {
    std::vector<const column*> inner;
    append_inner_dictionaries(source.batches()[b].columns[number], inner);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      if (!equal(*first[i], *inner[i])) {
        throw error(errc::unsupported,
                    concat("column '", described.name, "': batches 0 and ", b,
                           " have different dictionaries inside of type ", described.type.name(),
                           ", a file holds one (a stream would hold them all)"));
      }
    }
  }
}

written_dictionaries::encoded_column written_dictionaries::gather(const table& source, std::size_t number) {
  encoded_column gathered{number, {}, {}};
  std::vector<const column*> known;
  for (const auto& part : source.batches()) {
    const column& dictionary = *part.columns[number].dictionary();
    const auto found =
        std::ranges::find_if(known, [&](const column* other) { return same(*other, dictionary); });
    gathered.of_batch.push_back(static_cast<std::size_t>(found - known.begin()));
    if (found == known.end()) {
      known.push_back(&dictionary);
      gathered.distinct.push_back({export_array(dictionary), {}});
    }
  }
  return gathered;
}

void written_dictionaries::unite(encoded_column& column, const arrow::Field& described) {
  auto& distinct = column.distinct;
  if (std::ranges::all_of(distinct,
                          [&](const entry& e) { return e.values->Equals(distinct.front().values); })) {
    for (auto& other : distinct) {
      other.values = distinct.front().values;
    }
    return;
  }
  try {
    const std::string part = "uniting the dictionaries";
    const auto& type = dictionary_type(described);
    const auto unifier = take(arrow::DictionaryUnifier::Make(type.value_type()), part);
    for (auto& each : distinct) {
      std::shared_ptr<arrow::Buffer> renumbered;
      check(unifier->Unify(*each.values, &renumbered), part);
      const auto* const first = renumbered->data_as<std::int32_t>();
      each.renumbered.assign(first, first + each.values->length());
    }
    std::shared_ptr<arrow::Array> united;
    check(unifier->GetResultWithIndexType(type.index_type(), &united), part);
    for (auto& each : distinct) {
      each.values = united;
    }
  } catch (const error& failure) {
    throw error(errc::unsupported, concat("column '", described.name(),
                                          "': its batches have different dictionaries, a file holds one (a ",
                                          "stream would hold them all): ", failure.message()));
  }
}

bool written_dictionaries::rewrites(std::size_t number) const {
  const auto renumbered = [](const entry& each) { return !each.renumbered.empty(); };
  return std::ranges::any_of(symbols_, [&](const auto& each) { return each.number == number; }) ||
         std::ranges::any_of(columns_, [&](const auto& each) {
           return each.number == number && std::ranges::any_of(each.distinct, renumbered);
         });
}

std::shared_ptr<arrow::RecordBatch>
written_dictionaries::restore(std::size_t index, const arrow::RecordBatch& plain,
                              const std::shared_ptr<arrow::Schema>& described) const {
  auto columns = plain.column_data();
  for (const auto& column : columns_) {
    auto& data = columns[column.number];
    const auto& field = *described->field(static_cast<int>(column.number));
    const entry& dictionary = column.distinct[column.of_batch[index]];
    auto encoded = data->Copy();
    if (!dictionary.renumbered.empty()) {
      encoded->buffers[1] = renumber({*data, dictionary.renumbered, field.name()});
    }
    encoded->type = field.type();
    encoded->dictionary = dictionary.values->data();
    data = std::move(encoded);
  }
  for (const auto& column : symbols_) {
    auto& data = columns[column.number];
    data = renamed(column, *data, *described->field(static_cast<int>(column.number)));
  }
  return arrow::RecordBatch::Make(described, plain.num_rows(), std::move(columns));
}

} // namespace saeta::ipc::detail
