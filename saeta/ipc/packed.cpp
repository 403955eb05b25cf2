#include "saeta/ipc/packed.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/compact.hpp"
#include "saeta/compute/pack_columns.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/metadata_encoder.hpp"
#include "saeta/ipc/format/packed_schema.hpp"
#include "saeta/ipc/read/planned_source.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/symbols/symbol_arrays.hpp"
#include "saeta/symbols/symbols.hpp"
#include "saeta/transfer/download.hpp"
#include "saeta/transfer/upload.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace saeta::ipc {
namespace {

using detail::column_tree;
using detail::packed_schema;

constexpr const char* pack_tag = "pack";

/// The batches with dictionaries of names in place of symbols.
/// @param numbers  of the columns with symbols
std::vector<batch> with_names(const table& source, std::span<const std::size_t> numbers) {
  std::vector<batch> batches(source.batches().begin(), source.batches().end());
  schema fields;
  for (const std::size_t number : numbers) {
    fields.fields.push_back(source.fields().fields[number]);
  }
  const std::shared_ptr<context>& ctx = source.ctx();
  symbol_names names(fields);
  for (batch& source_batch : batches) {
    batch symbols{source_batch.rows, {}};
    std::vector<use> uses;
    for (const std::size_t number : numbers) {
      symbols.columns.push_back(source_batch.columns[number]);
      std::ranges::transform(source_batch.columns[number].buffers(), std::back_inserter(uses), reads);
    }
    const use_token written(ctx->work_stream(), uses); // a host context downloads nothing
    host_batch there = download(ctx, symbols);
    names.replace(ctx, there);
    dictionary_cache none;
    const batch named = upload(ctx, there, none, {.tag = pack_tag, .readable = {}, .file = {}});
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      source_batch.columns[numbers[i]] = named.columns[i];
    }
  }
  return batches;
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
    for (const packed_rows& batch : columns_.batches) {
      add(batch, fields_.tree, std::nullopt);
    }
    detail::append_end_of_stream(metadata_);
    return std::move(metadata_);
  }

