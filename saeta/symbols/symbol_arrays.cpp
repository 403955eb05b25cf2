#include "saeta/symbols/symbol_arrays.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/download.hpp"

#include <algorithm>
#include <string_view>

namespace saeta {
namespace {

constexpr std::string_view symbol_key = "xlog.symbol";
constexpr std::string_view encoding_key = "xlog.symbol_encoding";
constexpr std::string_view encoding = "u32";
constexpr std::string_view table_key = "saeta.symbol_table";

std::optional<std::string_view> value_of(const metadata_list& metadata, std::string_view key) {
  const auto match = std::ranges::find(metadata, key, &metadata_list::value_type::first);
  return match == metadata.end() ? std::nullopt : std::optional<std::string_view>(match->second);
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
  field field = described;
  if (becomes_symbols(described)) {
    field.type = symbol_type();
    remove_keys(field.metadata);
  }
  return field;
}

schema resolve_symbols(schema described) {
  for (field& field : described.fields) {
    if (becomes_symbols(field)) {
      field = resolve_symbols(field);
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
  field field = described;
  field.type = symbol_type(into);
  remove_keys(field.metadata);
  return field;
}

field described_as(const field& source, symbol_form form) {
  field field = source;
  if (!source.type.is_symbol()) {
    return field;
  }
  remove_keys(field.metadata);
  field.metadata.emplace_back(symbol_key, "true");
  if (form == symbol_form::numbers) {
    field.type = data_type(type_id::uint32);
    field.metadata.emplace_back(encoding_key, encoding);
    field.metadata.emplace_back(table_key, source.type.symbols()->identity());
  } else {
    field.type = data_type::dictionary(data_type(type_id::uint32), data_type(type_id::string));
  }
  return field;
}

namespace {

/// Host memory of an export. The consumer keeps it.
struct exported_indices {
  std::shared_ptr<void> source; ///< keeps the rest of the batch
  std::vector<buffer> charged;
  /// For contexts of devices and of a parent process, which have no host memory to give.
  std::vector<std::vector<std::uint32_t>> plain;
  std::vector<std::shared_ptr<void>> names;
};

/// Allocates memory for `count` indices.
std::uint32_t* room_for(const std::shared_ptr<context>& ctx, std::int64_t count, exported_indices& kept) {
  const auto indices = static_cast<std::size_t>(count);
  if (!ctx->on_host() || ctx->inherited()) {
    return kept.plain.emplace_back(indices).data();
  }
  const buffer& charged = kept.charged.emplace_back(
      buffer::allocate(ctx, checked_mul(indices, sizeof(std::uint32_t), "bytes of indices"),
                       ctx->work_stream(), "arrow export"));
  use_token token(ctx->work_stream(), {writes(charged)});
  return token.span<std::uint32_t>(charged).data();
}

} // namespace

wire_symbols::wire_symbols(std::shared_ptr<context> ctx, std::span<const field> fields,
                           const host_batch& source, dictionary_cache& known)
    : ctx_(required(std::move(ctx), "ctx")), source_(source), known_(known) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (becomes_symbols(fields[i])) {
      columns_.push_back(
          {i, concat("column '", fields[i].name, "'"), known.find_symbols(*source.arrays[i].dictionary)});
    }
  }
}

host_batch wire_symbols::without_dictionaries() {
  host_batch plain = source_;
  for (entry& column : columns_) {
    const host_array& dictionary = *source_.arrays[column.number].dictionary;
    if (column.mapping == nullptr) {
      intern_values(column, dictionary);
    }
    plain.arrays[column.number] = codes_of(source_.arrays[column.number]);
  }
  return plain;
}

void wire_symbols::intern_values(entry& entry, const host_array& values) const {
  try {
    entry.mapping = std::make_shared<const symbol_mapping>(ctx_, values, process_symbols());
  } catch (const error& why) {
    throw why.refusal() != nullptr ? why : error(why.code(), concat(entry.label, ": ", why.message()));
  }
}

void wire_symbols::apply(batch& placed) {
  for (entry& entry : columns_) {
    column& target = placed.columns[entry.number];
    if (entry.mapping == nullptr) {
      const host_batch values = download(ctx_, {target.dictionary()->length(), {*target.dictionary()}});
      intern_values(entry, values.arrays.front());
    }
    target = entry.mapping->apply(target.dictionary() != nullptr ? codes_of(target) : target);
  }
  // This comes after everything that can fail, because a failed source may be released at once.
  for (const entry& column : columns_) {
    known_.remember(*source_.arrays[column.number].dictionary, column.mapping, source_.keepalive);
  }
}

symbol_names::symbol_names(const schema& fields) {
  columns_.resize(fields.fields.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const field& field = fields.fields[i];
    columns_[i] = {field.name.empty() ? "symbols" : concat("column '", field.name, "'"),
                   symbol_dictionary::of(field.type)};
  }
}

void symbol_names::replace(const std::shared_ptr<context>& ctx, host_batch& rows) {
  require_argument(ctx, "ctx");
  std::shared_ptr<exported_indices> kept;
  for (std::size_t i = 0; i < rows.arrays.size(); ++i) {
    symbol_dictionary* const names = columns_[i].names.get();
    if (names == nullptr) {
      continue;
    }
    if (kept == nullptr) {
      kept = std::make_shared<exported_indices>();
      kept->source = rows.keepalive;
    }
    const host_array source = std::move(rows.arrays[i]);
    const std::int64_t skipped = source.offset % 8; // the validity begins at a whole byte
    std::uint32_t* const indices = room_for(ctx, skipped + source.length, *kept);
    std::fill_n(indices, skipped, 0U);
    names->take(source, columns_[i].label, indices + skipped);
    host_array& array = rows.arrays[i];
    array = {};
    array.dictionary = std::make_shared<const host_array>(names->values());
    kept->names.push_back(names->keepalive());
    array.type = data_type::dictionary(data_type(type_id::uint32), array.dictionary->type);
    array.length = source.length;
    array.offset = skipped;
    array.null_count = source.null_count;
    const std::span<const std::byte> validity = source.buffers[0];
    array.buffers = {
        validity.data() == nullptr ? validity : validity.subspan(static_cast<std::size_t>(source.offset / 8)),
        std::as_bytes(std::span(indices, static_cast<std::size_t>(skipped + source.length)))};
  }
  if (kept != nullptr) {
    rows.keepalive = std::move(kept);
  }
}

} // namespace saeta
