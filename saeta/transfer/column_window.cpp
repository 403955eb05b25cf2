#include "saeta/transfer/column_window.hpp"

#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/staging/staging_ring.hpp"

#include <algorithm>
#include <utility>

namespace saeta {

bool byte_view::names_bytes(std::span<const std::size_t> sizes) const noexcept {
  if (length <= inlined || offset < 0 || buffer < 0 || static_cast<std::size_t>(buffer) >= sizes.size()) {
    return false;
  }
  return static_cast<std::size_t>(offset) + static_cast<std::size_t>(length) <=
         sizes[static_cast<std::size_t>(buffer)];
}

std::vector<byte_window> windows_of_views(std::span<const byte_view> views,
                                          std::span<const std::size_t> sizes) {
  std::vector<byte_window> windows(sizes.size());
  for (const byte_view& view : views) {
    if (view.names_bytes(sizes)) {
      byte_window& window = windows[static_cast<std::size_t>(view.buffer)];
      const auto first = static_cast<std::size_t>(view.offset);
      const std::size_t end = first + static_cast<std::size_t>(view.length);
      const std::size_t known_end = window.offset + window.bytes;
      window.offset = window.bytes == 0 ? first : std::min(window.offset, first);
      window.bytes = std::max(known_end, end) - window.offset;
    }
  }
  return windows;
}

void move_into(std::span<byte_view> views, std::span<const byte_window> windows,
               std::span<const std::size_t> sizes) {
  for (byte_view& view : views) {
    if (view.names_bytes(sizes)) {
      view.offset -= static_cast<std::int32_t>(windows[static_cast<std::size_t>(view.buffer)].offset);
    }
  }
}

std::vector<child_rows> read_pointed_rows(const std::shared_ptr<context>& ctx,
                                          std::span<const rows_with_offsets> requested) {
  if (requested.empty()) {
    return {};
  }
  std::vector<use> uses;
  for (const rows_with_offsets& rows_with_offsets : requested) {
    uses.push_back(reads(rows_with_offsets.of->offsets()));
  }
  const use_token token(ctx->work_stream(), uses);
  std::vector<value_request> requests;
  for (const rows_with_offsets& rows_with_offsets : requested) {
    const std::size_t width = rows_with_offsets.of->type().offset_width();
    const auto* const offsets = token.span<const std::byte>(rows_with_offsets.of->offsets()).data();
    for (const std::int64_t row :
         {rows_with_offsets.first, rows_with_offsets.first + rows_with_offsets.rows}) {
      value_request request;
      request.at = offsets + static_cast<std::size_t>(row) * width;
      request.width = static_cast<std::int32_t>(width);
      requests.push_back(request);
    }
  }
  const std::vector<std::int64_t> values = read_values(ctx, requests);
  std::vector<child_rows> pointed;
  for (std::size_t i = 0; i < requested.size(); ++i) {
    pointed.push_back({values[2 * i], values[2 * i + 1] - values[2 * i]});
  }
  return pointed;
}

namespace {

/// All bytes, or all child rows, of a column with offsets that is not cut.
child_rows all_child_rows(const column& from) {
  return {0, from.children().empty() ? static_cast<std::int64_t>(from.bytes().size())
                                     : from.children()[0].length()};
}

column_window window_over(const column& from) {
  column_window window{from, window_of(from.type(), from.offset(), from.length()), {}, false, false, {}, {},
                       {}};
  if (from.type().offset_width() != 0 && from.length() != 0) {
    const byte_window offsets = bytes_of(from.type(), 1, window.rows);
    window.cut = offsets.offset != 0 || from.offsets().size() >= offsets.bytes + host_alignment;
    window.pointed = window.cut ? child_rows{} : all_child_rows(from);
  } else if (from.type().mapping() == row_mapping::run_ends) {
    window.pointed = {0, from.children()[0].length()}; // run ends are not read, so all runs are included
  }
  return window;
}

/// Reads what the offsets of slices point to.
void read_offsets(const std::shared_ptr<context>& ctx, std::span<column_window* const> level) {
  std::vector<column_window*> cut;
  std::vector<rows_with_offsets> requested;
  for (column_window* window : level) {
    if (window->cut) {
      cut.push_back(window);
      requested.push_back({&window->from, window->rows.first, window->rows.rows});
    }
  }
  const std::vector<child_rows> pointed = read_pointed_rows(ctx, requested);
  for (std::size_t i = 0; i < cut.size(); ++i) {
    cut[i]->pointed = pointed[i];
    cut[i]->rebase = pointed[i].first != 0;
  }
}

/// Reads which bytes the views of slices refer to. Larger slices skip this, because they need most of the
/// bytes.
void read_views(const std::shared_ptr<context>& ctx, std::span<column_window* const> level) {
  std::vector<column_window*> cut;
  std::vector<std::vector<byte_view>> there;
  std::vector<download_range> ranges;
  for (column_window* window : level) {
    const column& from = window->from;
    if (!from.type().has_variadic_buffers() || from.length() == 0) {
      continue;
    }
    const buffer& views = from.buffers()[1];
    const byte_window wanted = bytes_of(from.type(), 1, window->rows);
    if (from.buffers().size() == from.type().buffer_count() || wanted.bytes > views.size() / 2) {
      continue;
    }
    cut.push_back(window);
    auto& target = there.emplace_back(static_cast<std::size_t>(window->rows.rows));
    ranges.push_back({views.slice(wanted.offset, wanted.bytes), reinterpret_cast<std::byte*>(target.data())});
  }
  if (!cut.empty()) {
    staging_ring::of(ctx)->download(ranges);
  }
  for (std::size_t i = 0; i < cut.size(); ++i) {
    cut[i]->behind_views = windows_of_views(there[i], sizes_behind_views(cut[i]->from));
  }
}

void append_next_level(column_window& of, std::vector<column_window*>& next) {
  const column& from = of.from;
  of.children.reserve(from.children().size());
  for (const column& child : from.children()) {
    const child_rows rows =
        select_child_rows(from.type(), of.rows.first, of.rows.rows, of.pointed, child.length());
    of.children.push_back(window_over(child.slice(rows.first, rows.count)));
  }
  if (from.dictionary() != nullptr) {
    of.dictionary.push_back(window_over(*from.dictionary()));
  }
  for (auto* below : {&of.children, &of.dictionary}) {
    for (column_window& window : *below) {
      next.push_back(&window);
    }
  }
}

} // namespace

buffer column_window::bytes_of_rows(std::size_t index) const {
  const buffer& whole = from.buffers()[index];
  if (!whole.present() || rows.rows == 0) {
    return {};
  }
  const std::size_t fixed = from.type().buffer_count();
  const byte_window window = index < fixed || behind_views.empty()
                                 ? bytes_of(from.type(), index, rows, pointed, whole.size())
                                 : behind_views[index - fixed];
  return window.bytes == 0 ? buffer() : whole.slice(window.offset, window.bytes);
}

bool column_window::changes(std::size_t index) const {
  return (index == 1 && (rebase || !behind_views.empty())) || bit_shift(from.type(), index, rows) != 0;
}

std::vector<column_window> find_windows(const std::shared_ptr<context>& ctx, std::span<const column> columns,
                                        view_bytes moved) {
  std::vector<column_window> windows;
  windows.reserve(columns.size());
  for (const column& column : columns) {
    windows.push_back(window_over(column));
  }
  std::vector<column_window*> level;
  level.reserve(windows.size());
  for (column_window& window : windows) {
    level.push_back(&window);
  }
  while (!level.empty()) {
    read_offsets(ctx, level);
    if (moved == view_bytes::used) {
      read_views(ctx, level);
    }
    std::vector<column_window*> next;
    for (column_window* column_window : level) {
      append_next_level(*column_window, next);
    }
    level = std::move(next);
  }
  return windows;
}

std::vector<std::size_t> sizes_behind_views(const column& from) {
  std::vector<std::size_t> sizes;
  for (const buffer& bytes : from.buffers().subspan(from.type().buffer_count())) {
    sizes.push_back(bytes.size());
  }
  return sizes;
}

} // namespace saeta
