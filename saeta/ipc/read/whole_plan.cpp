#include "saeta/ipc/read/whole_plan.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/column/column.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/device/kernels.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/symbols/symbol_table.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace saeta::ipc::detail {
namespace {

std::size_t as_size(std::int64_t number) { return static_cast<std::size_t>(number); }

bool holds_run_ends(const column_tree& tree, std::size_t number) {
  const tree_node& node = tree.nodes[number];
  return node.parent != no_node && node.child == 0 &&
         tree.nodes[node.parent].type->mapping() == row_mapping::run_ends;
}

void sort_by_source(std::vector<scatter_step>& steps) {
  const auto earlier = [](const scatter_step& a, const scatter_step& b) { return a.source < b.source; };
  if (!std::ranges::is_sorted(steps, earlier)) {
    std::ranges::stable_sort(steps, earlier);
  }
}

bool has_deferred_bytes(const piece_table& pieces, const piece_group& group, std::size_t number) {
  if (pieces.tree->nodes[number].type->offset_width() == 0) {
    return false;
  }
  for (std::size_t piece = group.first; piece != group.end; ++piece) {
    if (pieces.span(piece, number).deferred) {
      return true;
    }
  }
  return false;
}

/// Calls `visit(code, span)` for each child of a union.
template <class Visit>
void for_each_child(const planned_table& table, std::size_t piece, std::size_t number, Visit visit) {
  const column_tree& tree = *table.pieces.tree;
  std::size_t child = number + 1;
  for (const std::int8_t code : tree.nodes[number].type->type_codes()) {
    visit(code, table.pieces.span(piece, child));
    child = tree.nodes[child].end;
  }
}

} // namespace

std::uint64_t whole_plan::rows_at(const data_type& type, std::size_t index, const piece_span& span,
                                  const planned_node& node) const {
  return byte_of(node.buffers[index]) + as_size(span.row_base * type.buffer(index).width);
}

void whole_plan::lay_out_validity(planned_group& group, std::size_t number) {
  const node_sums& sums = group.pieces.sums[number];
  if (!sums.counts_nulls) {
    return;
  }
  planned_node& node = group.nodes[number];
  node.buffers[0] = slab_.add_place(bitmap_bytes(sums.rows), true);
  node.counter = slab_.add_counter();
}

void whole_plan::lay_out_node(const planned_table& table, planned_group& group, std::size_t number) {
  const data_type& type = *table.pieces.tree->nodes[number].type;
  const std::int64_t rows = group.pieces.sums[number].rows;
  planned_node& node = group.nodes[number];
  for (std::size_t i = 0; i < type.buffer_count() && rows != 0; ++i) {
    const buffer_role role = type.buffer(i).role;
    if (role == buffer_role::validity) {
      lay_out_validity(group, number);
      continue;
    }
    const bool deferred =
        role == buffer_role::bytes && has_deferred_bytes(table.pieces, group.pieces, number);
    node.buffers[i] = slab_.add_buffer(type, i, rows, group.pieces.sums[number].pointed, !deferred);
  }
  if (!node.buffers[0].present() && !holds_run_ends(*table.pieces.tree, number)) {
    node.copied_width = type.byte_width();
  }
  if (!type.has_variadic_buffers()) {
    return;
  }
  for (std::size_t piece = group.pieces.first; piece != group.pieces.end; ++piece) {
    const piece_span& span = table.pieces.span(piece, number);
    for (std::size_t i = 0; i < span.variadic_count; ++i) {
      node.variadic.push_back(slab_.add_place(table.pieces.variadic[piece][span.variadic + i].bytes));
    }
  }
}

void whole_plan::lay_out(planned_table& table) {
  for (planned_group& group : table.groups) {
    group.nodes.resize(table.pieces.tree->nodes.size());
    for (std::size_t number = 0; number < group.nodes.size(); ++number) {
      lay_out_node(table, group, number);
    }
  }
}

