#include "saeta/ipc/read/whole_plan.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/column/column.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/device/kernels.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace saeta::ipc::detail {
namespace {

std::size_t as_size(std::int64_t number) { return static_cast<std::size_t>(number); }

bool holds_run_ends(const column_tree& tree, std::size_t number) {
  const tree_node& node = tree.nodes[number];
  return node.parent != no_node && node.child == 0 &&
         tree.nodes[node.parent].type->layout() == layout_kind::run_ends;
}

} // namespace

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
    const bool late = role == buffer_role::bytes && has_late_bytes(table.pieces, group.pieces, number);
    node.buffers[i] = slab_.add_buffer(type, i, rows, group.pieces.sums[number].pointed, !late);
  }
  if (type.layout() != layout_kind::views) {
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
void whole_plan::add_offsets(const data_type& type, const piece_span& span, const planned_node& node,
                             std::int64_t rows) {
  const auto width = static_cast<std::int32_t>(type.offset_width());
  const bool is_last = span.row_base + span.rows == rows;
  const std::int64_t addend = span.pointed_base - span.pointed_first;
  if (!span.late) {
    scatter_step& step = slab_.add_offsets(span, width, node.buffers[1], is_last);
    if (addend == 0) { // a plain copy can be read directly into its place
      step.kind = join_kind::copy;
      step.count *= width;
    }
  } else if (addend != 0) {
    slab_.made().moves.push_back({.kind = join_kind::add,
                                  .width = width,
                                  .target = byte_of(node.buffers[1]) + as_size(span.row_base * width),
                                  .count = span.rows + (is_last ? 1 : 0),
                                  .add = {addend}});
  }
  if (type.layout() == layout_kind::bytes) {
    slab_.add_bytes(span, node.buffers[2]);
  }
}

scatter_check& whole_plan::add_check(check_kind kind, const planned_table& table, std::size_t node,
                                     std::size_t first, std::size_t end) {
  checks_.push_back({&table, node, first, end});
  scatter_check& made = slab_.made().checks.emplace_back();
  made.kind = kind;
  return made;
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
  constexpr std::int32_t width = 16;
  const piece_span& span = table.pieces.span(piece, number);
  const std::size_t before = std::exchange(node.variadic_done, node.variadic_done + span.variadic_count);
  const std::uint64_t target = byte_of(node.buffers[1]) + as_size(span.row_base * width);
  slab_.add_values(span, 1, width, node.buffers[1]);
  const std::span places = std::span(node.variadic).subspan(before, span.variadic_count);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const variadic_buffer& source = table.pieces.variadic[piece][span.variadic + i];
    slab_.add_copy(source.at, places[i], 0, static_cast<std::int64_t>(source.bytes));
  }
  if (before != 0) {
    slab_.made().fixes.push_back({.kind = join_kind::views,
                                  .target = target,
                                  .count = span.rows,
                                  .views = {static_cast<std::int64_t>(before)}});
  }
  if (check_ != validation::full) {
    return;
  }
  scatter_check& check = add_check(check_kind::views, table, number, piece, piece + 1);
  check.values = target;
  check.count = span.rows;
  check.limit = static_cast<std::int64_t>(places.size());
  check.table = slab_.made().tables.size();
  name_validity(node, span.row_base, check);
  for (const slab_place& each : places) {
    slab_.made().tables.push_back(static_cast<std::int64_t>(each.bytes));
  }
  for (const slab_place& each : places) {
    if (each.present()) {
      slab_.made().addresses.push_back(slab_.made().tables.size());
    }
    slab_.made().tables.push_back(each.present() ? static_cast<std::int64_t>(byte_of(each)) : 0);
  }
  if (places.empty()) {
    check.table = scatter_check::absent;
  }
  if (texts_ && table.pieces.tree->nodes[number].type->id() == type_id::string_view) {
    const scatter_check same = check;
    add_check(check_kind::text_views, table, number, piece, piece + 1) = same;
    slab_.made().checks.back().kind = check_kind::text_views;
  }
}

void whole_plan::add_list_view(const planned_table& table, std::size_t piece, std::size_t number,
                               const planned_node& node) {
  const data_type& type = *table.pieces.tree->nodes[number].type;
  const piece_span& span = table.pieces.span(piece, number);
  const piece_span& child = table.pieces.span(piece, number + 1);
  const std::int32_t width = type.buffer(1).width;
  slab_.add_values(span, 1, width, node.buffers[1]);
  slab_.add_values(span, 2, width, node.buffers[2]);
  const std::uint64_t row = as_size(span.row_base * width);
  if (child.row_base != 0) {
    slab_.made().fixes.push_back({.kind = join_kind::add,
                                  .width = width,
                                  .target = byte_of(node.buffers[1]) + row,
                                  .count = span.rows,
                                  .add = {child.row_base}});
  }
  if (check_ == validation::full) {
    scatter_check& check = add_check(check_kind::list_views, table, number, piece, piece + 1);
    check.width = width;
    check.values = byte_of(node.buffers[1]) + row;
    check.second = byte_of(node.buffers[2]) + row;
    check.count = span.rows;
    check.limit = child.rows;
  }
}

