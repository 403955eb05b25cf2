#include "saeta/symbols/symbols.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/symbols/symbol_rows.hpp"
#include "saeta/transfer/download.hpp"
#include "saeta/transfer/upload.hpp"

#include <algorithm>
#include <iterator>

namespace saeta {
namespace {

bool is_text(const data_type& type) noexcept {
  return type.extension_name().empty() &&
         (type.id() == type_id::string || type.id() == type_id::large_string ||
          type.id() == type_id::string_view);
}

/// Integers that can be used as symbols.
bool is_number(const data_type& type) noexcept {
  return type.extension_name().empty() && type.is_integer() && type.byte_width() == symbol_width;
}

/// Brings the rows to the host, after waiting for pending writes.
host_batch fetch_rows(const column& source) {
  host_batch batch = download(source.ctx(), {source.length(), {source}});
  if (source.ctx()->on_host()) {
    std::vector<use> uses;
    std::ranges::transform(source.buffers(), std::back_inserter(uses), reads);
    const use_token written(source.ctx()->work_stream(), uses);
  }
  return batch;
}

/// Makes symbols of rows that have no dictionary and uploads them to the column's context.
template <class NameOf>
column make_symbol_rows(const std::shared_ptr<context>& ctx, const host_array& source,
                        const std::shared_ptr<symbol_table>& table, NameOf name_of) {
  const std::int64_t skipped = source.offset % 8; // so that the validity begins at a whole byte
  std::vector<symbol> symbols(as_size(skipped + source.length));
  intern_rows(source, *table, name_of,
              [&](std::int64_t row, symbol found) { symbols[as_size(skipped + row)] = found; });
  host_batch batch{source.length, {}, nullptr};
  host_array& only = batch.arrays.emplace_back();
  only.type = symbol_type(table);
  only.length = source.length;
  only.offset = skipped;
  only.null_count = source.null_count;
  const std::span<const std::byte> validity = source.buffers[0];
  only.buffers = {validity.data() == nullptr ? validity : validity.subspan(as_size(source.offset / 8)),
                  std::as_bytes(std::span(symbols))};
  dictionary_cache none;
  return upload(ctx, batch, none, {.tag = symbols_tag, .readable = {}, .file = {}}).columns.front();
}

/// @throws error out_of_range for the first row whose number is not a symbol of the table
void require_symbols(const column& numbers, const symbol_table& table) {
  if (numbers.length() == 0) {
    return;
  }
  const auto& ctx = numbers.ctx();
  const use_token token(ctx->work_stream(), {reads(numbers.values()), reads(numbers.validity())});
  value_check check;
  check.kind = check_kind::indices;
  check.width = symbol_width;
  check.values =
      token.span<const std::byte>(numbers.values()).data() + as_size(numbers.offset()) * symbol_width;
  check.validity = token.span<const std::uint8_t>(numbers.validity()).data();
  check.bit_offset = numbers.offset();
  check.count = numbers.length();
  check.limit = static_cast<std::int64_t>(table.size());
  number_tiles(std::span(&check, 1));
  const device_copy<value_check> uploaded(ctx, std::span(&check, 1));
  const std::int64_t bad =
      kernel_results(ctx, 1, uploaded.memory(), [&](const use_token& described, std::int64_t* rows) {
        ctx->kernels().check_values(described.stream().native_handle(), std::span(&check, 1),
                                    uploaded.data(described), rows);
      }).front();
  if (bad != no_bad_row) {
    const value_request request{.at =
                                    static_cast<const std::byte*>(check.values) + as_size(bad) * symbol_width,
                                .width = check.width};
    const std::int64_t number = read_values(ctx, std::span(&request, 1)).front();
    throw error(errc::out_of_range, concat("row ", bad, ": symbol ", static_cast<symbol>(number),
                                           " is not in the symbol table, which has ", check.limit, " names"));
  }
}

} // namespace

data_type symbol_type(const std::shared_ptr<symbol_table>& table) {
  const std::shared_ptr<symbol_table>& names = table != nullptr ? table : process_symbols();
  const std::uint64_t number = names->number();
  return data_type::of_symbols(names,
                               number == 0 ? std::string("symbol") : concat("symbol[table ", number, "]"));
}

const data_type* code_type(const data_type& type) noexcept {
  static const data_type numbers(type_id::uint32);
  return type.is_symbol() ? &numbers : type.index_type();
}

column codes_of(const column& source) { return relabel(source, *code_type(source.type())); }

host_array codes_of(const host_array& source) {
  host_array array = source;
  array.type = *code_type(source.type);
  array.dictionary = nullptr;
  return array;
}

std::optional<std::int64_t> code_limit(const host_array& of) {
  if (of.type.is_symbol()) {
    return static_cast<std::int64_t>(of.type.symbols()->size());
  }
  return of.dictionary == nullptr
             ? std::nullopt
             : std::optional(std::min(of.dictionary->length, max_entries(*of.type.index_type())));
}

bool can_be_symbols(const data_type& type) noexcept {
  return type.is_symbol() || is_text(type) || is_number(type) ||
         (type.id() == type_id::dictionary && type.extension_name().empty() && is_text(*type.value_type()));
}

std::vector<column> as_symbols(std::span<const column> pieces, const std::shared_ptr<symbol_table>& table) {
  require_argument(table, "table");
  const data_type type = symbol_type(table);
  std::vector<column> columns;
  std::unique_ptr<const symbol_mapping> mapping;
  const column* mapped = nullptr; // dictionary of `mapping`; pieces of one source share it
  for (const column& piece : pieces) {
    const data_type& from = piece.type();
    const auto& ctx = piece.ctx();
    if (from == type) {
      columns.push_back(piece);
    } else if (from.is_symbol()) {
      const host_batch rows = fetch_rows(piece);
      const host_array& there = rows.arrays.front();
      columns.push_back(make_symbol_rows(
          ctx, there, table, [&](std::int64_t row) { return from.symbols()->name(symbol_at(there, row)); }));
    } else if (is_text(from)) {
      const host_batch rows = fetch_rows(piece);
      const host_array& there = rows.arrays.front();
      columns.push_back(
          make_symbol_rows(ctx, there, table, [&](std::int64_t row) { return text_at(there, row); }));
    } else if (is_number(from)) {
      require_symbols(piece, *table);
      columns.push_back(relabel(piece, type));
    } else if (can_be_symbols(from)) {
      if (piece.dictionary() != mapped) {
        const host_batch values = fetch_rows(*piece.dictionary());
        mapping = std::make_unique<const symbol_mapping>(ctx, values.arrays.front(), table);
        mapped = piece.dictionary();
      }
      columns.push_back(mapping->apply(codes_of(piece)));
    } else {
      throw error(
          errc::type_mismatch,
          concat("a column of ", from.name(),
                 " can't become symbols: expected strings, a dictionary of strings, uint32 or int32"));
    }
  }
  return columns;
}

} // namespace saeta
