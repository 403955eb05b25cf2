#include "saeta/base/checked.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/ipc/read/host_columns.hpp"
#include "saeta/transfer/host_array.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace saeta::ipc::detail {
namespace {

using array_list = std::span<const host_array* const>;
using range = std::span<const std::byte>;

/// Numbers that are added to the offsets of a part when it is joined behind the parts before it.
struct bases {
  std::vector<std::int64_t> rows; ///< for each child: its rows in the parts before
  std::int64_t bytes = 0;         ///< bytes of the parts before
  std::int64_t buffers = 0;       ///< variadic buffers of the parts before
};

class joiner {
public:
  joiner(const std::shared_ptr<context>& ctx, std::vector<std::shared_ptr<void>>& owners)
      : ctx_(ctx), owners_(owners) {}

  host_array join(array_list parts) {
    const data_type& type = parts.front()->type;
    host_array array;
    array.type = type;
    array.null_count = 0;
    for (const host_array* part : parts) {
      array.length = checked_add(array.length, part->length, "values of a dictionary");
      const bool known = part->null_count >= 0 && array.null_count >= 0;
      array.null_count = known ? array.null_count + part->null_count : column::unknown_nulls;
    }
    for (std::size_t i = 0; i < type.buffer_count(); ++i) {
      array.buffers.push_back(join_buffers(parts, i, array.length));
    }
    for (const host_array* part : parts) {
      for (std::size_t i = type.buffer_count(); i < part->buffers.size(); ++i) {
        array.buffers.push_back(part->buffers[i]);
      }
    }
    if (type.id() == type_id::dictionary) {
      // The last dictionary begins with the values of the earlier ones.
      array.dictionary = parts.back()->dictionary;
    }
    join_children(parts, array);
    return array;
  }

private:
  std::span<std::byte> allocate(std::size_t bytes) {
    owned_bytes result = allocate_body(ctx_, bytes);
    owners_.push_back(std::move(result.owner));
    return result.bytes;
  }

  range join_buffers(array_list parts, std::size_t index, std::int64_t rows) {
    const buffer_spec spec = parts.front()->type.buffer(index);
    if (spec.is_bitmap()) {
      const auto absent = [&](const host_array* array) { return array->buffers[index].empty(); };
      return std::ranges::all_of(parts, absent) ? range() : join_bits(parts, index, rows);
    }
    return spec.role == buffer_role::bytes ? join_bytes(parts) : join_numbers(parts, index, rows);
  }

  /// Rows of a part without the bitmap are valid.
  static bool is_set(range bits, std::int64_t row) { return bits.empty() || bit_at(bits, row); }

  range join_bits(array_list parts, std::size_t index, std::int64_t rows) {
    const auto result = allocate(static_cast<std::size_t>(rows + 7) / 8);
    std::ranges::fill(result, std::byte{0});
    std::int64_t at = 0;
    for (const host_array* part : parts) {
      const range bits = part->buffers[index];
      for (std::int64_t row = 0; row < part->length; ++row, ++at) {
        if (is_set(bits, row)) {
          result[static_cast<std::size_t>(at / 8)] |= std::byte{1} << (at % 8);
        }
      }
    }
    return result;
  }

  /// The bytes that the offsets of a part lead to.
  static range named_bytes(const host_array& part) {
    if (part.length == 0) {
      return {};
    }
    const auto [first, last] = borders(part);
    return part.buffers[2].subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
  }

  static std::pair<std::int64_t, std::int64_t> borders(const host_array& part) {
    const std::size_t width = part.type.offset_width();
    return {read_offset(part.buffers[1].data(), width, 0),
            read_offset(part.buffers[1].data(), width, part.length)};
  }

  range join_bytes(array_list parts) {
    std::size_t bytes = 0;
    for (const host_array* part : parts) {
      bytes += named_bytes(*part).size();
    }
    const auto result = allocate(bytes);
    std::size_t at = 0;
    for (const host_array* array : parts) {
      const range named = named_bytes(*array);
      std::ranges::copy(named, result.begin() + static_cast<std::ptrdiff_t>(at));
      at += named.size();
    }
    return result;
  }

  range join_numbers(array_list parts, std::size_t index, std::int64_t rows) {
    const data_type& type = parts.front()->type;
    const buffer_spec spec = type.buffer(index);
    const auto width = static_cast<std::size_t>(spec.width);
    const auto result = allocate(required_bytes(type, index, rows));
    bases before;
    before.rows.resize(type.children().size());
    std::size_t at = 0;
    for (const host_array* part : parts) {
      if (part->length == 0) {
        continue;
      }
      // The last offset of a part is the first one of the next.
      const std::size_t bytes = required_bytes(type, index, part->length);
      std::ranges::copy(part->buffers[index].first(bytes), result.begin() + static_cast<std::ptrdiff_t>(at));
      shift(*part, index, result.subspan(at, bytes), before);
      at += bytes - (spec.role == buffer_role::offsets ? width : 0);
      for (std::size_t i = 0; i < part->children.size(); ++i) {
        before.rows[i] += kept_rows(*part, i);
      }
      if (spec.role == buffer_role::offsets && part->children.empty()) {
        before.bytes += std::ssize(named_bytes(*part));
      }
      before.buffers += static_cast<std::int64_t>(part->buffers.size() - type.buffer_count());
    }
    return result;
  }

