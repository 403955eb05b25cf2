#include "saeta/transfer/column_stream.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/staging/host_pool.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "saeta/transfer/column_window.hpp"
#include "saeta/transfer/download.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <sys/mman.h>

namespace saeta {
namespace {

constexpr std::size_t no_piece = std::numeric_limits<std::size_t>::max();

bool has_validity(const column& of) { return of.type().has_validity() && of.validity().present(); }

template <class Offset>
void rebase(std::byte* bytes, std::size_t count, std::int64_t base) {
  auto* const offsets = reinterpret_cast<Offset*>(bytes);
  for (std::size_t i = 0; i < count / sizeof(Offset); ++i) {
    offsets[i] = static_cast<Offset>(offsets[i] - base);
  }
}

/// Adds a range. Extends the previous range if the distance at the source is the same and the gap costs less
/// than a copy.
void add(std::vector<download_range>& ranges, const buffer& source, std::byte* target) {
  if (!ranges.empty()) {
    download_range& last = ranges.back();
    const auto gap = static_cast<std::size_t>(target - (last.target + last.source.size()));
    if (last.source.owner() == source.owner() && gap <= transfer_plan::max_gap &&
        last.source.offset() + last.source.size() + gap == source.offset()) {
      last.source =
          buffer(source.owner()).slice(last.source.offset(), last.source.size() + gap + source.size());
      return;
    }
  }
  ranges.push_back({source, target});
}

} // namespace

/// Reserved addresses. The system backs only the pages that are written.
struct SAETA_LOCAL column_stream::addresses {
  explicit addresses(std::size_t count) : bytes(std::max<std::size_t>(count, 1)) {
    void* const address =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
      throw error(errc::out_of_memory,
                  concat("the system has no address range for columns of ", bytes, " bytes"));
    }
    ::madvise(address, bytes, MADV_NOHUGEPAGE); // only two numbers of each array are written
    first = static_cast<std::byte*>(address);
  }
  addresses(const addresses&) = delete;
  addresses& operator=(const addresses&) = delete;
  ~addresses() { ::munmap(first, bytes); }

  std::byte* first = nullptr;
  std::size_t bytes;
};

struct SAETA_LOCAL column_stream::node {
  column from;
  std::int64_t nulls = 0;
  child_rows pointed{};              ///< child rows or bytes that the offsets point to
  std::vector<std::size_t> pieces{}; ///< for each buffer
  std::vector<node> children{};
  std::shared_ptr<const host_array> dictionary{};
};

bool column_stream::supports(const column& column) {
  const data_type& type = column.type();
  if (type.mapping() == row_mapping::run_ends || type.buffer(1).role == buffer_role::starts) {
    return false;
  }
  if (type.has_variadic_buffers() && column.length() != 0) {
    const bool has_bytes = column.buffers().size() != type.buffer_count();
    const std::size_t wanted = bytes_of(type, 1, window_of(type, column.offset(), column.length())).bytes;
    if (has_bytes && wanted <= column.buffers()[1].size() / 2) {
      return false;
    }
  }
  return std::ranges::all_of(column.children(), supports);
}

column_stream::column_stream(std::shared_ptr<context> ctx, std::span<const column> columns,
                             std::size_t window_bytes)
    : ctx_(required(std::move(ctx), "ctx")),
      window_bytes_(round_up(std::max<std::size_t>(window_bytes, 1), host_alignment)) {
  std::vector<node> nodes = nodes_of(columns);
  std::vector<column> dictionaries;
  std::vector<node*> with_dictionary;
  std::vector<node*> level;
  level.reserve(nodes.size());
  for (node& node : nodes) {
    level.push_back(&node);
  }
  while (!level.empty()) {
    look_at_device(level);
    std::vector<node*> next;
    for (node* parent : level) {
      add_children(*parent, next);
      if (parent->from.dictionary() != nullptr) {
        dictionaries.push_back(*parent->from.dictionary());
        with_dictionary.push_back(parent);
      }
    }
    level = std::move(next);
  }
  if (!dictionaries.empty()) {
    host_batch there = download(ctx_, batch{0, std::move(dictionaries)});
    for (std::size_t i = 0; i < with_dictionary.size(); ++i) {
      with_dictionary[i]->dictionary = std::make_shared<const host_array>(std::move(there.arrays[i]));
    }
    kept_.push_back(std::move(there.keepalive));
  }
  for (node& of_array : nodes) {
    lay_out(of_array);
  }
  at_ = std::make_unique<addresses>(bytes_);
  for (const node& of_array : nodes) {
    arrays_.push_back(array_of(of_array));
  }
}

