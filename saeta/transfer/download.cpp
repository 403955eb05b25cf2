#include "saeta/transfer/download.hpp"

#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/detail/byte_view.hpp"
#include "saeta/transfer/host_window.hpp"
#include "saeta/transfer/staging_ring.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <vector>

namespace saeta {
namespace {

using range = std::span<const std::byte>;

/// Plans go by places in a storage: its address is for use tokens alone.
constexpr std::uintptr_t origin = host_alignment;
range place_in_storage(const buffer& of) {
  return {reinterpret_cast<const std::byte*>(origin + of.offset()), of.size()};
}

range device_range(const buffer& of) { return {reinterpret_cast<const std::byte*>(of.address()), of.size()}; }

/// A buffer on its way: which plan carries it and as which range.
struct arriving {
  bool present = false;
  storage* from = nullptr;
  std::size_t number = 0;
  std::size_t bytes = 0;
};

struct arriving_array {
  row_window rows;
  std::vector<arriving> buffers;
  bool rebase = false;
  std::vector<byte_window> behind_views; ///< of each buffer of bytes; empty: all of them
  std::unique_ptr<arriving_array> dictionary;
  std::vector<arriving_array> children;
};

/// One plan for each storage: device addresses stand in for host ones and are never followed.
class downloader {
public:
  explicit downloader(std::shared_ptr<context> home) : home_(std::move(home)) {}

  arriving_array plan(const column& from) {
    arriving_array made;
    made.rows = window_of(from.type(), from.offset(), from.length());
    const child_rows pointed = from.length() == 0 ? child_rows{} : rows_behind_offsets(from, made);
    if (from.type().layout() == layout_kind::views && from.length() != 0) {
      made.behind_views = bytes_behind_views(from, made.rows);
    }
    for (std::size_t i = 0; i < from.buffers().size(); ++i) {
      const bool changed = i == 1 && (made.rebase || !made.behind_views.empty());
      made.buffers.push_back(add(window_of_buffer(from, i, made, pointed), changed));
    }
    for (const column& child : from.children()) {
      const auto rows = from.length() == 0 ? child_rows{} : rows_of(from, child, made.rows, pointed);
      made.children.push_back(plan(child.slice(rows.first, rows.count)));
    }
    if (from.dictionary() != nullptr) {
      made.dictionary = std::make_unique<arriving_array>(plan(*from.dictionary()));
    }
    return made;
  }

  /// One allocation and one planned transfer for everything that was planned.
  void fetch() {
    std::size_t total = 0;
    for (auto& [from, one] : plans_) {
      one.plan.finish();
      one.arena_offset = total;
      total += one.plan.slab_bytes();
    }
    constexpr std::align_val_t alignment{host_alignment};
    arena_ = std::shared_ptr<std::byte>(
        static_cast<std::byte*>(::operator new(std::max<std::size_t>(total, 1), alignment)),
        [](std::byte* p) { ::operator delete (p, std::align_val_t{host_alignment}); });
    std::vector<download_range> ranges;
    for (auto& [from, one] : plans_) {
      for (const segment& s : one.plan.segments()) {
        const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(s.source) - origin;
        ranges.push_back({one.whole.slice(at, s.bytes), arena_.get() + one.arena_offset + s.target});
      }
    }
    staging_ring::of(home_)->download(ranges);
  }

  [[nodiscard]] host_array array(const column& from, const arriving_array& planned) const {
    host_array made;
    made.type = from.type();
    made.length = planned.rows.rows - planned.rows.offset;
    made.offset = planned.rows.offset;
    made.null_count = nulls_of_part(from.known_null_count(), from.length(), made.length);
    for (const arriving& a : planned.buffers) {
      made.buffers.push_back(a.present ? range(place(a), a.bytes) : range{});
    }
    if (planned.rebase) {
      rebase(from.type(), place(planned.buffers[1]), planned.rows.rows + 1);
    }
    if (!planned.behind_views.empty()) {
      auto* const views = reinterpret_cast<byte_view*>(place(planned.buffers[1]));
      move_into({views, static_cast<std::size_t>(planned.rows.rows)}, planned.behind_views,
                sizes_behind_views(from));
    }
    for (std::size_t i = 0; i < planned.children.size(); ++i) {
      made.children.push_back(array(from.children()[i], planned.children[i]));
    }
    if (planned.dictionary) {
      made.dictionary = std::make_shared<const host_array>(array(*from.dictionary(), *planned.dictionary));
    }
    return made;
  }