void whole_plan::add_validity(const piece_span& span, planned_node& node) {
  if (!node.buffers[0].present()) {
    return;
  }
  if (span.nulls != 0) {
    slab_.add_bits(span, 0, node.buffers[0], node.counter);
  } else {
    slab_.add_ones(span, node.buffers[0], node.ones);
  }
}

/// Late offsets are in the slab already and only need their addend.
void whole_plan::add_offsets(std::int32_t width, const piece_span& span, const planned_node& node,
                             std::int64_t rows) {
  const bool is_last = span.row_base + span.rows == rows;
  const std::int64_t addend = span.pointed_base - span.pointed_first;
  if (!span.deferred) {
    scatter_step& step = slab_.add_offsets(span, width, node.buffers[1], is_last);
    if (addend == 0) { // a plain copy can be read directly into its place
      step.kind = join_kind::copy;
      step.count *= width;
    }
  } else if (addend != 0) {
    slab_.plan().moves.push_back({.kind = join_kind::add,
                                  .width = width,
                                  .target = byte_of(node.buffers[1]) + as_size(span.row_base * width),
                                  .count = span.rows + (is_last ? 1 : 0),
                                  .add = {addend}});
  }
}

scatter_check& whole_plan::add_check(check_kind kind, const planned_table& table, std::size_t node,
                                     std::size_t first, std::size_t end) {
  checks_.push_back({&table, node, first, end});
  scatter_check& check = slab_.plan().checks.emplace_back();
  check.kind = kind;
  return check;
}

void whole_plan::name_validity(const planned_node& node, std::int64_t row, scatter_check& check) const {
  if (node.buffers[0].present()) {
    check.validity = byte_of(node.buffers[0]);
    check.bit_offset = row;
  }
}

/// A piece counts its variadic buffers from 0, a group counts them through all of its pieces, so views are
/// adjusted.
void whole_plan::add_views(const planned_table& table, std::size_t piece, std::size_t number,
                           planned_node& node) {
  const data_type& type = *table.pieces.tree->nodes[number].type;
  const piece_span& span = table.pieces.span(piece, number);
  const std::size_t before = std::exchange(node.variadic_done, node.variadic_done + span.variadic_count);
  slab_.add_unchanged(span, type, 1, node.buffers[1]);
  const std::span places = std::span(node.variadic).subspan(before, span.variadic_count);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const variadic_buffer& source = table.pieces.variadic[piece][span.variadic + i];
    slab_.add_copy(source.at, places[i], 0, static_cast<std::int64_t>(source.bytes));
  }
  if (before != 0) {
    slab_.plan().fixes.push_back({.kind = join_kind::views,
                                  .target = rows_at(type, 1, span, node),
                                  .count = span.rows,
                                  .views = {static_cast<std::int64_t>(before)}});
  }
}

/// A piece counts the rows of its child from 0, as it does for union rows.
void whole_plan::add_list_starts(const planned_table& table, std::size_t piece, std::size_t number,
                                 const planned_node& node) {
  const data_type& type = *table.pieces.tree->nodes[number].type;
  const piece_span& span = table.pieces.span(piece, number);
  const piece_span& child = table.pieces.span(piece, number + 1);
  slab_.add_unchanged(span, type, 1, node.buffers[1]);
  if (child.row_base != 0) {
    slab_.plan().fixes.push_back({.kind = join_kind::add,
                                  .width = type.buffer(1).width,
                                  .target = rows_at(type, 1, span, node),
                                  .count = span.rows,
                                  .add = {child.row_base}});
  }
}

