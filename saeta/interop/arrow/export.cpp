#include "saeta/interop/arrow/export.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/compute/compact.hpp"
#include "saeta/interop/arrow/batches.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/own_memory.hpp"
#include "saeta/symbols/symbol_arrays.hpp"
#include "saeta/transfer/download.hpp"

#include <algorithm>
#include <array>

namespace saeta {
namespace {

using range = std::span<const std::byte>;

/// True if the offset of such an array applies to its children.
bool shares_offset(const data_type& type) noexcept {
  return type.mapping() == row_mapping::same || type.mapping() == row_mapping::fixed_size;
}

bool needs_row_0(const host_array& of, bool below) {
  if (of.offset == 0 || of.length == 0 || !shares_offset(of.type)) {
    return false;
  }
  const auto child_shares = [](const field& child) { return shares_offset(child.type); };
  return of.type.id() != type_id::struct_ || below || std::ranges::any_of(of.type.children(), child_shares);
}

/// The first buffer from row `of.offset` on; nullopt if it must be shifted and can't be.
std::optional<range> find_front_from_row_0(const host_array& of, shifted_bitmaps* shifted) {
  const range front = of.buffers[0];
  if (!of.type.has_validity()) {                               // a sparse union
    return front.subspan(static_cast<std::size_t>(of.offset)); // type ids, a byte each
  }
  if (null_count_of(of) == 0) {
    return range();
  }
  const row_window rows{of.offset, of.length, 0};
  const byte_window window = bytes_of(of.type, 0, rows);
  const range bits = front.subspan(window.offset, window.bytes);
  const int shift = bit_shift(of.type, 0, rows);
  if (shift == 0) {
    return bits;
  }
  if (shifted == nullptr) {
    return std::nullopt;
  }
  return std::as_bytes(std::span(shifted->emplace_back(shifted_bits(bits, shift, of.length))));
}

void push_down(host_array& of, range front) {
  of.buffers[0] = front;
  const child_rows rows = *rows_of_children(of.type, of.offset, of.length);
  for (host_array& child : of.children) {
    child.null_count = nulls_of_part(child.null_count, child.length, rows.count);
    child.offset += rows.first;
    child.length = rows.count;
  }
  of.offset = 0;
}

void push_offsets_down(host_array& of, bool below, shifted_bitmaps* shifted) {
  if (needs_row_0(of, below)) {
    if (const auto front = find_front_from_row_0(of, shifted)) {
      push_down(of, *front);
    }
  }
  for (host_array& child : of.children) {
    push_offsets_down(child, true, shifted);
  }
  if (of.dictionary != nullptr && !of.dictionary->children.empty()) {
    auto own = std::make_shared<host_array>(*of.dictionary);
    push_offsets_down(*own, true, shifted);
    of.dictionary = std::move(own);
  }
}

} // namespace

void push_offsets_down(host_array& of, shifted_bitmaps* shifted) { push_offsets_down(of, false, shifted); }

data_type arrow_type(const data_type& type) {
  return type.is_byte_bool() ? data_type(type_id::boolean) : type;
}

column as_arrow(const column& source) { return source.type().is_byte_bool() ? pack_bool(source) : source; }

batch as_arrow(const batch& source) {
  batch shown{source.rows, {}};
  shown.columns.reserve(source.columns.size());
  for (const column& part : source.columns) {
    shown.columns.push_back(as_arrow(part));
  }
  return shown;
}

namespace {

alignas(64) constexpr std::array<std::byte, 64> zeros{};

/// Private data of one exported array. Each node of a tree owns its children and shares the memory by itself,
/// so a consumer may move a child away and release the rest.
struct exported_array {
  std::vector<const void*> buffers;
  /// Sizes of the data buffers of views. The last entry of `buffers` points to this list.
  std::vector<std::int64_t> variadic_sizes;
  std::vector<arrow_array> children;
  std::vector<ArrowArray*> child_pointers;
  arrow_array dictionary;
  std::shared_ptr<void> keepalive;
};

void release_array(ArrowArray* array) noexcept {
  delete static_cast<exported_array*>(array->private_data);
  array->release = nullptr;
}

/// Makes a struct that points to the node's lists and owns the node.
arrow_array owned_by_struct(std::unique_ptr<exported_array> node, std::int64_t length, std::int64_t offset,
                            std::int64_t null_count) {
  for (arrow_array& child : node->children) {
    node->child_pointers.push_back(&child.get());
  }
  ArrowArray array{};
  array.length = length;
  array.offset = offset;
  array.null_count = null_count;
  array.n_buffers = static_cast<std::int64_t>(node->buffers.size());
  array.buffers = node->buffers.data();
  array.n_children = static_cast<std::int64_t>(node->children.size());
  array.children = node->child_pointers.empty() ? nullptr : node->child_pointers.data();
  array.dictionary = node->dictionary.empty() ? nullptr : &node->dictionary.get();
  array.release = release_array;
  array.private_data = node.release();
  return arrow_array(array);
}

void add_buffers(const host_array& source, const void* nothing, exported_array& node) {
  for (std::size_t i = 0; i < source.buffers.size(); ++i) {
    const void* const pointer = source.length == 0 ? nullptr : source.buffers[i].data();
    const bool optional = source.type.buffer(i).role == buffer_role::validity;
    node.buffers.push_back(pointer == nullptr && !optional ? nothing : pointer);
  }
  if (source.type.has_variadic_buffers()) {
    for (std::size_t i = source.type.buffer_count(); i < source.buffers.size(); ++i) {
      node.variadic_sizes.push_back(source.length == 0 ? 0
                                                       : static_cast<std::int64_t>(source.buffers[i].size()));
    }
    node.buffers.push_back(node.variadic_sizes.empty() ? no_bytes() : node.variadic_sizes.data());
  }
}

} // namespace

const void* no_bytes() noexcept { return zeros.data(); }

std::int64_t null_count_of(const host_array& source) {
  if (source.type.id() == type_id::null) {
    return source.length;
  }
  const bool may_have_nulls =
      source.type.has_validity() && source.length != 0 && source.buffers[0].data() != nullptr;
  return may_have_nulls ? source.null_count : 0;
}

arrow_array build_array(const host_array& source, const std::shared_ptr<void>& keepalive,
                        const void* nothing) {
  auto node = std::make_unique<exported_array>();
  node->keepalive = keepalive;
  add_buffers(source, nothing, *node);
  node->children.reserve(source.children.size());
  for (const host_array& child : source.children) {
    node->children.push_back(build_array(child, keepalive, nothing));
  }
  if (source.dictionary != nullptr) {
    node->dictionary = build_array(*source.dictionary, keepalive, nothing);
  }
  return owned_by_struct(std::move(node), source.length, source.length == 0 ? 0 : source.offset,
                         null_count_of(source));
}

arrow_array exported_struct(const host_batch& source, const void* nothing) {
  auto node = std::make_unique<exported_array>();
  node->buffers.push_back(nullptr);
  node->children.reserve(source.arrays.size());
  for (const host_array& child : source.arrays) {
    node->children.push_back(build_array(child, source.keepalive, nothing));
  }
  return owned_by_struct(std::move(node), source.rows, 0, 0);
}

void append_buffers(const column& from, std::vector<buffer>& views) {
  views.insert(views.end(), from.buffers().begin(), from.buffers().end());
  for (const column& child : from.children()) {
    append_buffers(child, views);
  }
  if (from.dictionary() != nullptr) {
    append_buffers(*from.dictionary(), views);
  }
}

namespace {

/// Lives as long as a consumer has the host memory.
struct host_hand_out {
  explicit host_hand_out(std::span<const buffer> views) : hold(views) {}