  [[nodiscard]] std::shared_ptr<void> arena() const { return arena_; }

private:
  struct one_storage {
    buffer whole;
    transfer_plan plan;
    std::size_t arena_offset = 0;
  };

  /// @param changed  on the host, where it must not be the place of other rows.
  arriving add(const buffer& window, bool changed) {
    if (window.size() == 0) {
      return {};
    }
    const buffer whole(window.owner());
    auto [found, fresh] = plans_.try_emplace(window.owner().get(),
                                             one_storage{whole, transfer_plan(place_in_storage(whole)), 0});
    transfer_plan& plan = found->second.plan;
    const range place = place_in_storage(window);
    return {true, window.owner().get(), changed ? plan.add_own(place) : plan.add(place), window.size()};
  }

  /// What the offsets of a window point to: bytes, or rows of the child. A column that is no slice needs all of them; a
  /// slice's first and last offset are read from the device.
  child_rows rows_behind_offsets(const column& from, arriving_array& made) const {
    const std::size_t width = from.type().offset_width();
    if (width == 0) {
      return {};
    }
    const byte_window offsets = bytes_of(from.type(), 1, made.rows);
    if (offsets.offset == 0 && from.offsets().size() < offsets.bytes + host_alignment) {
      return {0, from.children().empty() ? static_cast<std::int64_t>(from.bytes().size())
                                         : from.children()[0].length()};
    }
    const std::int64_t first = offset_at(from, width, made.rows.first);
    const std::int64_t last = offset_at(from, width, made.rows.first + made.rows.rows);
    made.rebase = first != 0;
    return {first, last - first};
  }

  static std::vector<std::size_t> sizes_behind_views(const column& from) {
    std::vector<std::size_t> sizes;
    for (const buffer& bytes : from.buffers().subspan(from.type().buffer_count())) {
      sizes.push_back(bytes.size());
    }
    return sizes;
  }

  /// What the views of a slice name, which takes a transfer of the views before; empty where most of the rows are wanted, which
  /// need most of the bytes.
  [[nodiscard]] std::vector<byte_window> bytes_behind_views(const column& from,
                                                            const row_window& rows) const {
    const buffer& views = from.buffers()[1];
    const byte_window wanted = bytes_of(from.type(), 1, rows);
    const std::vector<std::size_t> sizes = sizes_behind_views(from);
    if (sizes.empty() || wanted.bytes > views.size() / 2) {
      return {};
    }
    std::vector<byte_view> there(static_cast<std::size_t>(rows.rows));
    const download_range moved{views.slice(wanted.offset, wanted.bytes),
                               reinterpret_cast<std::byte*>(there.data())};
    staging_ring::of(home_)->download(std::span(&moved, 1));
    return windows_behind(there, sizes);
  }

  static buffer window_of_buffer(const column& from, std::size_t index, const arriving_array& made,
                                 const child_rows& pointed) {
    const buffer& whole = from.buffers()[index];
    if (!whole.present() || made.rows.rows == 0) {
      return {};
    }
    if (from.type().buffer(index).role != buffer_role::bytes) {
      const byte_window w = bytes_of(from.type(), index, made.rows);
      return whole.slice(w.offset, w.bytes);
    }
    if (from.type().layout() != layout_kind::views) {
      return whole.slice(static_cast<std::size_t>(pointed.first), static_cast<std::size_t>(pointed.count));
    }
    if (made.behind_views.empty()) {
      return whole;
    }
    const byte_window& w = made.behind_views[index - from.type().buffer_count()];
    return whole.slice(w.offset, w.bytes);
  }

