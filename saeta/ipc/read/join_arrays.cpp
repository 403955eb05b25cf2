// The parts of a dictionary as one array: the plan of a whole read joins them, carried out on the host.
#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/ipc/read/host_columns.hpp"
#include "saeta/ipc/read/whole_plan.hpp"
#include "saeta/staging/kernel_step.hpp"
#include "saeta/transfer/host_array.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace saeta::ipc::detail {
namespace {

std::uint64_t address_of(const std::byte* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

/// Names the rows that a part contributes to a node and to the nodes below.
/// @param of  has offset 0
void name_rows(piece_table& pieces, std::size_t piece, std::size_t number, const host_array& of,
               const child_rows& used) {
  piece_span& span = pieces.span(piece, number);
  span.first = used.first;
  span.rows = used.count;
  if (span.rows == 0) {
    return;
  }
  for (std::size_t i = 0; i < of.type.buffer_count(); ++i) {
    span.at[i] = address_of(of.buffers[i].data());
  }
  if (of.type.has_validity() && !of.buffers[0].empty()) {
    span.nulls = nulls_of_part(of.null_count, of.length, span.rows);
  }
  const child_rows pointed = rows_pointed_to(of, window_of(of.type, span.first, span.rows));
  span.pointed_first = pointed.first;
  span.pointed = pointed.count;
  if (of.type.has_variadic_buffers()) {
    std::vector<variadic_buffer>& list = pieces.variadic[piece];
    span.variadic = list.size();
    span.variadic_count = of.buffers.size() - of.type.buffer_count();
    for (const auto& bytes : std::span(of.buffers).subspan(of.type.buffer_count())) {
      list.push_back({address_of(bytes.data()), bytes.size()});
    }
  }
  std::size_t child = number + 1;
  for (const host_array& each : of.children) {
    name_rows(pieces, piece, child, each,
              select_child_rows(of.type, span.first, span.rows, pointed, each.length));
    child = pieces.tree->nodes[child].end;
  }
}

/// Carries out a plan whose sources are addresses.
void run_now(const scatter_plan& plan, std::byte* slab) {
  std::fill_n(slab, plan.zeroed_bytes, std::byte{0});
  auto* const counters = reinterpret_cast<std::int64_t*>(slab + plan.counters_at);
  const std::int64_t* const tables = plan.tables.data();
  std::vector<join_step> steps;
  for (const scatter_step& fill : plan.fills) {
    steps.push_back(kernel_step(fill, nullptr, slab, counters));
  }
  for (const scatter_step& step : plan.steps) {
    steps.push_back(
        kernel_step(step, reinterpret_cast<const std::byte*>(step.source), slab, counters, tables));
  }
  join_now(steps);
  steps.clear();
  for (const scatter_fix& fix : plan.fixes) {
    steps.push_back(kernel_step(fix, slab, tables));
  }
  join_now(steps);
}

/// @param last  the last part
host_array array_of(const planned_table& joined, const whole_plan& plan, std::span<std::byte> slab,
                    std::size_t number, const host_array& last) {
  const planned_node& planned = joined.groups.front().nodes[number];
  const auto in_slab = [&](const slab_place& place) {
    return place.present() ? slab.subspan(plan.byte_of(place), place.bytes) : std::span<std::byte>();
  };
  host_array array;
  array.type = last.type;
  array.length = joined.groups.front().pieces.sums[number].rows;
  array.null_count = array.type.id() == type_id::null ? array.length : 0;
  if (planned.counter != scatter_step::not_counted) {
    const std::size_t at = plan.steps().counters_at + planned.counter * sizeof array.null_count;
    std::memcpy(&array.null_count, &slab[at], sizeof array.null_count);
  }
  for (std::size_t i = 0; i < array.type.buffer_count(); ++i) {
    array.buffers.push_back(in_slab(planned.buffers[i]));
  }
  for (const slab_place& place : planned.variadic) {
    array.buffers.push_back(in_slab(place));
  }
  array.dictionary = last.dictionary; // it begins with the values of the earlier ones
  std::size_t child = number + 1;
  for (const host_array& each : last.children) {
    array.children.push_back(array_of(joined, plan, slab, child, each));
    child = joined.pieces.tree->nodes[child].end;
  }
  return array;
}

} // namespace

host_array join_arrays(const std::shared_ptr<context>& ctx, const column_tree& tree,
                       std::span<const host_array> parts, std::vector<std::shared_ptr<void>>& owners) {
  planned_table joined;
  joined.pieces.tree = &tree;
  joined.pieces.messages.resize(parts.size());
  joined.pieces.resize_lists();
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    name_rows(joined.pieces, i, 0, parts[i], {0, parts[i].length});
    rows += parts[i].length;
  }
  for (piece_group& group : take_groups(joined.pieces, [](std::size_t) { return false; })) {
    joined.groups.push_back({std::move(group), {}});
  }
  if (joined.groups.size() != 1) {
    throw error(errc::overflow,
                concat("the parts of its dictionary have ", rows,
                       " values together, with more values or bytes than their offsets or run "
                       "ends can count"));
  }
  whole_plan plan(validation::structure, false, nullptr);
  plan.lay_out(joined);
  plan.end_layout();
  plan.add_steps(joined);
  plan.finish();
  const owned_bytes slab = allocate_body(ctx, plan.steps().slab_bytes);
  owners.push_back(slab.owner);
  run_now(plan.steps(), slab.bytes.data());
  return array_of(joined, plan, slab.bytes, 0, parts.back());
}

} // namespace saeta::ipc::detail
