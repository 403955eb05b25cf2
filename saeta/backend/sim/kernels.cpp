// The kernel table of simulated devices: deferred reference kernels that declare the bytes they touch.

#include "saeta/backend/sim/machine.hpp"
#include "saeta/backend/sim/queued_kernel.hpp"

#include <cstdlib>
#include <span>
#include <vector>

namespace saeta::sim {
namespace {

using count = std::int64_t;

std::size_t as_size(count length) { return static_cast<std::size_t>(length); }

void pack_bool(stream_handle stream, const std::uint8_t* source, count length, std::uint8_t* target) {
  if (length == 0) {
    return;
  }
  queue(stream, "pack_bool", target, {{source, as_size(length), true}, {target, bitmap_bytes(length), false}},
        [=] { reference_kernels().pack_bool(stream, source, length, target); });
}

void unpack_bool(stream_handle stream, const std::uint8_t* source, count bit_offset, count length,
                 std::uint8_t* target) {
  if (length == 0) {
    return;
  }
  queue(stream, "unpack_bool", target,
        {reading_bits(source, bit_offset, length), {target, as_size(length), false}},
        [=] { reference_kernels().unpack_bool(stream, source, bit_offset, length, target); });
}

void copy_bitmap(stream_handle stream, const std::uint8_t* source, count bit_offset, count length,
                 std::uint8_t* target, count* null_count) {
  if (length == 0 && null_count == nullptr) {
    return;
  }
  queue(stream, "copy_bitmap", length == 0 ? static_cast<const void*>(null_count) : target,
        {reading_bits(source, bit_offset, length),
         {target, bitmap_bytes(length), false},
         {null_count, null_count == nullptr ? 0 : sizeof *null_count, false}},
        [=] { reference_kernels().copy_bitmap(stream, source, bit_offset, length, target, null_count); });
}

void count_nulls(stream_handle stream, const std::uint8_t* source, count bit_offset, count length,
                 count* null_count) {
  queue(stream, "count_nulls", null_count,
        {reading_bits(source, bit_offset, length), {null_count, sizeof *null_count, false}},
        [=] { reference_kernels().count_nulls(stream, source, bit_offset, length, null_count); });
}

template <class Offset, class Kernel>
void rebase(stream_handle stream, const char* name, const Offset* source, count length, Offset* target,
            Kernel kernel) {
  if (length == 0) {
    return;
  }
  const std::size_t bytes = as_size(length) * sizeof(Offset);
  queue(stream, name, target, {{source, bytes, true}, {target, bytes, false}},
        [=] { kernel(stream, source, length, target); });
}

void rebase_offsets32(stream_handle stream, const std::int32_t* source, count length, std::int32_t* target) {
  rebase(stream, "rebase_offsets32", source, length, target, reference_kernels().rebase_offsets32);
}

void rebase_offsets64(stream_handle stream, const std::int64_t* source, count length, std::int64_t* target) {
  rebase(stream, "rebase_offsets64", source, length, target, reference_kernels().rebase_offsets64);
}

void fill_nulls(stream_handle stream, const std::uint8_t* validity, count bit_offset, const void* source,
                std::int32_t width, count length, std::uint64_t fill, void* target) {
  if (length == 0) {
    return;
  }
  const std::size_t bytes = as_size(length) * as_size(width);
  queue(stream, "fill_nulls", target,
        {reading_bits(validity, bit_offset, length), {source, bytes, true}, {target, bytes, false}}, [=] {
          reference_kernels().fill_nulls(stream, validity, bit_offset, source, width, length, fill, target);
        });
}

/// The bytes between the values count as read, so a concurrent write to them is reported as a race.
void gather_strided(stream_handle stream, const strided_values& source, std::int32_t width, void* target) {
  const count length = source.size();
  if (length == 0) {
    return;
  }
  count below = 0; // bytes from the lowest address to the first value
  count above = 0;
  for (int i = 0; i < source.dimensions; ++i) {
    const count reach = source.strides[i] * (source.extents[i] - 1);
    (reach < 0 ? below : above) += std::abs(reach);
  }
  const auto* const lowest = static_cast<const std::uint8_t*>(source.first) - below;
  queue(stream, "gather_strided", target,
        {{lowest, as_size(below + above) + as_size(width), true},
         {target, as_size(length) * as_size(width), false}},
        [=] { reference_kernels().gather_strided(stream, source, width, target); });
}

/// Values between the written ones count as written too.
void gather_columns(stream_handle stream, std::span<const gathered_column> columns,
                    const gather_target& shape, void* target) {
  if (shape.rows == 0 || columns.empty()) {
    return;
  }
  std::vector<access> touched;
  for (const gathered_column& column : columns) {
    if (column.values != nullptr) {
      touched.push_back({column.values, as_size(shape.rows * width_of(column.kind)), true});
    }
    if (column.validity != nullptr) {
      touched.push_back(reading_bits(column.validity, column.bit_offset,
                                     (shape.rows + shape.rows_a_bit - 1) / shape.rows_a_bit));
    }
  }
  const count last =
      (shape.rows - 1) * shape.row_step + (static_cast<count>(columns.size()) - 1) * shape.column_step;
  touched.push_back({target, as_size((last + 1) * width_of(shape.kind)), false});
  queue(stream, "gather_columns", target, touched,
        [stream, shape, target, kept = std::vector(columns.begin(), columns.end())] {
          reference_kernels().gather_columns(stream, kept, shape, target);
        });
}

/// The first and the last byte may be shared with other steps, so they count as atomic writes.
void append_written_bits(const join_step& step, std::vector<access>& touched) {
  const std::int64_t begin = step.bits.target_first;
  const access written = reading_bits(static_cast<std::uint8_t*>(step.target), begin, step.count);
  const auto* const first = static_cast<const std::uint8_t*>(written.pointer);
  const std::size_t head = begin % 8 != 0 || step.count < 8 ? 1 : 0;
  const std::size_t tail = written.bytes > head && (begin + step.count) % 8 != 0 ? 1 : 0;
  const std::size_t whole = written.bytes - head - tail;
  touched.push_back({first, head, false, true});
  touched.push_back({first + head, whole, false});
  touched.push_back({first + head + whole, tail, false, true});
  if (step.bits.nulls != nullptr) {
    touched.push_back({step.bits.nulls, sizeof *step.bits.nulls, false, true});
  }
}

/// Appends the accesses of a join step.
void append_accesses(const join_step& step, std::vector<access>& touched) {
  if (step.kind == join_kind::ones) {
    return append_written_bits(step, touched);
  }
  if (step.kind == join_kind::bits) {
    append_written_bits(step, touched);
    touched.push_back(
        reading_bits(static_cast<const std::uint8_t*>(step.source), step.bits.source_first, step.count));
    return;
  }
  const auto bytes = as_size(step.count * join_value_bytes(step));
  const std::size_t zeros = step.kind == join_kind::copy ? as_size(step.copy.zeros) : 0;
  touched.push_back({step.target, bytes + zeros, false});
  if (step.kind == join_kind::zero) {
    return;
  }
  touched.push_back({step.source, bytes, true});
  if (step.kind == join_kind::remap) {
    touched.push_back({step.remap.table, as_size(step.remap.entries) * sizeof *step.remap.table, true});
  } else if (step.kind == join_kind::unions) {
    touched.push_back({step.unions.ids, as_size(step.count), true});
  }
}

void join(stream_handle stream, std::span<const join_step> steps, const join_step* uploaded) {
  if (steps.empty()) {
    return;
  }
  std::vector<access> touched{{uploaded, steps.size_bytes(), true}};
  for (const join_step& step : steps) {
    append_accesses(step, touched);
  }
  queue(stream, "join", uploaded, touched, [uploaded, number = steps.size()] {
    join_now({uploaded, number});
  });
}

void read_values(stream_handle stream, std::span<const value_request> requests, const value_request* uploaded,
                 std::int64_t* values) {
  if (requests.empty()) {
    return;
  }
  std::vector<access> touched{{uploaded, requests.size_bytes(), true},
                              {values, requests.size() * sizeof *values, false}};
  for (const value_request& request : requests) {
    touched.push_back(
        {request.at, as_size(request.search ? request.count : 1) * as_size(request.width), true});
  }
  queue(stream, "read_values", uploaded, touched, [=, number = requests.size()] {
    read_values_now({uploaded, number}, values);
  });
}

/// Appends the reads of a check. The buffers that views point to are omitted, because only the views know
/// them.
void append_accesses(const value_check& check, std::vector<access>& touched) {
  constexpr std::size_t view_bytes = 16;
  constexpr std::size_t type_ids = 256;
  const std::size_t rows = as_size(check.count);
  const bool views = check.kind == check_kind::views || check.kind == check_kind::text_views;
  const bool texts = check.kind == check_kind::texts;
  const std::size_t width = views ? view_bytes : check.kind == check_kind::unions ? 1 : as_size(check.width);
  const std::size_t offsets = texts || check.kind == check_kind::offsets ? 1 : 0;
  touched.push_back({check.values, (rows + offsets) * width, true});
  if (check.second != nullptr) {
    const std::size_t bytes = texts                              ? as_size(check.limit)
                              : check.kind == check_kind::unions ? rows * 4
                                                                 : rows * width;
    touched.push_back({check.second, bytes, true});
  }
  if (check.validity != nullptr) {
    touched.push_back(reading_bits(check.validity, check.bit_offset, check.count));
  }
  if (check.table != nullptr) {
    const std::size_t entries = check.kind == check_kind::unions ? type_ids : 2 * as_size(check.limit);
    touched.push_back({check.table, entries * sizeof *check.table, true});
  }
}

void check_values(stream_handle stream, std::span<const value_check> checks, const value_check* uploaded,
                  std::int64_t* bad_rows) {
  if (checks.empty()) {
    return;
  }
  std::vector<access> touched{{uploaded, checks.size_bytes(), true},
                              {bad_rows, checks.size() * sizeof *bad_rows, false}};
  for (const value_check& check : checks) {
    append_accesses(check, touched);
  }
  queue(stream, "check_values", uploaded, touched, [=, number = checks.size()] {
    check_values_now({uploaded, number}, bad_rows);
  });
}

/// Appends the reads of one side of a task, except the bytes that its values point to.
void append_accesses(const equal_task& task, const equal_side& side, std::vector<access>& touched) {
  if (side.shifts != nullptr) {
    touched.push_back({side.shifts, as_size(task.lists) * sizeof *side.shifts, true});
    return; // the rows depend on the shifts
  }
  if (side.step_count != 0) {
    return; // the rows depend on the steps, in device memory that may not be written yet
  }
  if (side.validity != nullptr) {
    touched.push_back(reading_bits(side.validity, side.first, task.count));
  }
  const auto* const values = static_cast<const std::uint8_t*>(side.values);
  if (values == nullptr) {
    return;
  }
  const auto read = [&](count width, count rows) {
    touched.push_back({values + side.first * width, as_size(rows * width), true});
  };
  switch (task.kind) {
  case equal_kind::flat_bits:
  case equal_kind::bits:
    touched.push_back(reading_bits(values, side.first, task.count));
    break;
  case equal_kind::flat_values:
  case equal_kind::values:
    read(count{task.units} * task.width, task.count);
    break;
  case equal_kind::views:
    read(16, task.count);
    break;
  case equal_kind::list_views:
    touched.push_back({static_cast<const std::uint8_t*>(side.second) + side.first * task.width,
                       as_size(task.count * task.width), true});
    read(task.width, task.count);
    break;
  case equal_kind::bytes:
  case equal_kind::offsets:
    read(task.width, task.count + 1);
    break;
  default:
    break;
  }
}

void append_accesses(const equal_task& task, std::vector<access>& touched) {
  if (task.starts != nullptr) {
    touched.push_back({task.starts, as_size(task.lists + 1) * sizeof *task.starts, true});
  }
  append_accesses(task, task.left, touched);
  append_accesses(task, task.right, touched);
}

void compare(stream_handle stream, std::span<const equal_task> tasks, const equal_task* uploaded,
             const equal_results& results) {
  if (tasks.empty()) {
    return;
  }
  std::vector<access> touched{{uploaded, tasks.size_bytes(), true},
                              {results.extents, results.count * sizeof *results.extents, false}};
  for (const equal_task& task : tasks) {
    append_accesses(task, touched);
  }
  queue(stream, "compare", uploaded, touched, [=, number = tasks.size()] {
    compare_now({uploaded, number}, results);
  });
}

void expand(stream_handle stream, std::span<const list_expansion> expansions,
            const list_expansion* uploaded) {
  if (expansions.empty()) {
    return;
  }
  std::vector<access> touched{{uploaded, expansions.size_bytes(), true}};
  for (const list_expansion& expansion : expansions) {
    append_accesses(expansion.lists, touched);
    const std::size_t bytes = as_size(expansion.lists.count) * sizeof *expansion.starts;
    touched.push_back({expansion.starts, bytes + sizeof *expansion.starts, false});
    touched.push_back({expansion.left_shifts, bytes, false});
    touched.push_back({expansion.right_shifts, bytes, false});
  }
  queue(stream, "expand", uploaded, touched, [uploaded, number = expansions.size()] {
    expand_now({uploaded, number});
  });
}

} // namespace

const kernel_table& simulated_device::kernels() const noexcept {
  static constexpr kernel_table table{
      .pack_bool = pack_bool,
      .unpack_bool = unpack_bool,
      .copy_bitmap = copy_bitmap,
      .count_nulls = count_nulls,
      .rebase_offsets32 = rebase_offsets32,
      .rebase_offsets64 = rebase_offsets64,
      .fill_nulls = fill_nulls,
      .gather_strided = gather_strided,
      .gather_columns = gather_columns,
      .join = join,
      .read_values = read_values,
      .check_values = check_values,
      .compare = compare,
      .expand = expand,
      .count_taken = count_taken,
      .take = take,
      .cast_numbers = cast_numbers,
      .permute_rows = permute_rows,
      .compress = compress,
      .decompress = decompress,
  };
  return table;
}

} // namespace saeta::sim