  /// Rows of a child that the rows of a window name. Run ends are not read from the device, so all runs come along.
  static child_rows rows_of(const column& from, const column& child, const row_window& rows,
                            const child_rows& pointed) {
    if (const auto known = rows_of_children(from.type(), rows.first, rows.rows)) {
      return *known;
    }
    return from.type().offset_width() != 0 ? pointed : child_rows{0, child.length()};
  }

  [[nodiscard]] std::int64_t offset_at(const column& from, std::size_t width, std::int64_t index) const {
    const stream_ref work = home_->work_stream();
    std::byte value[sizeof(std::int64_t)];
    use_token token(work, {reads(from.offsets())});
    home_->read_scalar(value, token.data<std::byte>(from.offsets()) + static_cast<std::size_t>(index) * width,
                       width, work, from.offsets().kind());
    token.finish();
    return read_offset(value, width, 0);
  }

  [[nodiscard]] std::byte* place(const arriving& a) const {
    const one_storage& one = plans_.at(a.from);
    return arena_.get() + one.arena_offset + one.plan.target_of(a.number);
  }

  static void rebase(const data_type& type, std::byte* offsets, std::int64_t count) {
    if (type.offset_width() == sizeof(std::int32_t)) {
      auto* at = reinterpret_cast<std::int32_t*>(offsets);
      reference_kernels().rebase_offsets32(legacy_stream, at, count, at);
    } else {
      auto* at = reinterpret_cast<std::int64_t*>(offsets);
      reference_kernels().rebase_offsets64(legacy_stream, at, count, at);
    }
  }

  std::shared_ptr<context> home_;
  std::map<storage*, one_storage> plans_;
  std::shared_ptr<std::byte> arena_;
};

host_array host_view(const column& from) {
  host_array made;
  made.type = from.type();
  made.length = from.length();
  made.offset = from.offset();
  made.null_count = from.known_null_count();
  for (const buffer& b : from.buffers()) {
    made.buffers.push_back(b.present() ? device_range(b) : range{});
  }
  for (const column& child : from.children()) {
    made.children.push_back(host_view(child));
  }
  if (from.dictionary() != nullptr) {
    made.dictionary = std::make_shared<const host_array>(host_view(*from.dictionary()));
  }
  return made;
}

/// What keeps a view of memory in place.
struct viewed {
  std::vector<column> columns;
  std::vector<storage_pin> pins;
};

void pin_buffers(const column& from, std::vector<storage_pin>& pins) {
  for (const buffer& each : from.buffers()) {
    pins.emplace_back(each.owner());
  }
  for (const column& child : from.children()) {
    pin_buffers(child, pins);
  }
  if (from.dictionary() != nullptr) {
    pin_buffers(*from.dictionary(), pins);
  }
}

bool host_reads(const column& from) {
  const auto readable = [](const buffer& each) { return host_accessible(each.kind()); };
  return std::ranges::all_of(from.buffers(), readable) && std::ranges::all_of(from.children(), host_reads) &&
         (from.dictionary() == nullptr || host_reads(*from.dictionary()));
}

} // namespace

bool host_accessible(const batch& source) { return std::ranges::all_of(source.columns, host_reads); }

host_batch view_in_place(const batch& source) {
  auto kept = std::make_shared<viewed>();
  kept->columns = source.columns;
  for (const column& c : source.columns) { // before an address is read
    pin_buffers(c, kept->pins);
  }
  host_batch made;
  made.rows = source.rows;
  for (const column& c : source.columns) {
    made.arrays.push_back(host_view(c));
  }
  made.keepalive = std::move(kept);
  return made;
}

host_batch download(const std::shared_ptr<context>& home, const batch& source) {
  if (home->on_host()) {
    return view_in_place(source);
  }
  host_batch made;
  made.rows = source.rows;
  downloader down(home);
  std::vector<arriving_array> planned;
  for (const column& c : source.columns) {
    planned.push_back(down.plan(c));
  }
  down.fetch();
  for (std::size_t i = 0; i < source.columns.size(); ++i) {
    made.arrays.push_back(down.array(source.columns[i], planned[i]));
  }
  made.keepalive = down.arena();
  return made;
}

} // namespace saeta