void whole_plan::add_union(const planned_table& table, std::size_t piece, std::size_t number,
                           const planned_node& node) {
  constexpr std::size_t fixed_ids = 128;   // type ids that a fix looks up
  constexpr std::size_t checked_ids = 256; // type ids as unsigned bytes
  const column_tree& tree = *table.pieces.tree;
  const data_type& type = *tree.nodes[number].type;
  const bool dense = type.layout() == layout_kind::dense_union;
  const piece_span& span = table.pieces.span(piece, number);
  const std::uint64_t ids = byte_of(node.buffers[0]) + as_size(span.row_base);
  const std::uint64_t offsets =
      dense ? byte_of(node.buffers[1]) + as_size(span.row_base) * sizeof(std::int32_t) : 0;
  slab_.add_values(span, 0, type.buffer(0).width, node.buffers[0]);
  if (dense) {
    slab_.add_values(span, 1, type.buffer(1).width, node.buffers[1]);
  }
  const std::size_t first = slab_.made().tables.size();
  slab_.made().tables.resize(first + fixed_ids + checked_ids);
  const auto bases = slab_.made().tables.begin() + static_cast<std::ptrdiff_t>(first);
  const auto known = bases + fixed_ids;
  std::fill_n(known, checked_ids, -1);
  bool moved = false;
  std::size_t child = number + 1;
  for (const std::int8_t code : type.type_codes()) {
    const piece_span& rows = table.pieces.span(piece, child);
    bases[code] = rows.row_base;
    known[code] = rows.rows;
    moved = moved || rows.row_base != 0;
    child = tree.nodes[child].end;
  }
  if (dense && moved) {
    slab_.made().fixes.push_back({.kind = join_kind::unions,
                                  .width = sizeof(std::int32_t),
                                  .target = offsets,
                                  .count = span.rows,
                                  .unions = {.ids = ids, .bases = first}});
  }
  if (check_ == validation::full) {
    scatter_check& check = add_check(check_kind::unions, table, number, piece, piece + 1);
    check.values = ids;
    check.second = dense ? offsets : scatter_check::absent;
    check.count = span.rows;
    check.table = first + fixed_ids;
  }
}

/// Consecutive pieces whose dictionaries have the same number of values share one check.
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
    const dictionary_state state = states_(table, piece, node.dictionary);
    const std::int64_t limit = std::min(state.length, most_entries(*node.type->index_type()));
    if (open && slab_.made().checks.back().limit == limit) {
      slab_.made().checks.back().count += span.rows;
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
  const bool offsets = type.offset_width() != 0;
  if (offsets || type.layout() == layout_kind::run_ends) {
    const std::size_t from = offsets ? number : number + 1;
    scatter_check& check = add_check(offsets ? check_kind::offsets : check_kind::run_ends, table, number,
                                     group.pieces.first, group.pieces.end);
    check.width = offsets ? static_cast<std::int32_t>(type.offset_width())
                          : table.pieces.tree->nodes[from].type->byte_width();
    check.values = byte_of(group.nodes[from].buffers[1]);
    check.count = offsets ? rows : group.pieces.sums[from].rows;
    if (texts_ && (type.id() == type_id::string || type.id() == type_id::large_string)) {
      add_text_check(table, group, number);
    }
  } else if (type.id() == type_id::dictionary) {
    add_index_checks(table, group, number);
  }
}

void whole_plan::add_piece(const planned_table& table, planned_group& group, std::size_t piece,
                           std::size_t number) {
  const column_tree& tree = *table.pieces.tree;
  const data_type& type = *tree.nodes[number].type;
  const piece_span& span = table.pieces.span(piece, number);
  planned_node& node = group.nodes[number];
  if (span.rows == 0 || holds_run_ends(tree, number)) {
    return;
  }
  if (type.has_validity()) {
    add_validity(span, node);
  }
  switch (type.layout()) {
  case layout_kind::bits:
    slab_.add_bits(span, 1, node.buffers[1]);
    break;
  case layout_kind::fixed:
    slab_.add_values(span, 1, type.byte_width(), node.buffers[1]);
    break;
  case layout_kind::bytes:
  case layout_kind::list:
    add_offsets(type, span, node, group.pieces.sums[number].rows);
    break;
  case layout_kind::list_view:
    add_list_view(table, piece, number, node);
    break;
  case layout_kind::views:
    add_views(table, piece, number, node);
    break;
  case layout_kind::dense_union:
  case layout_kind::sparse_union:
    add_union(table, piece, number, node);
    break;
  case layout_kind::run_ends:
    slab_.add_run_ends(span, table.pieces.span(piece, number + 1), tree.nodes[number + 1].type->byte_width(),
                       group.nodes[number + 1].buffers[1]);
    break;
  default:
    break;
  }
}

void whole_plan::add_steps(planned_table& table) {
  // Most nodes of a piece have one step. Growing the vector step by step cost more than everything else here.
  slab_.made().steps.reserve(slab_.made().steps.size() + table.pieces.spans.size());
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
  sort_by_source(slab_.made().steps);
}

} // namespace saeta::ipc::detail
