#include "saeta/compute/pack_columns.hpp"
#include "saeta/ipc/format/message_encoder.hpp"
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

using detail::buffer_place;
using detail::column_tree;
using detail::message_lists;
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

/// Encodes batches of packed columns. Borrows them, with their dictionaries.
class batch_encoder {
public:
  batch_encoder(const packed_schema& fields, const buffer& body)
      : fields_(fields), body_(body), written_(fields.dictionaries.trees.size()) {
    // Room for one batch, without growing on the way.
    metadata_.reserve(fields.flat.size() + fields.tree.rows * sizeof(detail::field_node) +
                      fields.tree.buffers * sizeof(buffer_place) + 1024);
    detail::append_message(metadata_, fields.flat);
  }

  void add(std::int64_t rows, std::span<const column> columns) {
    message_lists lists;
    lists.rows = rows;
    lists.nodes.reserve(fields_.tree.rows);
    lists.buffers.reserve(fields_.tree.buffers);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      add(columns[i], fields_.tree, fields_.tree.roots[i], lists);
    }
    append(lists, std::nullopt);
  }

  std::vector<std::byte> finish() {
    detail::append_end_of_stream(metadata_);
    return std::move(metadata_);
  }

private:
  void append(const message_lists& lists, std::optional<std::int64_t> dictionary) {
    detail::append_batch_message(metadata_, lists, dictionary, static_cast<std::int64_t>(body_.size()));
  }

  void add(const column& of, const column_tree& tree, std::size_t number, message_lists& lists) {
    lists.nodes.push_back({of.length(), of.known_null_count()});
    const std::size_t own = of.type().buffer_count();
    for (std::size_t i = 0; i < of.buffers().size(); ++i) {
      lists.buffers.push_back(place_of(of, i));
    }
    if (of.type().has_variadic_buffers()) {
      lists.variadic_counts.push_back(static_cast<std::int64_t>(of.buffers().size() - own));
    }
    std::size_t child = number + 1;
    for (std::size_t i = 0; i < of.children().size(); ++i, child = tree.nodes[child].end) {
      add(of.child(i), tree, child, lists);
    }
    if (of.dictionary() != nullptr && of.length() != 0) {
      add_dictionary(*of.dictionary(), tree.nodes[number].dictionary);
    }
  }

  /// Adds a dictionary, unless the last message of its id has the same values.
  void add_dictionary(const column& values, std::size_t number) {
    const column*& last = written_[number];
    if (last != nullptr && (last == &values || same_memory(*last, values))) {
      return;
    }
    message_lists lists;
    lists.rows = values.length();
    add(values, *fields_.dictionaries.trees[number], 0, lists);
    append(lists, fields_.dictionaries.ids[number]);
    last = &values;
  }

  [[nodiscard]] buffer_place place_of(const column& of, std::size_t index) const {
    const buffer& bytes = of.buffers()[index];
    const buffer_spec spec = of.type().buffer(index);
    const bool no_nulls = spec.role == buffer_role::validity && of.known_null_count() == 0;
    if (of.length() == 0 || bytes.size() == 0 || no_nulls) {
      return {};
    }
    const std::size_t size = spec.role == buffer_role::bytes
                                 ? bytes.size()
                                 : bytes_of_rows(spec, 0, static_cast<std::size_t>(of.length())).bytes;
    return {static_cast<std::int64_t>(bytes.address() - body_.address()), static_cast<std::int64_t>(size)};
  }

  const packed_schema& fields_;
  const buffer& body_;
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
  const std::vector<batch> named = symbols.empty() ? std::vector<batch>() : with_names(source, symbols);
  const std::span<const batch> batches = symbols.empty() ? source.batches() : named;
  if (auto body = find_packed(batches)) {
    batch_encoder encoder(*fields, *body);
    for (const batch& each : batches) {
      encoder.add(each.rows, each.columns);
    }
    return {encoder.finish(), *std::move(body), symbols.empty()};
  }
  const packed_columns packed = pack_columns(source.ctx(), batches, pack_tag);
  batch_encoder encoder(*fields, packed.body);
  std::span<const column> left = packed.columns;
  for (const batch& each : batches) {
    encoder.add(each.rows, left.first(each.columns.size()));
    left = left.subspan(each.columns.size());
  }
  return {encoder.finish(), packed.body, false};
}

} // namespace saeta::ipc
