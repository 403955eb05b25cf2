#include "saeta/interop/arrow/array.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace saeta {
namespace {

/// The rows of an array to view.
struct selected_rows {
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

/// How the buffers of an array are looked at.
struct look {
  const array_memory& memory;
  check_scope scope;
};

void require_counts(const ArrowArray& source, const array_place& place) {
  if (source.release == nullptr) {
    throw error(errc::closed, concat(place, ": the ArrowArray was released already"));
  }
  if (source.length < 0 || source.offset < 0) {
    throw error(errc::format, concat(place, ": length ", source.length, " and offset ", source.offset,
                                     " must not be negative"));
  }
  if (source.null_count < -1 || source.null_count > source.length) {
    throw error(errc::format, concat(place, ": null_count ", source.null_count,
                                     " is not in -1 to the length ", source.length));
  }
  if (source.length > std::numeric_limits<std::int64_t>::max() - source.offset) {
    throw error(errc::overflow,
                concat(place, ": offset + length: ", source.offset, " + ", source.length, " overflows"));
  }
}

void require_shape(const ArrowArray& source, std::int64_t buffers, std::int64_t children, bool dictionary,
                   const array_place& place) {
  if (source.n_buffers != buffers) {
    throw error(errc::format, concat(place, ": n_buffers is ", source.n_buffers, ", expected ", buffers));
  }
  if (source.n_buffers > 0 && source.buffers == nullptr) {
    throw error(errc::format, concat(place, ": buffers is null, n_buffers is ", source.n_buffers));
  }
  if (source.n_children != children) {
    throw error(errc::format, concat(place, ": n_children is ", source.n_children, ", expected ", children));
  }
  if (source.n_children > 0 && source.children == nullptr) {
    throw error(errc::format, concat(place, ": children is null, n_children is ", source.n_children));
  }
  if (dictionary != (source.dictionary != nullptr)) {
    throw error(errc::format, concat(place, dictionary ? ": dictionary is null" : ": has a dictionary"));
  }
}

std::span<const std::byte> bytes_at(const void* pointer, std::size_t bytes, const array_place& place,
                                    std::size_t index) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (pointer == nullptr && bytes != 0) {
    throw error(errc::format, concat(place, ": buffers[", index, "] is null, ", bytes, " bytes are needed"));
  }
  if (bytes > std::numeric_limits<std::uintptr_t>::max() - address) {
    throw error(errc::overflow, concat(place, ": address + bytes of buffers[", index, "]: ", address, " + ",
                                       bytes, " overflows"));
  }
  return {static_cast<const std::byte*>(pointer), bytes};
}

/// 1 if a validity comes before the buffers of a type that has none, else 0. polars exports one for a column
/// of nulls, and producers before Arrow 1.0 export one for unions.
std::size_t buffers_before(const data_type& type, const ArrowArray& source) {
  const bool may_have = !type.has_validity() && type.mapping() != row_mapping::run_ends;
  return may_have && source.n_buffers == static_cast<std::int64_t>(type.buffer_count()) + 1 ? 1 : 0;
}

/// @throws error unsupported if such a validity of a union marks rows as null.
void require_valid_rows(const ArrowArray& source, const host_array& view, const array_memory& memory,
                        const array_place& place) {
  const auto* const validity = static_cast<const std::byte*>(source.buffers[0]);
  if (view.type.id() == type_id::null || source.null_count == 0 || view.length == 0) {
    return;
  }
  const std::int64_t nulls = validity == nullptr ? std::max(source.null_count, std::int64_t{0})
                                                 : memory.count_nulls(validity, view.offset, view.length);
  if (nulls != 0) {
    throw error(errc::unsupported, concat(place, ": ", nulls, " of ", view.length,
                                          " rows are null by a validity buffer of the union, which Arrow 1.0 "
                                          "removed: move the nulls to its children"));
  }
}

/// The last offset of an array: the number of bytes, or of rows of the child, that the array needs.
std::int64_t read_last_offset(const host_array& source, const array_memory& memory,
                              const array_place& place) {
  const std::size_t width = source.type.offset_width();
  const std::byte* const offsets = source.buffers[1].data();
  const auto offset_at = [&](std::int64_t row) {
    return memory.number(offsets + static_cast<std::size_t>(row) * width, width);
  };
  const std::int64_t first = offset_at(source.offset);
  const std::int64_t last = offset_at(source.offset + source.length);
  if (first < 0 || last < first) {
    throw error(errc::format,
                concat(place, ": the offsets of its first and last value are ", first, " and ", last));
  }
  return last;
}

/// Sizes of the data buffers of views. The struct's last buffer lists them.
std::vector<std::int64_t> variadic_sizes(const ArrowArray& source, std::size_t fixed_buffers,
                                         const array_place& place) {
  const auto count = static_cast<std::size_t>(source.n_buffers) - fixed_buffers - 1;
  std::vector<std::int64_t> sizes(count);
  const void* const list = source.buffers[source.n_buffers - 1];
  if (count != 0 && list == nullptr) {
    throw error(errc::format, concat(place, ": buffers[", source.n_buffers - 1,
                                     "] is null, expected the sizes of ", count, " buffers"));
  }
  if (count != 0) {
    std::memcpy(sizes.data(), list, count * sizeof(std::int64_t));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (sizes[i] < 0) {
      throw error(errc::format,
                  concat(place, ": the size of buffers[", fixed_buffers + i, "] is ", sizes[i]));
    }
  }
  return sizes;
}

void add_buffers(const ArrowArray& source, const array_memory& memory, host_array& view,
                 const array_place& place) {
  const std::int64_t rows = view.offset + view.length;
  const std::size_t before = buffers_before(view.type, source);
  if (before != 0) {
    require_valid_rows(source, view, memory, place);
  }
  for (std::size_t i = 0; i < view.type.buffer_count(); ++i) {
    const buffer_role role = view.type.buffer(i).role;
    // As for files: a null count of 0 is believed, whatever the bitmap says, so all consumers agree.
    const bool needless = role == buffer_role::validity && source.null_count == 0;
    const void* const pointer = needless ? nullptr : source.buffers[i + before];
    std::size_t bytes = 0;
    if (role == buffer_role::bytes) {
      bytes = static_cast<std::size_t>(read_last_offset(view, memory, place));
    } else if (role != buffer_role::validity || pointer != nullptr) {
      bytes = required_bytes(view.type, i, rows);
    }
    view.buffers.push_back(bytes_at(pointer, bytes, place, i + before));
  }
  if (view.type.has_variadic_buffers()) {
    const std::size_t first = view.type.buffer_count();
    const auto sizes = variadic_sizes(source, first, place);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto bytes = static_cast<std::size_t>(sizes[i]);
      view.buffers.push_back(bytes_at(source.buffers[first + i], bytes, place, first + i));
    }
  }
}

