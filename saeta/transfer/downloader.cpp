#include "saeta/transfer/downloader.hpp"

#include "saeta/device/kernels.hpp"
#include "saeta/staging/host_pool.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "saeta/transfer/byte_view.hpp"

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

downloader::downloader(std::shared_ptr<context> ctx, std::span<const column> columns)
    : ctx_(std::move(ctx)), windows_(find_windows(ctx_, columns, view_bytes::used)) {
  columns_.reserve(windows_.size());
  for (const column_window& each : windows_) {
    columns_.push_back(plan(each));
  }
}

downloader::node downloader::plan(const column_window& of) {
  node made{&of, {}, {}, {}};
  for (std::size_t i = 0; i < of.from.buffers().size(); ++i) {
    made.buffers.push_back(add(of.bytes_of_rows(i), of.changes(i)));
  }
  for (const column_window& child : of.children) {
    made.children.push_back(plan(child));
  }
  for (const column_window& values : of.dictionary) {
    made.dictionary.push_back(plan(values));
  }
  return made;
}

/// @param changed  whether it is changed on the host, and so must not share its place with other rows
downloader::arriving downloader::add(const buffer& window, bool changed) {
  if (window.size() == 0) {
    return {};
  }
  auto found = plans_.find(window.owner().get());
  if (found == plans_.end()) {
    const buffer whole(window.owner());
    one_storage made{whole, transfer_plan(place_in_storage(whole)), 0};
    found = plans_.emplace(whole.owner().get(), std::move(made)).first;
  }
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
  const column_window& of = *planned.of;
  const column& from = of.from;
  host_array made;
  made.type = from.type();
  made.length = of.rows.rows - of.rows.offset;
  made.offset = of.rows.offset;
  made.null_count = nulls_of_part(from.known_null_count(), from.length(), made.length);
  for (std::size_t i = 0; i < planned.buffers.size(); ++i) {
    const arriving& a = planned.buffers[i];
    range& there = made.buffers.emplace_back(a.present ? range(place(a), a.bytes) : range{});
    if (const int shift = bit_shift(from.type(), i, of.rows); a.present && shift != 0) {
      shift_down(place(a), a.bytes, false, shift);
      there = there.first(static_cast<std::size_t>((made.length + 7) / 8));
    }
  }
  if (of.rebase) {
    rebase(from.type(), place(planned.buffers[1]), of.rows.rows + 1);
  }
  if (!of.behind_views.empty()) {
    auto* const views = reinterpret_cast<byte_view*>(place(planned.buffers[1]));
    move_into({views, static_cast<std::size_t>(of.rows.rows)}, of.behind_views, sizes_behind_views(from));
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