  known_export hold;
  shifted_bitmaps shifted;
};

/// Hands out memory that the CPU can read. The hold begins first, so that later writers wait for the
/// consumer.
host_batch hand_out_view(const batch& source) {
  std::vector<buffer> views;
  for (const column& part : source.columns) {
    append_buffers(part, views);
  }
  auto owner = std::make_shared<host_hand_out>(views);
  host_batch view = view_in_place(source);
  synchronize_handover(views);
  for (host_array& array : view.arrays) {
    push_offsets_down(array, &owner->shifted);
  }
  view.keepalive = std::move(owner);
  return view;
}

/// The batches in host memory. One transfer brings all memory that the CPU can't read.
/// @param names  gives dictionaries in place of symbols; null: they stay numbers
std::vector<host_batch> in_host_memory(const std::shared_ptr<context>& ctx, std::span<const batch> sources,
                                       symbol_names* names) {
  std::vector<host_batch> batches(sources.size());
  std::vector<batch> far;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (host_accessible(sources[i])) {
      batches[i] = hand_out_view(sources[i]);
    } else {
      far.push_back(sources[i]);
      places.push_back(i);
    }
  }
  if (!far.empty()) {
    compact(far);
    auto there = download(ctx, far);
    for (std::size_t i = 0; i < places.size(); ++i) {
      batches[places[i]] = std::move(there[i]);
    }
  }
  for (host_batch& batch : batches) {
    if (names != nullptr) {
      names->replace(ctx, batch);
    }
  }
  return batches;
}

} // namespace

