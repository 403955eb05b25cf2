#include "saeta/interop/arrow/import.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/interop/own_memory.hpp"
#include "saeta/symbols/symbol_arrays.hpp"

#include <algorithm>

namespace saeta {
namespace {

batch place_unchanged(const std::shared_ptr<context>& ctx, const host_batch& view,
                      dictionary_cache& dictionaries, const import_options& options) {
  const bool wanted = ctx->on_host() && options.copy != copy_policy::always;
  if (wanted && std::ranges::all_of(view.arrays, aligned)) {
    return adopt(ctx, view, dictionaries, {.tag = options.upload.tag, .own = find_own(*ctx, {})});
  }
  if (options.copy == copy_policy::never) {
    throw error(errc::exchange,
                concat("arrow: without a copy the array can't be used on ", to_string(ctx->device()),
                       ctx->on_host() ? ": its buffers are not aligned" : ": it is in host memory"));
  }
  return upload(ctx, view, dictionaries, options.upload);
}

batch place(const std::shared_ptr<context>& ctx, const host_batch& view, std::span<const field> fields,
            dictionary_cache& dictionaries, const import_options& options) {
  wire_symbols symbols(ctx, fields, view, dictionaries);
  if (!symbols.any()) {
    return place_unchanged(ctx, view, dictionaries, options);
  }
  if (options.copy == copy_policy::never) {
    throw error(errc::exchange, concat("arrow: ", symbols.first_label(),
                                       ": a dictionary can't become symbols without a copy of its indices"));
  }
  batch placed = place_unchanged(ctx, symbols.without_dictionaries(), dictionaries, options);
  symbols.apply(placed);
  return placed;
}

placed_batch place_and_take(const std::shared_ptr<context>& ctx, host_batch view,
                            std::span<const field> fields, ArrowArray& source, dictionary_cache& dictionaries,
                            const import_options& options) {
  // The columns share an owner that is still empty, so a failure leaves the struct with the caller.
  const auto owner = std::make_shared<arrow_array>();
  view.keepalive = owner;
  placed_batch placed = place_view(ctx, std::move(view), fields, dictionaries, options);
  owner->take(source);
  return placed;
}

} // namespace

placed_batch place_view(const std::shared_ptr<context>& ctx, host_batch view, std::span<const field> fields,
                        dictionary_cache& dictionaries, const import_options& options) {
  if (options.check == validation::full) {
    check_values(view.arrays, fields, dictionaries, in_host_memory(), options.scope);
  }
  batch placed = place(ctx, view, fields, dictionaries, options);
  return {std::move(placed), std::move(view)};
}

placed_batch place_batch(const std::shared_ptr<context>& ctx, const schema& fields, ArrowArray& source,
                         dictionary_cache& dictionaries, const import_options& options) {
  return place_and_take(ctx, view_batch(fields, source, in_host_memory(), options.scope), fields.fields,
                        source, dictionaries, options);
}

placed_batch place_column(const std::shared_ptr<context>& ctx, const field& described, ArrowArray& source,
                          dictionary_cache& dictionaries, const import_options& options) {
  host_batch view;
  view.arrays.push_back(view_array(described.type, source, array_place::column(described.name)));
  view.rows = source.length;
  return place_and_take(ctx, std::move(view), std::span(&described, 1), source, dictionaries, options);
}

batch import_batch(const std::shared_ptr<context>& ctx, const schema& fields, ArrowArray& source,
                   dictionary_cache& dictionaries, const import_options& options) {
  require_argument(ctx, "ctx");
  return place_batch(ctx, fields, source, dictionaries, options).columns;
}

column import_column(const std::shared_ptr<context>& ctx, const field& described, ArrowArray& source,
                     const import_options& options) {
  require_argument(ctx, "ctx");
  dictionary_cache dictionaries;
  return place_column(ctx, described, source, dictionaries, options).columns.columns.front();
}

} // namespace saeta