private:
  /// @param dictionary  the id of the dictionary whose values these are; nullopt: they are a batch of rows
  void add(const packed_rows& of, const column_tree& tree, std::optional<std::int64_t> dictionary) {
    for (const packed_rows::dictionary_use& use : of.dictionaries) {
      add_dictionary(columns_.dictionaries[use.dictionary], tree.nodes[use.node].dictionary);
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

packed_table pack(const table& source, std::size_t alignment) {
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
  std::optional<packed_columns> packed = find_packed(batches, alignment);
  const bool in_place = packed.has_value();
  if (!in_place) {
    packed = pack_columns(source.ctx(), batches, pack_tag);
  }
  return {message_writer(*fields, *packed).run(), packed->body, in_place && !own};
}

namespace {

using detail::batch_layout;
using detail::buffer_place;
using detail::column_tree;
using detail::field_node;
using detail::message_header;
using detail::message_kind;
using detail::packed_schema;
using detail::tree_node;

constexpr const char* form_name = "packed table";
constexpr std::size_t body_unit = 8; // the largest alignment that a kernel needs

/// The messages of the metadata, one after the other.
class message_list {
public:
  explicit message_list(std::span<const std::byte> metadata) : metadata_(metadata) {}

  /// Returns the FlatBuffer of the next message; nullopt at the end of the stream.
  std::optional<std::span<const std::byte>> next() {
    const std::size_t left = metadata_.size() - at_;
    const bool complete = left >= detail::prefix_bytes;
    const auto prefix = complete ? detail::read_prefix(metadata_.subspan(at_)) : detail::message_prefix();
    const auto size = static_cast<std::uint64_t>(prefix.metadata);
    if (!complete || prefix.is_old() || size > left - detail::prefix_bytes) {
      throw error(errc::format, concat("its metadata of ", metadata_.size(), " bytes is truncated at byte ",
                                       at_, ", or is not an Arrow IPC stream"));
    }
    const auto flat = metadata_.subspan(at_ + detail::prefix_bytes, size);
    at_ += detail::prefix_bytes + flat.size();
    if (!flat.empty()) {
      return flat;
    }
    if (at_ != metadata_.size()) {
      throw error(errc::format, concat("its metadata of ", metadata_.size(),
                                       " bytes goes on after the end of the stream at byte ", at_));
    }
    return std::nullopt;
  }

private:
  std::span<const std::byte> metadata_;
  std::size_t at_ = 0;
};

/// Makes the columns of a message over slices of the body.
class body_slices {
public:
  using parts = column::parts;
  using array = column;

  /// @param checked  the values are checked afterwards
  body_slices(const std::shared_ptr<context>& ctx, const buffer& body, const batch_layout& batch,
              std::span<const std::shared_ptr<const column>> dictionaries, bool checked)
      : ctx_(ctx), body_(body), batch_(batch), dictionaries_(dictionaries), checked_(checked) {
    if (batch.codec != detail::body_codec::none) {
      throw error(errc::unsupported, "its body is compressed");
    }
  }

  void add_buffer(parts& to, std::size_t number, const field_node&) const {
    const buffer_place place = batch_.buffers[number];
    to.buffers.push_back(place.length == 0 ? buffer()
                                           : body_.slice(static_cast<std::size_t>(place.offset),
                                                         static_cast<std::size_t>(place.length)));
  }

  /// A null count of 0 is believed, whatever the bitmap says, as a read of a file does. Other counts are
  /// believed only where nothing is checked.
  void set_nulls(parts& to, const field_node& rows) const {
    to.null_count = rows.null_count;
    if (!to.type.has_validity()) {
      return;
    }
    if (rows.null_count == 0) {
      to.buffers[0] = {};
    } else if (!to.buffers[0].present()) {
      throw error(errc::format,
                  concat(rows.null_count, " nulls in ", rows.length, " rows without a validity"));
    } else if (checked_) {
      to.null_count = column::unknown_nulls;
    }
  }

  [[nodiscard]] std::shared_ptr<const column> dictionary(const tree_node& node, std::int64_t rows) const {
    if (const auto& known = dictionaries_[node.dictionary]) {
      return known;
    }
    if (rows != 0 && !checked_) { // if `checked_`, a check of the batch requires every row to be null
      throw error(errc::format,
                  concat("no message before its batch has the dictionary of its ", rows, " rows"));
    }
    return std::make_shared<const column>(column::empty(ctx_, *node.type->value_type()));
  }

  [[nodiscard]] column empty(const data_type& type) const { return column::empty(ctx_, type); }

  [[nodiscard]] column finish(parts&& from, const tree_node&) const {
    return column::make(ctx_, std::move(from));
  }

private:
  const std::shared_ptr<context>& ctx_;
  const buffer& body_;
  const batch_layout& batch_;
  std::span<const std::shared_ptr<const column>> dictionaries_;
  bool checked_;
};

using slice_columns = detail::message_columns<body_slices>;

class unpacking {
public:
  unpacking(const std::shared_ptr<context>& ctx, std::span<const std::byte> metadata, const buffer& body,
            validation check)
      : ctx_(ctx), body_(body), messages_(metadata), checker_(ctx), checks_(check == validation::full) {}

  table run() {
    const auto front = messages_.next();
    if (!front || detail::read_header(*front).kind != message_kind::schema) {
      throw error(errc::format, "its metadata does not begin with a schema");
    }
    auto [form, shown] = detail::decode_schema(*front);
    fields_ = std::move(form);
    schema_ = std::move(shown);
    dictionaries_.resize(fields_->dictionaries.trees.size());
    is_checked_.resize(dictionaries_.size());
    while (const auto flat = messages_.next()) {
      add(*flat);
    }
    return table::make_sharing(ctx_, schema_, std::move(batches_));
  }

private:
  void add(std::span<const std::byte> flat) {
    try {
      const message_header header = detail::read_header(flat);
      if (header.version != detail::version_5) {
        throw error(errc::unsupported, "its metadata is not of version 5");
      }
      if (static_cast<std::uint64_t>(header.body_bytes) > body_.size()) {
        throw error(errc::format, concat("it was packed with a body of ", header.body_bytes, " bytes, found ",
                                         body_.size()));
      }
      const bool rows = header.kind == message_kind::record_batch;
      const batch_layout layout = detail::read_layout(header, rows ? &fields_->tree : nullptr);
      if (layout.dictionary) {
        add_dictionary(*layout.dictionary, layout);
      } else {
        batches_.push_back(read_batch(layout));
      }
    } catch (const error& failure) {
      rethrow(failure, concat("batch ", batches_.size()));
    }
  }

  void add_dictionary(std::int64_t id, const batch_layout& batch) {
    const auto known = fields_->dictionaries.numbers.find(id);
    if (known == fields_->dictionaries.numbers.end()) {
      throw detail::unknown_dictionary(id);
    }
    if (batch.is_delta) {
      throw error(errc::unsupported, concat("dictionary ", id, " comes in parts"));
    }
    const auto& tree = *fields_->dictionaries.trees[known->second];
    batch.require_entries(tree);
    body_slices slices(ctx_, body_, batch, dictionaries_, checks_);
    dictionaries_[known->second] =
        std::make_shared<const column>(slice_columns(batch, tree, slices).take(0, tree.values.type));
    is_checked_[known->second] = false;
  }

  /// Checks the dictionaries of a batch. As in a read, a dictionary that is replaced before a batch uses it
  /// is not checked.
  void check_dictionaries() {
    for (const tree_node& node : fields_->tree.nodes) {
      const std::size_t number = node.dictionary;
      if (number == detail::no_node || dictionaries_[number] == nullptr || is_checked_[number]) {
        continue;
      }
      const auto& tree = *fields_->dictionaries.trees[number];
      checker_.check_dictionary(dictionaries_[number], {tree.root_label, tree.values.type, true, {}});
      column::count_nulls(std::span(dictionaries_[number].get(), 1));
      is_checked_[number] = true;
    }
  }

  batch read_batch(const batch_layout& layout) {
    batch batch{layout.rows, {}};
    const column_tree& tree = fields_->tree;
    layout.require_entries(tree);
    body_slices slices(ctx_, body_, layout, dictionaries_, checks_);
    slice_columns entries(layout, tree, slices);
    batch.columns.reserve(tree.roots.size());
    for (std::size_t i = 0; i < tree.roots.size(); ++i) {
      const data_type& shown = fields_->shown.fields[i].type;
      const data_type& described = fields_->fields.fields[i].type;
      batch.columns.push_back(entries.take(tree.roots[i], shown.is_byte_bool() ? shown : described));
      if (batch.columns.back().length() != batch.rows) {
        throw error(errc::format, concat(tree.label(tree.roots[i]), ": ", batch.columns.back().length(),
                                         " rows in a batch of ", batch.rows));
      }
    }
    if (checks_) {
      check_dictionaries();
      checker_.check(batch.columns, fields_->fields.fields);
      column::count_nulls(batch.columns);
    }
    for (std::size_t i = 0; i < batch.columns.size(); ++i) {
      const data_type& shown = fields_->shown.fields[i].type;
      if (shown.is_symbol() && !batch.columns[i].type().is_symbol()) {
        batch.columns[i] = as_symbols(std::span(&batch.columns[i], 1), shown.symbols()).front();
      }
    }
    return batch;
  }

  const std::shared_ptr<context>& ctx_;
  const buffer& body_;
  message_list messages_;
  column_checker checker_;
  bool checks_;
  std::shared_ptr<const schema_index> schema_;
  std::shared_ptr<const packed_schema> fields_;
  std::vector<std::shared_ptr<const column>> dictionaries_; ///< the latest values of each
  std::vector<bool> is_checked_;                            ///< whether these values are checked
  std::vector<batch> batches_;
};

} // namespace

table unpack(const std::shared_ptr<context>& ctx, std::span<const std::byte> metadata, const buffer& body,
             validation check) {
  require_argument(ctx, "ctx");
  if (body.address() % body_unit != 0) {
    throw error(errc::invalid_argument, concat(form_name, ": its body is at address ", body.address(),
                                               ", which is not a multiple of ", body_unit, ": copy it"));
  }
  try {
    return unpacking(ctx, metadata, body, check).run();
  } catch (const error& failure) {
    rethrow_input(failure, form_name);
  }
}

} // namespace saeta::ipc
