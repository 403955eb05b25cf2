#include "saeta/transfer/download.hpp"

#include "saeta/base/required.hpp"
#include "saeta/device/kernels.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/staging/host_pool.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "saeta/staging/transfer_plan.hpp"
#include "saeta/transfer/column_window.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace saeta {
namespace {

// One planned transfer of columns to the host.
//
// What      The plan takes the windows that the rows refer to (transfer/column_window.hpp). `fetch` brings
//           everything planned into one allocation. `array` then describes a column there.
// Owner     Keeps the columns until it is destroyed. `arena()` keeps the allocation alive.
// Thread    One.
// Failure   As for the ring and the pool of host memory (staging/staging_ring.hpp, staging/host_pool.hpp).

class downloader {
public:
  downloader(std::shared_ptr<context> ctx, std::span<const column> columns);

  /// Makes one allocation and one planned transfer. Call it once.
  void fetch();
  /// Column `number` of the given columns, after `fetch`.
  [[nodiscard]] host_array array(std::size_t number) const { return array_of(columns_[number]); }
  [[nodiscard]] std::shared_ptr<void> arena() const { return arena_; }

private:
  /// A buffer in the transfer: the plan that carries it, and the number of its range there.
  struct arriving {
    bool present = false;
    storage* from = nullptr;
    std::size_t number = 0;
    std::size_t bytes = 0;
  };
  struct node {
    const column_window* of = nullptr;
    std::vector<arriving> buffers;
    std::vector<node> children;
    std::vector<node> dictionary; ///< one or none
  };
  /// One plan for each storage. Its ranges are device addresses and are never followed.
  struct one_storage {
    buffer whole;
    transfer_plan plan;
    std::size_t arena_offset = 0;
  };

  node plan(const column_window& of);
  arriving add(const buffer& window, bool changed);
  [[nodiscard]] host_array array_of(const node& planned) const;
  [[nodiscard]] std::byte* place(const arriving& a) const;

  std::shared_ptr<context> ctx_;
  std::vector<column_window> windows_; ///< of the columns
  std::vector<node> columns_;
  std::map<storage*, one_storage> plans_;
  std::shared_ptr<std::byte> arena_;
};

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
  for (const column_window& window : windows_) {
    columns_.push_back(plan(window));
  }
}

downloader::node downloader::plan(const column_window& of) {
  node node{&of, {}, {}, {}};
  for (std::size_t i = 0; i < of.from.buffers().size(); ++i) {
    node.buffers.push_back(add(of.bytes_of_rows(i), of.changes(i)));
  }
  for (const column_window& child : of.children) {
    node.children.push_back(plan(child));
  }
  for (const column_window& values : of.dictionary) {
    node.dictionary.push_back(plan(values));
  }
  return node;
}

/// @param changed  whether it is changed on the host, and so must not share its place with other rows
downloader::arriving downloader::add(const buffer& window, bool changed) {
  if (window.size() == 0) {
    return {};
  }
  auto entry = plans_.find(window.owner().get());
  if (entry == plans_.end()) {
    const buffer whole(window.owner());
    one_storage storage{whole, transfer_plan(place_in_storage(whole)), 0};
    entry = plans_.emplace(whole.owner().get(), std::move(storage)).first;
  }
  transfer_plan& plan = entry->second.plan;
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
  host_array array;
  array.type = from.type();
  array.length = of.rows.rows - of.rows.offset;
  array.offset = of.rows.offset;
  array.null_count = nulls_of_part(from.known_null_count(), from.length(), array.length);
  for (std::size_t i = 0; i < planned.buffers.size(); ++i) {
    const arriving& a = planned.buffers[i];
    range& there = array.buffers.emplace_back(a.present ? range(place(a), a.bytes) : range{});
    if (const int shift = bit_shift(from.type(), i, of.rows); a.present && shift != 0) {
      shift_down(place(a), a.bytes, false, shift);
      there = there.first(static_cast<std::size_t>((array.length + 7) / 8));
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
    array.children.push_back(array_of(child));
  }
  if (!planned.dictionary.empty()) {
    array.dictionary = std::make_shared<const host_array>(array_of(planned.dictionary.front()));
  }
  return array;
}

std::byte* downloader::place(const arriving& a) const {
  const one_storage& one = plans_.at(a.from);
  return arena_.get() + one.arena_offset + one.plan.target_of(a.number);
}

namespace {

using range = std::span<const std::byte>;

range device_range(const buffer& of) { return {reinterpret_cast<const std::byte*>(of.address()), of.size()}; }

host_array host_view(const column& from) {
  host_array array;
  array.type = from.type();
  array.length = from.length();
  array.offset = from.offset();
  array.null_count = from.known_null_count();
  for (const buffer& b : from.buffers()) {
    array.buffers.push_back(b.present() ? device_range(b) : range{});
  }
  for (const column& child : from.children()) {
    array.children.push_back(host_view(child));
  }
  if (from.dictionary() != nullptr) {
    array.dictionary = std::make_shared<const host_array>(host_view(*from.dictionary()));
  }
  return array;
}

bool host_reads(const column& from) {
  const auto readable = [](const buffer& buffer) { return host_accessible(buffer.kind()); };
  return std::ranges::all_of(from.buffers(), readable) && std::ranges::all_of(from.children(), host_reads) &&
         (from.dictionary() == nullptr || host_reads(*from.dictionary()));
}

} // namespace

std::size_t end_of_window(std::span<const batch> batches, std::size_t first, std::uint64_t bytes) {
  if (batches.size() - first <= 1) {
    return batches.size();
  }
  std::uint64_t taken = 0;
  for (std::size_t end = first; end < batches.size(); ++end) {
    for (const column& column : batches[end].columns) {
      taken += column.byte_size();
    }
    if (taken > bytes && end != first) {
      return end;
    }
  }
  return batches.size();
}

bool host_accessible(const batch& source) { return std::ranges::all_of(source.columns, host_reads); }

host_batch view_in_place(const batch& source) {
  host_batch batch;
  batch.rows = source.rows;
  for (const column& c : source.columns) {
    batch.arrays.push_back(host_view(c));
  }
  batch.keepalive = std::make_shared<std::vector<column>>(source.columns);
  return batch;
}

std::vector<host_batch> download(const std::shared_ptr<context>& ctx, std::span<const batch> sources) {
  require_argument(ctx, "ctx");
  std::vector<host_batch> batches;
  batches.reserve(sources.size());
  if (ctx->on_host()) {
    for (const batch& source : sources) {
      batches.push_back(view_in_place(source));
    }
    return batches;
  }
  std::vector<column> columns;
  for (const batch& source : sources) {
    columns.insert(columns.end(), source.columns.begin(), source.columns.end());
  }
  downloader down(ctx, columns);
  down.fetch();
  std::size_t number = 0;
  for (const batch& source : sources) {
    host_batch& there = batches.emplace_back();
    there.rows = source.rows;
    for (std::size_t i = 0; i < source.columns.size(); ++i) {
      there.arrays.push_back(down.array(number++));
    }
    there.keepalive = down.arena();
  }
  return batches;
}

host_batch download(const std::shared_ptr<context>& ctx, const batch& source) {
  require_argument(ctx, "ctx");
  return std::move(download(ctx, std::span(&source, 1)).front());
}

} // namespace saeta
