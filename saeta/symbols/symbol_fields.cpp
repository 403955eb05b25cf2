#include "saeta/symbols/symbol_fields.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/symbols/symbols.hpp"

#include <algorithm>
#include <string_view>

namespace saeta {
namespace {

constexpr std::string_view symbol_key = "xlog.symbol";
constexpr std::string_view encoding_key = "xlog.symbol_encoding";
constexpr std::string_view encoding = "u32";
constexpr std::string_view table_key = "saeta.symbol_table";

std::optional<std::string_view> value_of(const metadata_list& metadata, std::string_view key) {
  const auto found = std::ranges::find(metadata, key, &metadata_list::value_type::first);
  return found == metadata.end() ? std::nullopt : std::optional<std::string_view>(found->second);
}

bool declares_symbols(const metadata_list& metadata) {
  return value_of(metadata, symbol_key) == "true" &&
         value_of(metadata, encoding_key).value_or(encoding) == encoding;
}

void remove_keys(metadata_list& metadata) {
  std::erase_if(metadata, [](const auto& entry) {
    return entry.first == symbol_key || entry.first == encoding_key || entry.first == table_key;
  });
}

} // namespace

std::optional<data_type> symbols_by_metadata(const data_type& storage, metadata_list& metadata) {
  if (storage.id() != type_id::uint32 || !storage.extension_name().empty() || !declares_symbols(metadata)) {
    return std::nullopt;
  }
  const auto identity = value_of(metadata, table_key);
  const auto table = identity ? symbol_table::of_identity(*identity) : nullptr;
  if (table == nullptr) {
    return std::nullopt;
  }
  remove_keys(metadata);
  return symbol_type(table);
}

bool becomes_symbols(const field& described) {
  return described.type.id() == type_id::dictionary && can_be_symbols(described.type) &&
         declares_symbols(described.metadata);
}

field resolve_symbols(const field& described) {
  field made = described;
  if (becomes_symbols(described)) {
    made.type = symbol_type();
    remove_keys(made.metadata);
  }
  return made;
}

schema resolve_symbols(schema described) {
  for (field& each : described.fields) {
    if (becomes_symbols(each)) {
      each = resolve_symbols(each);
    }
  }
  return described;
}

field as_symbols(const field& described, const std::shared_ptr<symbol_table>& table) {
  const std::shared_ptr<symbol_table>& into = table != nullptr ? table : process_symbols();
  if (!can_be_symbols(described.type)) {
    throw error(errc::type_mismatch,
                concat("column '", described.name, "' of type ", described.type.name(),
                       " can't become symbols: expected strings, a dictionary of strings, uint32 or int32"));
  }
  const auto identity = value_of(described.metadata, table_key);
  if (identity && described.type.is_integer() && symbol_table::of_identity(*identity) != into) {
    throw error(errc::exchange,
                concat("column '", described.name, "': its numbers are symbols of the table ", *identity,
                       ", which is not in this process: exchange names as dictionaries"));
  }
  if (!identity && table == nullptr && described.type.is_integer() && declares_symbols(described.metadata)) {
    throw error(errc::exchange,
                concat("column '", described.name,
                       "': its numbers are symbols of a table that its metadata do not name: ",
                       "give that table, as in as_symbols(table)"));
  }
  field made = described;
  made.type = symbol_type(into);
  remove_keys(made.metadata);
  return made;
}

field described_as(const field& source, symbol_form form) {
  field made = source;
  if (!source.type.is_symbol()) {
    return made;
  }
  remove_keys(made.metadata);
  made.metadata.emplace_back(symbol_key, "true");
  if (form == symbol_form::numbers) {
    made.type = data_type(type_id::uint32);
    made.metadata.emplace_back(encoding_key, encoding);
    made.metadata.emplace_back(table_key, source.type.symbols()->identity());
  } else {
    made.type = data_type::dictionary(data_type(type_id::uint32), data_type(type_id::string));
  }
  return made;
}

} // namespace saeta