void view_rows(const data_type& type, const ArrowArray& source, const selected_rows& rows, const look& how,
               const array_place& place, host_array& view);

/// Rows that a child must have for the rows of its parent, including those before the offset.
std::int64_t needed_rows(const host_array& view, const array_memory& memory, const array_place& place) {
  if (view.length == 0) {
    return 0;
  }
  if (const auto known = rows_of_children(view.type, 0, view.offset + view.length)) {
    return known->count;
  }
  return view.type.offset_width() != 0 ? read_last_offset(view, memory, place) : 0;
}

/// Checks that the last run end reaches the last row. `check_values` checks that run ends ascend.
void require_runs(const host_array& view, const array_memory& memory, const array_place& place) {
  const host_array& ends = view.children[0];
  const host_array& values = view.children[1];
  if (ends.length != values.length || ends.null_count > 0) {
    throw error(errc::format, concat(place, ": ", ends.length, " run ends with null_count ", ends.null_count,
                                     " and ", values.length, " values"));
  }
  const std::int64_t rows = view.offset + view.length;
  const auto width = static_cast<std::size_t>(ends.type.byte_width());
  const std::int64_t last =
      ends.length == 0 ? 0
                       : memory.number(ends.buffers[1].data() +
                                           static_cast<std::size_t>(ends.offset + ends.length - 1) * width,
                                       width);
  if (view.length != 0 && last < rows) {
    throw error(errc::format, concat(place, ": the last of ", ends.length, " run ends is ", last,
                                     ", the array has offset ", view.offset, " and length ", view.length));
  }
}

