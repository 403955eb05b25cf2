#include "saeta/ipc/write/written_dictionaries.hpp"

#include "saeta/base/text.hpp"
#include "saeta/transfer/host_array.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

namespace saeta::ipc::detail {
namespace {

/// The rows of an array, numbered from 0 whatever the array's offset is.
class rows_of {
public:
  explicit rows_of(const host_array& of) : of_(of) {}

  [[nodiscard]] bool is_valid(std::int64_t row) const {
    return of_.type.id() != type_id::null && (!of_.type.has_validity() || of_.buffers[0].data() == nullptr ||
                                              bit_at(of_.buffers[0], of_.offset + row));
  }
  [[nodiscard]] bool is_true(std::int64_t row) const { return bit_at(of_.buffers[1], of_.offset + row); }
  [[nodiscard]] std::int64_t number(std::size_t buffer, std::int64_t row) const {
    return read_offset(of_.buffers[buffer].data(), static_cast<std::size_t>(of_.type.buffer(buffer).width),
                       of_.offset + row);
  }
  [[nodiscard]] std::span<const std::byte> value(std::int64_t row) const {
    return bytes_of_value(of_, of_.offset + row);
  }
  /// The rows of the children that belong to a row.
  [[nodiscard]] child_rows children(std::int64_t row) const {
    if (const auto known = rows_of_children(of_.type, of_.offset + row, 1)) {
      return *known;
    }
    return of_.type.mapping() == row_mapping::scattered
               ? child_rows{number(1, row), number(2, row)}
               : rows_pointed_to(of_, window_of(of_.type, of_.offset + row, 1));
  }
  [[nodiscard]] const host_array& array() const noexcept { return of_; }

private:
  const host_array& of_;
};

bool same_range(const host_array& a, std::int64_t first_a, const host_array& b, std::int64_t first_b,
                std::int64_t count);

bool same_child(const rows_of& a, const rows_of& b, std::size_t child, const child_rows& of_a,
                const child_rows& of_b) {
  return same_range(a.array().children[child], of_a.first, b.array().children[child], of_b.first, of_a.count);
}

bool same_union(const rows_of& a, std::int64_t row_a, const rows_of& b, std::int64_t row_b) {
  const data_type& type = a.array().type;
  const std::int64_t code = a.number(0, row_a);
  if (code != b.number(0, row_b)) {
    return false;
  }
  const auto codes = type.type_codes();
  const auto child = static_cast<std::size_t>(std::ranges::find(codes, code) - codes.begin());
  const bool dense = type.id() == type_id::dense_union;
  const auto row_of_child = [&](const rows_of& of, std::int64_t row) {
    return child_rows{dense ? of.number(1, row) : of.array().offset + row, 1};
  };
  return child < codes.size() && same_child(a, b, child, row_of_child(a, row_a), row_of_child(b, row_b));
}

bool same_row(const rows_of& a, std::int64_t row_a, const rows_of& b, std::int64_t row_b) {
  const data_type& type = a.array().type;
  const bool valid = a.is_valid(row_a);
  if (valid != b.is_valid(row_b)) {
    return false;
  }
  if (!valid) {
    return true;
  }
  if (type.check() == check_kind::unions) {
    return same_union(a, row_a, b, row_b);
  }
  if (type.id() == type_id::dictionary) {
    return same_range(*a.array().dictionary, a.number(1, row_a), *b.array().dictionary, b.number(1, row_b),
                      1);
  }
  if (!type.children().empty()) {
    const child_rows of_a = a.children(row_a);
    const child_rows of_b = b.children(row_b);
    const std::size_t first = type.mapping() == row_mapping::run_ends ? 1 : 0; // the values of a run
    bool same = of_a.count == of_b.count;
    for (std::size_t i = first; same && i < type.children().size(); ++i) {
      same = same_child(a, b, i, of_a, of_b);
    }
    return same;
  }
  return type.id() == type_id::boolean ? a.is_true(row_a) == b.is_true(row_b)
                                       : std::ranges::equal(a.value(row_a), b.value(row_b));
}

bool same_range(const host_array& a, std::int64_t first_a, const host_array& b, std::int64_t first_b,
                std::int64_t count) {
  const rows_of in_a(a);
  const rows_of in_b(b);
  for (std::int64_t i = 0; i < count; ++i) {
    if (!same_row(in_a, first_a + i, in_b, first_b + i)) {
      return false;
    }
  }
  return true;
}

} // namespace

bool same_rows(const host_array& a, const host_array& b, std::int64_t rows) {
  return a.length >= rows && b.length >= rows && same_range(a, 0, b, 0, rows);
}

bool same_rows(const host_array& a, const host_array& b) {
  return a.length == b.length && same_rows(a, b, a.length);
}
namespace {

table with_plain_indices(const table& source) {
  schema fields = source.fields();
  std::vector<batch> batches(source.batches().begin(), source.batches().end());
  for (std::size_t number = 0; number < fields.fields.size(); ++number) {
    auto& type = fields.fields[number].type;
    if (const data_type* const codes = code_type(type)) {
      for (auto& part : batches) {
        part.columns[number] = codes_of(part.columns[number]);
      }
      type = data_type(*codes);
    }
  }
  return table::make(source.ctx(), std::move(fields), std::move(batches));
}

/// Returns why the dictionaries of a type can't be read back; nullopt if they can.
std::optional<std::string> obstacle(const data_type& type) {
  if (const data_type* const values = type.value_type()) {
    if (values->id() == type_id::dictionary) {
      return "the values of the dictionary are indices of another dictionary";
    }
    if (!values->extension_name().empty()) {
      return concat("a file records the extension type of a dictionary, but not that of its values: they "
                    "would be read without '",
                    values->extension_name(), "', or not at all. Write the values ",
                    "themselves (in pyarrow: column.dictionary_decode()), or a dictionary of their storage");
    }
    return obstacle(*values);
  }
  for (const field& child : type.children()) {
    if (auto why = obstacle(child.type)) {
      return why;
    }
  }
  return std::nullopt;
}

/// A dictionary with the owner of its bytes.
struct owned_dictionary {
  host_array values;
  std::shared_ptr<void> owner;
};

/// Makes the dictionaries that came with rows own their memory, as dictionaries from `restore` do.
void own_dictionaries(host_array& of, const std::shared_ptr<void>& owner) {
  if (of.dictionary != nullptr) {
    const auto own = std::make_shared<owned_dictionary>(owned_dictionary{*of.dictionary, owner});
    own_dictionaries(own->values, owner);
    of.dictionary = {own, &own->values};
  }
  for (host_array& child : of.children) {
    own_dictionaries(child, owner);
  }
}

} // namespace

void require_writable(const schema& fields) {
  for (const field& field : fields.fields) {
    if (const auto why = obstacle(field.type)) {
      throw error(errc::unsupported,
                  concat("column '", field.name, "': type ", field.type.name(), " can't be written: ", *why));
    }
  }
}

bool has_dictionaries(const schema& fields) {
  return std::ranges::any_of(fields.fields, [](const field& field) {
    return code_type(field.type) != nullptr || !dictionary_places(field.type).empty();
  });
}

written_dictionaries::written_dictionaries(const schema& fields, container format, bool several)
    : fields_(fields) {
  require_writable(fields_);
  for (std::size_t number = 0; number < fields_.fields.size(); ++number) {
    const field& described = fields_.fields[number];
    if (auto names = symbol_dictionary::of(described.type)) {
      symbols_.push_back({number, concat("column '", described.name, "'"), std::move(names), nullptr});
      continue;
    }
    for (child_path& path : dictionary_places(described.type)) {
      // Dictionaries inside other types are downloaded with their rows. A stream takes them as they are, and
      // so does a file of one batch.
      const bool used = path.empty() || several;
      if (used || format == container::file) {
        places_.push_back({placed_dictionaries(described, number, std::move(path), format), used});
      }
    }
  }
  described_ = fields_;
}

void written_dictionaries::begin(const table& source) {
  indices_ = with_plain_indices(source);
  for (symbol_column& symbol : symbols_) {
    gather_names(symbol, source);
  }
  schema written = fields_;
  for (place& place : places_) {
    place.used = place.used || source.batches().size() > 1;
    if (place.used) {
      place.dictionaries.begin(source, !begun_);
      data_type& type = written.fields[place.dictionaries.number()].type;
      type = place.dictionaries.retype(type);
    }
  }
  if (!begun_) {
    described_ = std::move(written);
  }
  begun_ = true;
}

void written_dictionaries::end() noexcept {
  indices_.reset();
  for (place& place : places_) {
    place.dictionaries.end();
  }
}

void written_dictionaries::gather_names(symbol_column& of, const table& source) {
  for (std::size_t b = 0; b < source.batches().size(); ++b) {
    const auto numbers = owned_on_host(codes_of(source.batches()[b].columns[of.number]));
    of.names->take(*numbers, concat("batch ", b, ": ", of.label), nullptr);
  }
  host_array there = of.names->values();
  if (of.values != nullptr && of.values->length == there.length) {
    return; // no new names, and message_writer knows the same values by their address
  }
  const auto dictionary =
      std::make_shared<owned_dictionary>(owned_dictionary{std::move(there), of.names->keepalive()});
  of.values = {dictionary, &dictionary->values};
}

void written_dictionaries::rename_dictionary(const symbol_column& column, host_array& numbers,
                                             std::vector<std::shared_ptr<void>>& owners) {
  const auto own =
      std::make_shared<std::vector<std::uint32_t>>(static_cast<std::size_t>(numbers.offset + numbers.length));
  column.names->take(numbers, column.label, own->data() + numbers.offset);
  numbers.buffers[1] = std::as_bytes(std::span(*own));
  owners.push_back(own);
  numbers.type = data_type::dictionary(data_type(type_id::uint32), column.values->type);
  numbers.dictionary = column.values;
}

bool written_dictionaries::will_rewrite(std::size_t number) const {
  return std::ranges::any_of(symbols_, [&](const auto& symbol) { return symbol.number == number; }) ||
         std::ranges::any_of(places_, [&](const place& place) {
           return place.used && place.dictionaries.number() == number && place.dictionaries.has_new_numbers();
         });
}

void written_dictionaries::restore(std::size_t index, host_batch& rows) const {
  for (host_array& array : rows.arrays) {
    own_dictionaries(array, rows.keepalive);
  }
  auto owners = std::make_shared<std::vector<std::shared_ptr<void>>>();
  for (const auto& [dictionaries, used] : places_) {
    if (used) {
      dictionaries.put(index, rows.arrays[dictionaries.number()], *owners);
    }
  }
  for (const symbol_column& column : symbols_) {
    rename_dictionary(column, rows.arrays[column.number], *owners);
  }
  if (!owners->empty()) {
    owners->push_back(std::move(rows.keepalive));
    rows.keepalive = std::move(owners);
  }
}

} // namespace saeta::ipc::detail
