#include "saeta/symbols/symbol_arrays.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/symbols/symbol_fields.hpp"
#include "saeta/transfer/download.hpp"

#include <algorithm>

namespace saeta {
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
  const buffer& made = kept.charged.emplace_back(
      buffer::allocate(ctx, checked_mul(indices, sizeof(std::uint32_t), "bytes of indices"),
                       ctx->work_stream(), "arrow export"));
  use_token token(ctx->work_stream(), {writes(made)});
  return token.mutable_data<std::uint32_t>(made);
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
  for (entry& each : columns_) {
    const host_array& dictionary = *source_.arrays[each.number].dictionary;
    if (each.mapping == nullptr) {
      intern_values(each, dictionary);
    }
    plain.arrays[each.number] = codes_of(source_.arrays[each.number]);
  }
  return plain;
}

void wire_symbols::intern_values(entry& each, const host_array& values) const {
  try {
    each.mapping = std::make_shared<const symbol_mapping>(ctx_, values, process_symbols());
  } catch (const error& why) {
    throw why.refusal() != nullptr ? why : error(why.code(), concat(each.label, ": ", why.message()));
  }
}

void wire_symbols::apply(batch& placed) {
  for (entry& each : columns_) {
    column& target = placed.columns[each.number];
    if (each.mapping == nullptr) {
      const host_batch values = download(ctx_, {target.dictionary()->length(), {*target.dictionary()}});
      intern_values(each, values.arrays.front());
    }
    target = each.mapping->apply(target.dictionary() != nullptr ? codes_of(target) : target);
  }
  // This comes after everything that can fail, because a failed source may be released at once.
  for (const entry& each : columns_) {
    known_.remember(*source_.arrays[each.number].dictionary, each.mapping, source_.keepalive);
  }
}

symbol_names::symbol_names(const schema& fields) {
  columns_.resize(fields.fields.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const field& each = fields.fields[i];
    columns_[i] = {each.name.empty() ? "symbols" : concat("column '", each.name, "'"),
                   symbol_dictionary::of(each.type)};
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
    host_array& made = rows.arrays[i];
    made = {};
    made.dictionary = std::make_shared<const host_array>(names->values());
    kept->names.push_back(names->keepalive());
    made.type = data_type::dictionary(data_type(type_id::uint32), made.dictionary->type);
    made.length = source.length;
    made.offset = skipped;
    made.null_count = source.null_count;
    const std::span<const std::byte> validity = source.buffers[0];
    made.buffers = {
        validity.data() == nullptr ? validity : validity.subspan(static_cast<std::size_t>(source.offset / 8)),
        std::as_bytes(std::span(indices, static_cast<std::size_t>(skipped + source.length)))};
  }
  if (kept != nullptr) {
    rows.keepalive = std::move(kept);
  }
}

} // namespace saeta
