#include "saeta/ipc/write/encoded_rows.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/transfer/host_window.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace saeta::ipc::detail {
namespace {

using range = std::span<const std::byte>;

constexpr std::array<std::byte, 8> zeros{};

class encoder {
public:
  encoder(encoded_rows& to, const std::shared_ptr<const void>& keepalive) : to_(to), keepalive_(keepalive) {}

  void add(const host_array& of, std::int64_t offset, std::int64_t length) {
    if (of.type.mapping() == row_mapping::run_ends) {
      add_runs(of, offset, length);
      return;
    }
    const row_window rows = window_of(of.type, offset, length);
    const child_rows pointed = rows_pointed_to(of, rows);
    require_pointed(of, pointed);
    const std::int64_t nulls = nulls_of(of, offset, length);
    to_.layout.nodes.push_back({length, nulls});
    for (std::size_t i = 0; i < of.buffers.size(); ++i) {
      add_buffer(of, i, rows, pointed, nulls);
    }
    if (of.type.has_variadic_buffers()) {
      to_.layout.variadic_counts.push_back(
          static_cast<std::int64_t>(of.buffers.size() - of.type.buffer_count()));
    }
    for (const host_array& child : of.children) {
      const child_rows part = select_child_rows(of.type, rows.first, rows.rows, pointed, child.length);
      if (part.first < 0 || part.count < 0 || part.first > child.length ||
          part.count > child.length - part.first) {
        throw error(errc::format, concat("its rows refer to ", part.count, " rows from ", part.first,
                                         " of a child of ", child.length));
      }
      add(child, child.offset + part.first, part.count);
    }
  }

private:
  void push(range bytes) { to_.body.push_back({bytes, keepalive_}); }

  template <class T>
  void push_own(std::vector<T> values, std::size_t bytes) {
    auto own = std::make_shared<const std::vector<T>>(std::move(values));
    to_.body.push_back({std::as_bytes(std::span(*own)).first(bytes), own});
  }

  static void require_pointed(const host_array& of, const child_rows& pointed) {
    if (of.type.offset_width() == 0) {
      return;
    }
    const bool bytes = of.type.children().empty();
    const std::int64_t limit = bytes ? std::ssize(of.buffers[2]) : of.children[0].length;
    if (pointed.first < 0 || pointed.count < 0 || pointed.first > limit ||
        pointed.count > limit - pointed.first) {
      throw error(errc::format,
                  concat("the offsets of its first and last value are ", pointed.first, " and ",
                         pointed.first + pointed.count, ", there are ", limit, bytes ? " bytes" : " values"));
    }
  }

  static std::int64_t nulls_of(const host_array& of, std::int64_t offset, std::int64_t length) {
    if (!of.type.has_validity()) {
      return of.type.id() == type_id::null ? length : 0;
    }
    if (length == 0 || of.buffers[0].data() == nullptr) {
      return 0;
    }
    const std::int64_t known = nulls_of_part(of.null_count, of.length, length);
    return known >= 0 ? known : in_host_memory().count_nulls(of.buffers[0].data(), offset, length);
  }

  void add_buffer(const host_array& of, std::size_t index, const row_window& rows, const child_rows& pointed,
                  std::int64_t nulls) {
    const buffer_spec spec = of.type.buffer(index);
    const range whole = of.buffers[index];
    if (spec.role == buffer_role::validity && nulls == 0) {
      push({});
      return;
    }
    if (rows.rows == 0) { // one offset, which some readers need
      const bool offsets = spec.role == buffer_role::offsets;
      to_.body.push_back({range(zeros).first(offsets ? static_cast<std::size_t>(spec.width) : 0)});
      return;
    }
    const byte_window window = bytes_of(of.type, index, rows, pointed, whole.size());
    if (window.bytes == 0) {
      push({});
      return;
    }
    if (window.offset > whole.size() || window.bytes > whole.size() - window.offset) {
      throw error(errc::format, concat("its ", spec.name, " take ", window.offset + window.bytes,
                                       " bytes, the buffer has ", whole.size()));
    }
    const range named = whole.subspan(window.offset, window.bytes);
    if (const int shift = bit_shift(of.type, index, rows); shift != 0) {
      push_own(shifted_bits(named, shift, rows.rows), static_cast<std::size_t>((rows.rows + 7) / 8));
    } else if (spec.role == buffer_role::offsets && pointed.first != 0) {
      push_rebased(named, static_cast<std::size_t>(spec.width), pointed.first);
    } else {
      push(named);
    }
  }

  void push_rebased(range offsets, std::size_t width, std::int64_t base) {
    std::vector<std::byte> made(offsets.size());
    for (std::size_t at = 0; at < offsets.size(); at += width) {
      const std::int64_t value = read_offset(offsets.data() + at, width, 0) - base;
      std::memcpy(made.data() + at, &value, width); // little-endian
    }
    const std::size_t bytes = made.size();
    push_own(std::move(made), bytes);
  }

  /// A message can't say that an array begins inside a run, so the run ends are made to count from its first
  /// row.
  void add_runs(const host_array& of, std::int64_t offset, std::int64_t length) {
    const host_array& ends = of.children[0];
    const child_rows runs = rows_pointed_to(of, window_of(of.type, offset, length));
    to_.layout.nodes.push_back({length, 0});
    to_.layout.nodes.push_back({runs.count, 0});
    const auto width = static_cast<std::size_t>(ends.type.byte_width());
    std::vector<std::byte> made(static_cast<std::size_t>(runs.count) * width);
    for (std::int64_t i = 0; i < runs.count; ++i) {
      const std::int64_t end =
          read_offset(ends.buffers[1].data(), width, ends.offset + runs.first + i) - offset;
      const std::int64_t kept = std::min(end, length);
      std::memcpy(made.data() + static_cast<std::size_t>(i) * width, &kept, width);
    }
    push({}); // the validity of the run ends
    const std::size_t bytes = made.size();
    push_own(std::move(made), bytes);
    const host_array& values = of.children[1];
    add(values, values.offset + runs.first, runs.count);
  }

  encoded_rows& to_;
  const std::shared_ptr<const void>& keepalive_;
};

} // namespace

void encoded_rows::place_body() {
  layout.buffers.clear();
  layout.buffers.reserve(body.size());
  body_bytes = 0;
  for (const body_buffer& each : body) {
    layout.buffers.push_back({body_bytes, std::ssize(each.bytes)});
    body_bytes = checked_add(body_bytes, static_cast<std::int64_t>(round_up(each.bytes.size(), body_unit)),
                             "bytes of a body");
  }
}

encoded_rows encode_rows(std::int64_t rows, std::span<const host_array> arrays,
                         const std::shared_ptr<const void>& keepalive) {
  encoded_rows made;
  made.layout.rows = rows;
  encoder to(made, keepalive);
  for (const host_array& each : arrays) {
    to.add(each, each.offset, each.length);
  }
  made.place_body();
  return made;
}

} // namespace saeta::ipc::detail