std::vector<arrow_array> export_batches(const table& source, std::size_t first, std::size_t count,
                                        symbol_names& names) {
  const auto batches = source.batches();
  if (first > batches.size() || count > batches.size() - first) {
    throw error(errc::out_of_range, concat("batches ", first, " to ", first + count, " of a table with ",
                                           batches.size(), " batches"));
  }
  std::span<const batch> shown = batches.subspan(first, count);
  std::vector<batch> packed;
  if (std::ranges::any_of(source.fields().fields,
                          [](const field& field) { return field.type.is_byte_bool(); })) {
    for (const batch& batch : shown) {
      packed.push_back(as_arrow(batch));
    }
    shown = packed;
  }
  std::vector<arrow_array> arrays;
  for (const host_batch& view : in_host_memory(source.ctx(), shown, &names)) {
    arrays.push_back(exported_struct(view, no_bytes()));
  }
  return arrays;
}

std::vector<arrow_array> export_batches(const table& source, std::size_t first, std::size_t count) {
  symbol_names names(source.fields());
  return export_batches(source, first, count, names);
}

std::vector<host_batch> host_batches(const std::shared_ptr<context>& ctx, std::span<const batch> sources) {
  require_argument(ctx, "ctx");
  std::vector<batch> plain;
  plain.reserve(sources.size());
  std::ranges::transform(sources, std::back_inserter(plain),
                         [](const batch& batch) { return as_arrow(batch); });
  return in_host_memory(ctx, plain, nullptr);
}

streamed_rows stream_rows(const std::shared_ptr<context>& ctx, const batch& source,
                          std::size_t window_bytes) {
  require_argument(ctx, "ctx");
  const batch plain = as_arrow(source);
  auto bytes = std::make_shared<column_stream>(ctx, plain.columns, window_bytes);
  return {{source.rows, bytes->arrays(), bytes}, bytes};
}

arrow_array export_batch(const table& source, std::size_t batch_index) {
  if (batch_index >= source.batches().size()) {
    throw error(errc::out_of_range,
                concat("batch ", batch_index, " of a table with ", source.batches().size(), " batches"));
  }
  return std::move(export_batches(source, batch_index, 1).front());
}

std::vector<arrow_array> export_columns(std::span<const column> sources, symbol_names& names) {
  std::vector<arrow_array> arrays;
  if (sources.empty()) {
    return arrays;
  }
  std::vector<batch> single;
  for (const column& source : sources) {
    single.push_back({source.length(), {as_arrow(source)}});
  }
  for (const host_batch& view : in_host_memory(sources.front().ctx(), single, &names)) {
    arrays.push_back(build_array(view.arrays.front(), view.keepalive, no_bytes()));
  }
  return arrays;
}

arrow_array export_column(const column& source, std::string_view name) {
  symbol_names names({{{std::string(name), source.type(), true, {}}}, {}});
  return std::move(export_columns(std::span(&source, 1), names).front());
}

} // namespace saeta
