#include "saeta/compute/compact.hpp"
#include "saeta/compute/pack_columns.hpp"
#include "saeta/ipc/format/metadata_encoder.hpp"
#include "saeta/ipc/format/packed_schema.hpp"
#include "saeta/ipc/packed.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/symbols/symbol_arrays.hpp"
#include "saeta/transfer/download.hpp"
#include "saeta/transfer/upload.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace saeta::ipc {
namespace {

using detail::column_tree;
using detail::packed_schema;

constexpr const char* pack_tag = "pack";

/// The batches with dictionaries of names in place of symbols.
/// @param numbers  of the columns with symbols
std::vector<batch> with_names(const table& source, std::span<const std::size_t> numbers) {
  std::vector<batch> made(source.batches().begin(), source.batches().end());
  schema fields;
  for (const std::size_t number : numbers) {
    fields.fields.push_back(source.fields().fields[number]);
  }
  const std::shared_ptr<context>& ctx = source.ctx();
  symbol_names names(fields);
  for (batch& each : made) {
    batch symbols{each.rows, {}};
    std::vector<use> uses;
    for (const std::size_t number : numbers) {
      symbols.columns.push_back(each.columns[number]);
      std::ranges::transform(each.columns[number].buffers(), std::back_inserter(uses), reads);
    }
    const use_token written(ctx->work_stream(), uses); // a host context downloads nothing
    host_batch there = download(ctx, symbols);
    names.replace(ctx, there);
    dictionary_cache none;
    const batch named = upload(ctx, there, none, {.tag = pack_tag, .readable = {}, .file = {}});
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      each.columns[numbers[i]] = named.columns[i];
    }
  }
  return made;
}

/// Encodes packed columns. Borrows them.
class message_writer {
public:
  message_writer(const packed_schema& fields, const packed_columns& columns)
      : fields_(fields), columns_(columns), written_(fields.dictionaries.trees.size(), nullptr) {}

  std::vector<std::byte> run() {
    // Room for one batch, without growing on the way.
    metadata_.reserve(fields_.flat.size() + fields_.tree.rows * sizeof(packed_node) +
                      fields_.tree.buffers * sizeof(packed_range) + 1024);
    detail::append_message(metadata_, fields_.flat);
    for (const packed_rows& each : columns_.batches) {
      add(each, fields_.tree, std::nullopt);
    }
    detail::append_end_of_stream(metadata_);
    return std::move(metadata_);
  }

private:
  /// @param dictionary  the id of the dictionary whose values these are; nullopt: they are a batch of rows
  void add(const packed_rows& of, const column_tree& tree, std::optional<std::int64_t> dictionary) {
    for (const packed_rows::dictionary_use& each : of.dictionaries) {
      add_dictionary(columns_.dictionaries[each.dictionary], tree.nodes[each.node].dictionary);
    }
    detail::append_batch_message(metadata_, of, {.dictionary = dictionary},
                                 static_cast<std::int64_t>(columns_.body.size()));
  }

  /// Adds a dictionary, unless the last message of its id has the same values.
  void add_dictionary(const packed_columns::dictionary& of, std::size_t number) {
    const column*& last = written_[number];
    if (last != nullptr && (last == of.from || same_memory(*last, *of.from))) {
      return;
    }
    add(of.values, *fields_.dictionaries.trees[number], fields_.dictionaries.ids[number]);
    last = of.from;
  }

  const packed_schema& fields_;
  const packed_columns& columns_;
  std::vector<const column*> written_; ///< the values of each dictionary in its last message
  std::vector<std::byte> metadata_;
};

} // namespace

packed_table pack(const table& source) {
  const auto fields = detail::packed_form(*source.shared_fields());
  std::vector<std::size_t> symbols;
  for (std::size_t i = 0; i < source.column_count(); ++i) {
    if (source.fields().fields[i].type.is_symbol()) {
      symbols.push_back(i);
    }
  }
  std::vector<batch> batches = symbols.empty() ? std::vector(source.batches().begin(), source.batches().end())
                                               : with_names(source, symbols);
  const bool own = compact(batches) || !symbols.empty();
  std::optional<packed_columns> packed = find_packed(batches);
  const bool in_place = packed.has_value();
  if (!in_place) {
    packed = pack_columns(source.ctx(), batches, pack_tag);
  }
  return {message_writer(*fields, *packed).run(), packed->body, in_place && !own};
}

} // namespace saeta::ipc