/// Views all rows of the children, so that the array's offset applies to them too. If the array has no rows,
/// the children have none.
void add_children(const ArrowArray& source, const look& how, host_array& view, const array_place& place) {
  const std::span<const field> fields = view.type.children();
  const std::int64_t needed = needed_rows(view, how.memory, place);
  view.children.reserve(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const array_place inner = place.child(fields[i].name);
    if (source.children[i] == nullptr) {
      throw error(errc::format, concat(inner, ": children[", i, "] is null"));
    }
    const ArrowArray& child = *source.children[i];
    require_counts(child, inner);
    if (child.length < needed) {
      throw error(errc::format,
                  concat(inner, ": length is ", child.length, ", its parent refers to ", needed, " rows"));
    }
    const bool cut = view.type.offset_width() != 0 && how.scope == check_scope::named_rows;
    const std::int64_t kept = view.length == 0 ? 0 : cut ? needed : child.length;
    view_rows(fields[i].type, child, {0, kept}, how, inner, view.children.emplace_back());
  }
  if (view.type.mapping() == row_mapping::run_ends) {
    require_runs(view, how.memory, place);
  }
}

void require_type_shape(const data_type& type, const ArrowArray& source, const array_place& place) {
  auto buffers = static_cast<std::int64_t>(type.buffer_count() + buffers_before(type, source));
  if (type.has_variadic_buffers()) {
    buffers = std::max(source.n_buffers, buffers + 1); // any number of data buffers, then their sizes
  }
  require_shape(source, buffers, static_cast<std::int64_t>(type.children().size()),
                type.id() == type_id::dictionary, place);
  if (source.null_count > 0 && type.has_validity() && source.buffers[0] == nullptr) {
    throw error(errc::format,
                concat(place, ": null_count is ", source.null_count, " but buffers[0] is null"));
  }
}

/// @param view  must be empty. It is filled in place, because moving a host_array takes as long as filling
///              it.
void view_rows(const data_type& type, const ArrowArray& source, const selected_rows& rows, const look& how,
               const array_place& place, host_array& view) {
  require_type_shape(type, source, place);
  view.type = type;
  view.length = rows.length;
  view.null_count = nulls_of_part(source.null_count, source.length, rows.length);
  if (rows.length == 0) {
    view.buffers.resize(type.buffer_count());
  } else {
    view.offset = source.offset + rows.offset;
    add_buffers(source, how.memory, view, place);
  }
  add_children(source, how, view, place);
  if (type.id() == type_id::dictionary) {
    view.dictionary = std::make_shared<const host_array>(
        view_array(*type.value_type(), *source.dictionary, place.dictionary(), how.memory, how.scope));
  }
}

/// A row of a record batch can't be null as a whole.
void require_no_null_rows(const ArrowArray& source, const array_memory& memory) {
  if (source.null_count == 0 || source.buffers[0] == nullptr || source.length == 0) {
    if (source.null_count > 0) {
      throw error(errc::format,
                  concat("batch: null_count is ", source.null_count, " but buffers[0] is null"));
    }
    return;
  }
  std::int64_t nulls = source.null_count;
  if (nulls < 0) {
    nulls =
        memory.count_nulls(static_cast<const std::byte*>(source.buffers[0]), source.offset, source.length);
  }
  if (nulls > 0) {
    throw error(errc::unsupported, concat("batch: ", nulls, " of ", source.length,
                                          " rows are null as a whole, which a table can't represent"));
  }
}

class host_reader final : public array_memory {
public:
  [[nodiscard]] std::int64_t number(const std::byte* at, std::size_t width) const override {
    return read_offset(at, width, 0);
  }
  [[nodiscard]] std::int64_t count_nulls(const std::byte* validity, std::int64_t offset,
                                         std::int64_t length) const override {
    std::int64_t nulls = 0;
    reference_kernels().count_nulls(legacy_stream, reinterpret_cast<const std::uint8_t*>(validity), offset,
                                    length, &nulls);
    return nulls;
  }
  [[nodiscard]] std::vector<std::int64_t> numbers(std::span<const value_request> requests) const override {
    std::vector<std::int64_t> values(requests.size());
    read_values_now(requests, values.data());
    return values;
  }
  [[nodiscard]] std::vector<std::int64_t> find_bad_rows(check_list list) const override {
    std::vector<std::int64_t> rows(list.checks.size());
    set_tables(list, list.tables.data());
    check_values_now(list.checks, rows.data());
    return rows;
  }
};

