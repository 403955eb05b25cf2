#include "saeta/transfer/downloader.hpp"

#include "saeta/device/kernels.hpp"
#include "saeta/staging/host_pool.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "saeta/transfer/pointed_rows.hpp"

#include <algorithm>
#include <utility>

namespace saeta {
namespace {

using range = std::span<const std::byte>;

/// Plans use positions in a storage. Only use tokens see its address.
constexpr std::uintptr_t origin = host_alignment;
range place_in_storage(const buffer& of) {
  return {reinterpret_cast<const std::byte*>(origin + of.offset()), of.size()};
}

std::vector<std::size_t> sizes_behind_views(const column& from) {
  std::vector<std::size_t> sizes;
  for (const buffer& bytes : from.buffers().subspan(from.type().buffer_count())) {
    sizes.push_back(bytes.size());
  }
  return sizes;
}

/// What the offsets of a column that is not cut point to: all bytes, or all rows of the child.
child_rows all_child_rows(const column& from) {
  return {0, from.children().empty() ? static_cast<std::int64_t>(from.bytes().size())
                                     : from.children()[0].length()};
}

void rebase(const data_type& type, std::byte* offsets, std::int64_t count) {
  if (type.offset_width() == sizeof(std::int32_t)) {
    auto* at = reinterpret_cast<std::int32_t*>(offsets);
    reference_kernels().rebase_offsets32(legacy_stream, at, count, at);
  } else {
    auto* at = reinterpret_cast<std::int64_t*>(offsets);
    reference_kernels().rebase_offsets64(legacy_stream, at, count, at);
  }
}

} // namespace

downloader::downloader(std::shared_ptr<context> ctx, std::span<const column> columns) : ctx_(std::move(ctx)) {
  columns_.reserve(columns.size());
  for (const column& each : columns) {
    columns_.push_back(node_of(each));
  }
  std::vector<node*> level;
  for (node& each : columns_) {
    level.push_back(&each);
  }
  while (!level.empty()) {
    read_offsets(level);
    read_views(level);
    std::vector<node*> next;
    for (node* each : level) {
      plan_buffers(*each);
      plan_children(*each, next);
    }
    level = std::move(next);
  }
}

downloader::node downloader::node_of(const column& from) {
  node made{from, window_of(from.type(), from.offset(), from.length()), {}, false, false, {}, {}, {}, {}};
  if (from.type().offset_width() != 0 && from.length() != 0) {
    const byte_window offsets = bytes_of(from.type(), 1, made.rows);
    made.cut = offsets.offset != 0 || from.offsets().size() >= offsets.bytes + host_alignment;
    made.pointed = made.cut ? child_rows{} : all_child_rows(from);
  } else if (from.type().mapping() == row_mapping::run_ends) {
    made.pointed = {0, from.children()[0].length()}; // run ends are not read, so all runs are included
  }
  return made;
}

/// Reads what the offsets of slices point to.
void downloader::read_offsets(std::span<node* const> level) const {
  std::vector<node*> cut;
  std::vector<rows_with_offsets> requested;
  for (node* each : level) {
    if (each->cut) {
      cut.push_back(each);
      requested.push_back({&each->from, each->rows.first, each->rows.rows});
    }
  }
  const std::vector<child_rows> pointed = read_pointed_rows(ctx_, requested);
  for (std::size_t i = 0; i < cut.size(); ++i) {
    cut[i]->pointed = pointed[i];
    cut[i]->rebase = pointed[i].first != 0;
  }
}

/// Reads which bytes the views of slices refer to. Larger slices skip this, because they need most of the
/// bytes.
void downloader::read_views(std::span<node* const> level) const {
  std::vector<node*> cut;
  std::vector<std::vector<byte_view>> there;
  std::vector<download_range> ranges;
  for (node* each : level) {
    const column& from = each->from;
    if (!from.type().has_variadic_buffers() || from.length() == 0) {
      continue;
    }
    const buffer& views = from.buffers()[1];
    const byte_window wanted = bytes_of(from.type(), 1, each->rows);
    if (from.buffers().size() == from.type().buffer_count() || wanted.bytes > views.size() / 2) {
      continue;
    }
    cut.push_back(each);
    auto& target = there.emplace_back(static_cast<std::size_t>(each->rows.rows));
    ranges.push_back({views.slice(wanted.offset, wanted.bytes), reinterpret_cast<std::byte*>(target.data())});
  }
  if (!cut.empty()) {
    staging_ring::of(ctx_)->download(ranges);
  }
  for (std::size_t i = 0; i < cut.size(); ++i) {
    cut[i]->behind_views = windows_of_views(there[i], sizes_behind_views(cut[i]->from));
  }
}

void downloader::plan_buffers(node& of) {
  const column& from = of.from;
  for (std::size_t i = 0; i < from.buffers().size(); ++i) {
    const buffer& whole = from.buffers()[i];
    if (!whole.present() || of.rows.rows == 0) {
      of.buffers.emplace_back();
      continue;
    }
    const byte_window window = i < from.type().buffer_count() || of.behind_views.empty()
                                   ? bytes_of(from.type(), i, of.rows, of.pointed, whole.size())
                                   : of.behind_views[i - from.type().buffer_count()];
    const bool moved = i == 1 && (of.rebase || !of.behind_views.empty());
    of.buffers.push_back(
        add(whole.slice(window.offset, window.bytes), moved || bit_shift(from.type(), i, of.rows) != 0));
  }
}

void downloader::plan_children(node& of, std::vector<node*>& next_level) {
  const column& from = of.from;
  of.children.reserve(from.children().size());
  for (const column& child : from.children()) {
    const child_rows rows =
        select_child_rows(from.type(), of.rows.first, of.rows.rows, of.pointed, child.length());
    of.children.push_back(node_of(child.slice(rows.first, rows.count)));
  }
  if (from.dictionary() != nullptr) {
    of.dictionary.push_back(node_of(*from.dictionary()));
  }
  for (auto* below : {&of.children, &of.dictionary}) {
    for (node& each : *below) {
      next_level.push_back(&each);
    }
  }
}

/// @param changed  whether it is changed on the host, and so must not share its place with other rows
downloader::arriving downloader::add(const buffer& window, bool changed) {
  if (window.size() == 0) {
    return {};
  }
  const buffer whole(window.owner());
  auto [found, fresh] =
      plans_.try_emplace(window.owner().get(), one_storage{whole, transfer_plan(place_in_storage(whole)), 0});
  transfer_plan& plan = found->second.plan;
  const range place = place_in_storage(window);
  return {true, window.owner().get(), changed ? plan.add_own(place) : plan.add(place), window.size()};
}

void downloader::fetch() {
  std::size_t total = 0;
  for (auto& [from, one] : plans_) {
    one.plan.finish();
    one.arena_offset = total;
    total += one.plan.slab_bytes();
  }
  const landing_block landed = landing_memory(ctx_, total);
  arena_ = landed.memory;
  std::vector<download_range> ranges;
  for (auto& [from, one] : plans_) {
    for (const segment& s : one.plan.segments()) {
      const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(s.source) - origin;
      ranges.push_back({one.whole.slice(at, s.bytes), arena_.get() + one.arena_offset + s.target});
    }
  }
  staging_ring::of(ctx_)->download(ranges, landed.fresh);
}

host_array downloader::array_of(const node& planned) const {
  const column& from = planned.from;
  host_array made;
  made.type = from.type();
  made.length = planned.rows.rows - planned.rows.offset;
  made.offset = planned.rows.offset;
  made.null_count = nulls_of_part(from.known_null_count(), from.length(), made.length);
  for (std::size_t i = 0; i < planned.buffers.size(); ++i) {
    const arriving& a = planned.buffers[i];
    range& there = made.buffers.emplace_back(a.present ? range(place(a), a.bytes) : range{});
    if (const int shift = bit_shift(from.type(), i, planned.rows); a.present && shift != 0) {
      shift_down(place(a), a.bytes, false, shift);
      there = there.first(static_cast<std::size_t>((made.length + 7) / 8));
    }
  }
  if (planned.rebase) {
    rebase(from.type(), place(planned.buffers[1]), planned.rows.rows + 1);
  }
  if (!planned.behind_views.empty()) {
    auto* const views = reinterpret_cast<byte_view*>(place(planned.buffers[1]));
    move_into({views, static_cast<std::size_t>(planned.rows.rows)}, planned.behind_views,
              sizes_behind_views(from));
  }
  for (const node& child : planned.children) {
    made.children.push_back(array_of(child));
  }
  if (!planned.dictionary.empty()) {
    made.dictionary = std::make_shared<const host_array>(array_of(planned.dictionary.front()));
  }
  return made;
}

std::byte* downloader::place(const arriving& a) const {
  const one_storage& one = plans_.at(a.from);
  return arena_.get() + one.arena_offset + one.plan.target_of(a.number);
}

} // namespace saeta