column_stream::~column_stream() = default;

std::vector<column_stream::node> column_stream::nodes_of(std::span<const column> columns) {
  std::vector<node> nodes;
  nodes.reserve(columns.size());
  for (const column& column : columns) {
    nodes.push_back({column});
  }
  return nodes;
}

void column_stream::look_at_device(std::span<node* const> level) const {
  read_offsets(level);
  count_nulls(level);
}

void column_stream::read_offsets(std::span<node* const> level) const {
  std::vector<node*> pointing;
  std::vector<rows_with_offsets> requested;
  for (node* node : level) {
    if (node->from.type().offset_width() != 0 && node->from.length() != 0) {
      pointing.push_back(node);
      requested.push_back({&node->from, node->from.offset(), node->from.length()});
    }
  }
  const std::vector<child_rows> pointed = read_pointed_rows(ctx_, requested);
  for (std::size_t i = 0; i < pointing.size(); ++i) {
    pointing[i]->pointed = pointed[i];
  }
}

/// Counts unknown nulls on the device. A reader of the arrays would count them at the reserved addresses,
/// which read as zeros: all rows would seem to be null.
void column_stream::count_nulls(std::span<node* const> level) const {
  std::vector<node*> unknown;
  std::vector<use> uses;
  for (node* node : level) {
    node->nulls = node->from.known_null_count();
    if (node->nulls != column::unknown_nulls) {
      continue;
    }
    node->nulls = 0;
    if (has_validity(node->from) && node->from.length() != 0) {
      unknown.push_back(node);
      uses.push_back(reads(node->from.validity()));
    }
  }
  if (unknown.empty()) {
    return;
  }
  use_token token(ctx_->work_stream(), uses);
  const auto counts =
      kernel_results(ctx_, unknown.size(), {}, [&](const use_token& results, std::int64_t* values) {
        for (const node* node : unknown) {
          ctx_->kernels().count_nulls(results.stream().native_handle(),
                                      token.span<const std::uint8_t>(node->from.validity()).data(),
                                      node->from.offset(), node->from.length(), values++);
        }
      });
  token.finish();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    unknown[i]->nulls = counts[i];
  }
}

void column_stream::add_children(node& of, std::vector<node*>& next_level) {
  const column& from = of.from;
  of.children.reserve(from.children().size());
  for (const column& child : from.children()) {
    const child_rows rows =
        select_child_rows(from.type(), from.offset(), from.length(), of.pointed, child.length());
    of.children.push_back({child.slice(rows.first, rows.count)});
  }
  for (node& node : of.children) {
    next_level.push_back(&node);
  }
}

void column_stream::lay_out(node& of) {
  for (std::size_t i = 0; i < of.from.buffers().size(); ++i) {
    lay_out(of, i);
  }
  for (node& child : of.children) {
    lay_out(child);
  }
}