std::size_t element_alignment(const data_type& type, std::size_t index) {
  const buffer_spec spec = type.buffer(index);
  if (spec.width <= 1 || type.id() == type_id::fixed_size_binary) {
    return 1;
  }
  return std::min(static_cast<std::size_t>(spec.width), std::size_t{8});
}

} // namespace

void set_tables(check_list& list, const std::int64_t* tables) noexcept {
  for (std::size_t i = 0; i < list.checks.size(); ++i) {
    if (list.table_at[i] != check_list::no_table) {
      list.checks[i].table = tables + list.table_at[i];
    }
  }
}

const array_memory& in_host_memory() noexcept {
  static const host_reader reader;
  return reader;
}

host_array view_array(const data_type& type, const ArrowArray& source, const array_place& place,
                      const array_memory& memory, check_scope scope) {
  require_counts(source, place);
  host_array view;
  view_rows(type, source, {0, source.length}, {memory, scope}, place, view);
  return view;
}

void view_column(const field& described, const ArrowArray& source, std::int64_t offset, std::int64_t rows,
                 const array_memory& memory, host_array& view, check_scope scope) {
  const array_place place = array_place::column(described.name);
  require_counts(source, place);
  if (source.length < offset + rows) {
    throw error(errc::format, concat(place, ": length is ", source.length, ", the batch has offset ", offset,
                                     " and length ", rows));
  }
  view_rows(described.type, source, {offset, rows}, {memory, scope}, place, view);
}

host_batch view_batch(const schema& fields, const ArrowArray& source, const array_memory& memory,
                      check_scope scope) {
  const array_place whole("batch");
  require_counts(source, whole);
  require_shape(source, 1, checked_cast<std::int64_t>(fields.fields.size(), "number of columns"), false,
                whole);
  require_no_null_rows(source, memory);
  host_batch view;
  view.rows = source.length;
  view.arrays.reserve(fields.fields.size());
  for (std::size_t i = 0; i < fields.fields.size(); ++i) {
    if (source.children[i] == nullptr) {
      throw error(errc::format, concat(array_place::column(fields.fields[i].name), ": children[", i,
                                       "] of the batch is null"));
    }
    view_column(fields.fields[i], *source.children[i], source.offset, source.length, memory,
                view.arrays.emplace_back(), scope);
  }
  return view;
}

bool aligned(const host_array& source) {
  for (std::size_t i = 0; i < source.buffers.size(); ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(source.buffers[i].data());
    if (address % element_alignment(source.type, i) != 0) {
      return false;
    }
  }
  return std::ranges::all_of(source.children, aligned) &&
         (source.dictionary == nullptr || aligned(*source.dictionary));
}

std::int64_t device_memory::number(const std::byte* at, std::size_t width) const {
  std::byte value[sizeof(std::int64_t)];
  ctx_->copies().read_scalar(value, at, width, ctx_->work_stream());
  return read_offset(value, width, 0);
}

std::int64_t device_memory::count_nulls(const std::byte* validity, std::int64_t offset,
                                        std::int64_t length) const {
  const auto count = [&](const use_token& token, std::int64_t* counted) {
    ctx_->kernels().count_nulls(token.stream().native_handle(),
                                reinterpret_cast<const std::uint8_t*>(validity), offset, length, counted);
  };
  return kernel_results(ctx_, 1, {}, count).front();
}

std::vector<std::int64_t> device_memory::numbers(std::span<const value_request> requests) const {
  return read_values(ctx_, requests);
}

std::vector<std::int64_t> device_memory::find_bad_rows(check_list list) const {
  if (list.checks.empty()) {
    return {};
  }
  const device_copy<std::int64_t> tables(ctx_, list.tables);
  use_token described(ctx_->work_stream(), {reads(tables.memory())});
  set_tables(list, tables.data(described));
  number_tiles(list.checks);
  const device_copy<value_check> uploaded(ctx_, list.checks);
  return kernel_results(
      ctx_, list.checks.size(), uploaded.memory(), [&](const use_token& token, std::int64_t* rows) {
        ctx_->kernels().check_values(token.stream().native_handle(), list.checks, uploaded.data(token), rows);
      });
}

} // namespace saeta