  /// Makes the numbers of a part count from the beginning of the first one.
  static void shift(const host_array& part, std::size_t index, std::span<std::byte> numbers,
                    const bases& before) {
    const buffer_spec spec = part.type.buffer(index);
    const auto width = static_cast<std::size_t>(spec.width);
    switch (spec.role) {
    case buffer_role::offsets:
      add(numbers, width, (part.children.empty() ? before.bytes : before.rows[0]) - borders(part).first);
      break;
    case buffer_role::starts:
      add(numbers, width, before.rows[0]);
      break;
    case buffer_role::union_rows:
      for (std::int64_t row = 0; row < part.length; ++row) {
        const auto code = static_cast<std::int8_t>(part.buffers[0][static_cast<std::size_t>(row)]);
        const auto codes = part.type.type_codes();
        const auto child = std::ranges::find(codes, code) - codes.begin();
        add(numbers.subspan(static_cast<std::size_t>(row) * width, width), width,
            before.rows[static_cast<std::size_t>(child)]);
      }
      break;
    case buffer_role::views:
      shift_views(part, numbers, before.buffers);
      break;
    default:
      break;
    }
  }

  static void add(std::span<std::byte> numbers, std::size_t width, std::int64_t base) {
    for (; base != 0 && !numbers.empty(); numbers = numbers.subspan(width)) {
      const std::int64_t sum =
          checked_add(read_offset(numbers.data(), width, 0), base, "offsets of a dictionary");
      if (width < sizeof sum && sum >> (8 * width - 1) != 0) {
        throw error(errc::overflow,
                    concat("the parts of its dictionary have ", sum, " values or bytes together, which ",
                           width, "-byte numbers can't count"));
      }
      std::memcpy(numbers.data(), &sum, width); // little-endian
    }
  }

  static void shift_views(const host_array& part, std::span<std::byte> views, std::int64_t buffers) {
    constexpr std::size_t view_bytes = 16;
    constexpr std::size_t number_at = 8;
    constexpr std::int32_t inline_bytes = 12;
    for (std::int64_t row = 0; buffers != 0 && row < part.length; ++row) {
      const auto view = views.subspan(static_cast<std::size_t>(row) * view_bytes, view_bytes);
      // The view of a null may be anything.
      if (is_set(part.buffers[0], row) && read_offset(view.data(), 4, 0) > inline_bytes) {
        add(view.subspan(number_at, sizeof(std::int32_t)), sizeof(std::int32_t), buffers);
      }
    }
  }

  /// The rows of a child that are joined, from its first one on: up to the last one that its parent refers
  /// to, or all if that is not known.
  static std::int64_t kept_rows(const host_array& part, std::size_t child) {
    if (const auto known = rows_of_children(part.type, 0, part.length)) {
      return known->count;
    }
    if (part.type.mapping() == row_mapping::scattered) {
      return part.children[child].length;
    }
    const child_rows used = rows_pointed_to(part, window_of(part.type, 0, part.length));
    if (used.first != 0) {
      throw error(errc::unsupported,
                  concat("the lists of a part begin with value ", used.first, ", expected 0"));
    }
    return used.count;
  }

  void join_children(array_list parts, host_array& array) {
    for (std::size_t i = 0; i < array.type.children().size(); ++i) {
      std::vector<host_array> cut;
      std::vector<const host_array*> of_child;
      cut.reserve(parts.size());
      for (const host_array* source : parts) {
        if (source->length == 0) {
          continue;
        }
        host_array& part = cut.emplace_back(source->children[i]);
        const std::int64_t kept = kept_rows(*source, i);
        part.null_count = nulls_of_part(part.null_count, part.length, kept);
        part.length = kept;
        of_child.push_back(&part);
      }
      if (of_child.empty()) {
        array.children.push_back(parts.front()->children[i]);
        continue;
      }
      array.children.push_back(join(of_child));
      if (array.type.mapping() == row_mapping::run_ends && i == 0) {
        shift_run_ends(parts, array.children.front());
      }
    }
  }

  /// Makes the run ends of each part count from the first row of all. @param ends  in memory of its own
  static void shift_run_ends(array_list parts, const host_array& ends) {
    const auto width = static_cast<std::size_t>(ends.type.byte_width());
    auto* const numbers = const_cast<std::byte*>(ends.buffers[1].data());
    std::int64_t run = 0;
    std::int64_t rows = 0;
    for (const host_array* array : parts) {
      const std::int64_t runs = array->length == 0 ? 0 : kept_rows(*array, 0);
      const std::span part(numbers + static_cast<std::size_t>(run) * width,
                           static_cast<std::size_t>(runs) * width);
      if (runs != 0) { // the last run may reach beyond the rows of its part
        std::memcpy(part.data() + part.size() - width, &array->length, width);
      }
      add(part, width, rows);
      run += runs;
      rows += array->length;
    }
  }

  const std::shared_ptr<context>& ctx_;
  std::vector<std::shared_ptr<void>>& owners_;
};

} // namespace

host_array join_arrays(const std::shared_ptr<context>& ctx, array_list parts,
                       std::vector<std::shared_ptr<void>>& owners) {
  return joiner(ctx, owners).join(parts);
}

} // namespace saeta::ipc::detail