void whole_plan::add_union_rows(const planned_table& table, std::size_t piece, std::size_t number,
                                const planned_node& node) {
  constexpr std::size_t type_ids = 128;
  const data_type& type = *table.pieces.tree->nodes[number].type;
  const piece_span& span = table.pieces.span(piece, number);
  slab_.add_unchanged(span, type, 1, node.buffers[1]);
  std::array<std::int64_t, type_ids> bases{};
  for_each_child(table, piece, number, [&](std::int8_t code, const piece_span& child) {
    bases[static_cast<std::uint8_t>(code)] = child.row_base;
  });
  if (std::ranges::any_of(bases, [](std::int64_t base) { return base != 0; })) {
    std::vector<std::int64_t>& tables = slab_.plan().tables;
    slab_.plan().fixes.push_back({.kind = join_kind::unions,
                                  .width = type.buffer(1).width,
                                  .target = rows_at(type, 1, span, node),
                                  .count = span.rows,
                                  .unions = {.ids = rows_at(type, 0, span, node), .bases = tables.size()}});
    tables.insert(tables.end(), bases.begin(), bases.end());
  }
}

/// Checks values as they are in the source, before a fix changes them.
void whole_plan::add_piece_check(const planned_table& table, std::size_t piece, std::size_t number,
                                 const planned_node& node) {
  const data_type& type = *table.pieces.tree->nodes[number].type;
  const auto kind = type.check();
  const bool of_groups = // add_group_checks
      kind == check_kind::offsets || kind == check_kind::run_ends || kind == check_kind::indices;
  if (check_ != validation::full || !kind || of_groups) {
    return;
  }
  const piece_span& span = table.pieces.span(piece, number);
  const std::size_t first = type.has_validity() ? 1 : 0;
  scatter_check& check = add_check(*kind, table, number, piece, piece + 1);
  check.width = type.buffer(first).width;
  check.values = rows_at(type, first, span, node);
  check.count = span.rows;
  if (type.buffer_count() > first + 1) {
    check.second = rows_at(type, first + 1, span, node);
  }
  switch (*kind) {
  case check_kind::list_views:
    check.limit = table.pieces.span(piece, number + 1).rows;
    break;
  case check_kind::unions: {
    constexpr std::size_t type_ids = 256; // every value of a byte
    std::vector<std::int64_t>& tables = slab_.plan().tables;
    check.table = tables.size();
    tables.resize(tables.size() + type_ids, -1);
    for_each_child(table, piece, number, [&](std::int8_t code, const piece_span& child) {
      tables[check.table + static_cast<std::size_t>(code)] = child.rows;
    });
    break;
  }
  case check_kind::views:
    name_validity(node, span.row_base, check);
    add_variadic_table(
        std::span(node.variadic).subspan(node.variadic_done - span.variadic_count, span.variadic_count),
        check);
    if (texts_ && type.id() == type_id::string_view) {
      const scatter_check same = check;
      add_check(check_kind::text_views, table, number, piece, piece + 1) = same;
      slab_.plan().checks.back().kind = check_kind::text_views;
    }
    break;
  case check_kind::offsets:
  case check_kind::indices:
  case check_kind::run_ends:
  case check_kind::texts:
  case check_kind::text_views:
    break;
  }
}

/// Adds the sizes of the buffers behind views, then their addresses.
void whole_plan::add_variadic_table(std::span<const slab_place> places, scatter_check& check) {
  check.limit = static_cast<std::int64_t>(places.size());
  if (places.empty()) {
    return;
  }
  std::vector<std::int64_t>& tables = slab_.plan().tables;
  check.table = tables.size();
  for (const slab_place& place : places) {
    tables.push_back(static_cast<std::int64_t>(place.bytes));
  }
  for (const slab_place& place : places) {
    if (place.present()) {
      slab_.plan().addresses.push_back(tables.size());
    }
    tables.push_back(place.present() ? static_cast<std::int64_t>(byte_of(place)) : 0);
  }
}