void column_stream::lay_out(node& of, std::size_t index) {
  const column& from = of.from;
  const data_type& type = from.type();
  const buffer& whole = from.buffers()[index];
  const buffer_spec spec = type.buffer(index);
  of.pieces.push_back(no_piece);
  if (!whole.present() || from.length() == 0 || (spec.role == buffer_role::validity && of.nulls == 0)) {
    return;
  }
  piece piece;
  const row_window rows = window_of(type, from.offset(), from.length());
  const byte_window window = bytes_of(type, index, rows, of.pointed, whole.size());
  if (spec.is_bitmap()) {
    piece.bytes = static_cast<std::size_t>((from.length() + 7) / 8);
    piece.shift = bit_shift(type, index, rows);
    piece.needed = piece.shift != 0 ? change::shift_bits : change::none;
  } else if (spec.role == buffer_role::offsets) {
    piece.width = static_cast<std::size_t>(spec.width);
    piece.base = of.pointed.first;
    piece.needed = piece.base != 0 ? change::rebase_offsets : change::none;
  }
  if (window.bytes == 0) {
    return;
  }
  piece.source = whole.slice(window.offset, window.bytes);
  piece.bytes = piece.bytes == 0 ? window.bytes : piece.bytes;
  piece.place = bytes_;
  bytes_ = round_up(bytes_ + window.bytes, host_alignment);
  of.pieces.back() = pieces_.size();
  pieces_.push_back(std::move(piece));
}

host_array column_stream::array_of(const node& of) const {
  host_array array;
  array.type = of.from.type();
  array.length = of.from.length();
  array.null_count = of.nulls;
  for (const std::size_t number : of.pieces) {
    array.buffers.push_back(
        number == no_piece
            ? std::span<const std::byte>()
            : std::span<const std::byte>(at_->first + pieces_[number].place, pieces_[number].bytes));
  }
  write_last_offset(of);
  for (const node& child : of.children) {
    array.children.push_back(array_of(child));
  }
  array.dictionary = of.dictionary;
  return array;
}

/// Writes only the last offset. The first is 0, and untouched addresses read as 0.
void column_stream::write_last_offset(const node& of) const {
  const std::size_t width = of.from.type().offset_width();
  if (width == 0 || of.pieces[1] == no_piece) {
    return;
  }
  const piece& offsets = pieces_[of.pieces[1]];
  std::memcpy(at_->first + offsets.place + offsets.bytes - width, &of.pointed.count, width); // little-endian
}

std::optional<std::size_t> column_stream::place_of(const void* address) const noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(at_->first);
  const auto requested = reinterpret_cast<std::uintptr_t>(address);
  if (requested < first || requested >= first + bytes_) {
    return std::nullopt;
  }
  return requested - first;
}

std::shared_ptr<std::byte> column_stream::bring(std::size_t number) const {
  const std::size_t begin = number * window_bytes_;
  const std::size_t end = std::min(bytes_, begin + window_bytes_);
  // A shift takes bits from the byte after the window.
  auto [landed, fresh] = landing_memory(ctx_, end - begin + host_alignment);
  const auto first = std::ranges::partition_point(
      pieces_, [&](const piece& piece) { return piece.place + piece.source.size() <= begin; });
  std::vector<download_range> ranges;
  for (auto piece = first; piece != pieces_.end() && piece->place < end; ++piece) {
    const std::size_t from = std::max(begin, piece->place) - piece->place;
    const std::size_t more = piece->needed == change::shift_bits ? 1 : 0;
    const std::size_t to = std::min(end + more - piece->place, piece->source.size());
    add(ranges, piece->source.slice(from, to - from), landed.get() + (piece->place + from - begin));
  }
  staging_ring::of(ctx_)->download(ranges, fresh);
  for (auto piece = first; piece != pieces_.end() && piece->place < end; ++piece) {
    const std::size_t from = std::max(begin, piece->place) - piece->place;
    const std::size_t to = std::min(end - piece->place, piece->bytes);
    if (from < to) {
      fix(*piece, from, to, landed.get() + (piece->place + from - begin));
    }
  }
  return landed;
}

void column_stream::fix(const piece& of, std::size_t first, std::size_t end, std::byte* landed) const {
  switch (of.needed) {
  case change::shift_bits:
    return shift_down(landed, end - first, end < of.source.size(), of.shift);
  case change::rebase_offsets:
    return of.width == sizeof(std::int32_t) ? rebase<std::int32_t>(landed, end - first, of.base)
                                            : rebase<std::int64_t>(landed, end - first, of.base);
  case change::none:
    return;
  }
}

} // namespace saeta