/// Consecutive pieces whose dictionaries have the same number of values share one check. So do all pieces of
/// symbols, which have a table in place of a dictionary.
void whole_plan::add_index_checks(const planned_table& table, const planned_group& group,
                                  std::size_t number) {
  const tree_node& node = table.pieces.tree->nodes[number];
  const std::int32_t width = node.type->byte_width();
  const planned_node& planned = group.nodes[number];
  bool open = false;
  for (std::size_t piece = group.pieces.first; piece != group.pieces.end; ++piece) {
    const piece_span& span = table.pieces.span(piece, number);
    if (span.rows == 0) {
      continue;
    }
    const std::int64_t limit = node.type->is_symbol()
                                   ? static_cast<std::int64_t>(node.type->symbols()->size())
                                   : std::min(dictionaries_->state(table, piece, node.dictionary).length,
                                              max_entries(*node.type->index_type()));
    if (open && slab_.plan().checks.back().limit == limit) {
      slab_.plan().checks.back().count += span.rows;
      checks_.back().end = piece + 1;
      continue;
    }
    open = true;
    scatter_check& check = add_check(check_kind::indices, table, number, piece, piece + 1);
    check.width = width;
    check.values = byte_of(planned.buffers[1]) + as_size(span.row_base * width);
    check.count = span.rows;
    check.limit = limit;
    name_validity(planned, span.row_base, check);
  }
}

void whole_plan::add_text_check(const planned_table& table, const planned_group& group, std::size_t number) {
  const planned_node& node = group.nodes[number];
  if (!node.buffers[2].present()) {
    return;
  }
  scatter_check& check = add_check(check_kind::texts, table, number, group.pieces.first, group.pieces.end);
  check.width = static_cast<std::int32_t>(table.pieces.tree->nodes[number].type->offset_width());
  check.values = byte_of(node.buffers[1]);
  check.second = byte_of(node.buffers[2]);
  check.count = group.pieces.sums[number].rows;
  check.limit = group.pieces.sums[number].pointed;
  name_validity(node, 0, check);
}

/// The first and last offsets of pieces were checked before. So offsets that ascend within a group ascend
/// within every piece.
void whole_plan::add_group_checks(const planned_table& table, const planned_group& group,
                                  std::size_t number) {
  const data_type& type = *table.pieces.tree->nodes[number].type;
  const std::int64_t rows = group.pieces.sums[number].rows;
  if (check_ != validation::full || rows == 0) {
    return;
  }
  const auto kind = type.check();
  if (kind == check_kind::offsets || kind == check_kind::run_ends) {
    const bool runs = kind == check_kind::run_ends;
    const std::size_t from = runs ? number + 1 : number;
    scatter_check& check = add_check(*kind, table, number, group.pieces.first, group.pieces.end);
    check.width = table.pieces.tree->nodes[from].type->buffer(1).width;
    check.values = byte_of(group.nodes[from].buffers[1]);
    check.count = group.pieces.sums[from].rows;
    if (texts_ && (type.id() == type_id::string || type.id() == type_id::large_string)) {
      add_text_check(table, group, number);
    }
  } else if (kind == check_kind::indices) {
    add_index_checks(table, group, number);
  }
}

void whole_plan::add_piece(const planned_table& table, planned_group& group, std::size_t piece,
                           std::size_t number) {
  const column_tree& tree = *table.pieces.tree;
  const data_type& type = *tree.nodes[number].type;
  const piece_span& span = table.pieces.span(piece, number);
  planned_node& node = group.nodes[number];
  if (node.copied_width != 0) { // most columns; wide tables and small batches have many pieces of them
    return slab_.add_values(span, 1, node.copied_width, node.buffers[1]);
  }
  if (span.rows == 0 || holds_run_ends(tree, number)) {
    return;
  }
  for (std::size_t i = 0; i < type.buffer_count(); ++i) {
    switch (type.buffer(i).role) {
    case buffer_role::validity:
      add_validity(span, node);
      break;
    case buffer_role::views:
      add_views(table, piece, number, node);
      break;
    case buffer_role::offsets:
      add_offsets(type.buffer(i).width, span, node, group.pieces.sums[number].rows);
      break;
    case buffer_role::starts:
      add_list_starts(table, piece, number, node);
      break;
    case buffer_role::union_rows:
      add_union_rows(table, piece, number, node);
      break;
    case buffer_role::bits:
    case buffer_role::values:
    case buffer_role::sizes:
    case buffer_role::type_ids:
    case buffer_role::bytes:
      slab_.add_unchanged(span, type, i, node.buffers[i]);
      break;
    }
  }
  if (type.mapping() == row_mapping::run_ends) {
    slab_.add_run_ends(span, table.pieces.span(piece, number + 1), tree.nodes[number + 1].type->byte_width(),
                       group.nodes[number + 1].buffers[1]);
  }
  add_piece_check(table, piece, number, node);
}

void whole_plan::add_steps(planned_table& table) {
  // Most nodes of a piece have one step. Growing the vector step by step cost more than everything else here.
  slab_.plan().steps.reserve(slab_.plan().steps.size() + table.pieces.spans.size());
  for (planned_group& group : table.groups) {
    for (std::size_t piece = group.pieces.first; piece != group.pieces.end; ++piece) {
      for (std::size_t number = 0; number < group.nodes.size(); ++number) {
        add_piece(table, group, piece, number);
      }
    }
    for (std::size_t number = 0; number < group.nodes.size(); ++number) {
      add_group_checks(table, group, number);
    }
  }
}

void whole_plan::finish() {
  slab_.clear_padding();
  sort_by_source(slab_.plan().steps);
}

// Compressed strings: their offsets are decoded first, into the slab, and then give the range of their bytes.

void whole_plan::add_deferred_offsets(const planned_table& table) {
  for (const planned_group& group : table.groups) {
    for (std::size_t number = 0; number < group.nodes.size(); ++number) {
      if (!has_deferred_bytes(table.pieces, group.pieces, number)) {
        continue;
      }
      for (std::size_t piece = group.pieces.first; piece != group.pieces.end; ++piece) {
        const piece_span& span = table.pieces.span(piece, number);
        if (!span.deferred) {
          continue;
        }
        const std::size_t width = table.pieces.tree->nodes[number].type->offset_width();
        const bool last = span.row_base + span.rows == group.pieces.sums[number].rows;
        scatter_step& step = slab_.plan().early.emplace_back();
        step.source = span.at[1] + static_cast<std::uint64_t>(span.first) * width;
        step.target =
            byte_of(group.nodes[number].buffers[1]) + static_cast<std::uint64_t>(span.row_base) * width;
        step.count = (span.rows + (last ? 1 : 0)) * static_cast<std::int64_t>(width);
      }
    }
  }
  sort_by_source(slab_.plan().early);
}

void whole_plan::settle_bytes(planned_table& table, planned_group& group, std::size_t number,
                              const std::function<seen_borders(std::uint64_t at)>& borders) {
  piece_table& pieces = table.pieces;
  const data_type& type = *pieces.tree->nodes[number].type;
  std::int64_t pointed = 0;
  for (std::size_t piece = group.pieces.first; piece != group.pieces.end; ++piece) {
    piece_span& span = pieces.span(piece, number);
    if (span.deferred) {
      try {
        const seen_borders seen = borders(span.at[1]);
        name_pointed(type, span, seen.first, seen.last);
      } catch (const error& failure) {
        rethrow(failure, concat(pieces.place(piece), ": ", pieces.tree->label(number)));
      }
    }
    span.pointed_base = pointed;
    pointed += span.pointed; // at most the size that was laid out
  }
  group.pieces.sums[number].pointed = pointed;
  slab_place& bytes = group.nodes[number].buffers[2];
  bytes = pointed == 0 ? slab_place() : slab_place{bytes.at, static_cast<std::uint64_t>(pointed), bytes.bits};
  slab_.pad(bytes);
}

void whole_plan::settle(planned_table& table, const std::function<seen_borders(std::uint64_t at)>& borders) {
  for (planned_group& group : table.groups) {
    for (std::size_t number = 0; number < group.nodes.size(); ++number) {
      if (has_deferred_bytes(table.pieces, group.pieces, number)) {
        settle_bytes(table, group, number, borders);
      }
    }
  }
}

} // namespace saeta::ipc::detail
