#include "saeta/compute/comparison_level.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/compute/alignment.hpp"

#include <algorithm>

namespace saeta {
namespace {

template <class T = void>
const T* address_of(const buffer& of) {
  return reinterpret_cast<const T*>(of.address());
}

/// Null if there are certainly no nulls.
const std::uint8_t* validity_of(const column& of) {
  return of.known_null_count() == 0 ? nullptr : address_of<std::uint8_t>(of.validity());
}

std::uint64_t infinity_of(const data_type& type) noexcept {
  switch (type.id()) {
  case type_id::half_float:
    return 0x7c00;
  case type_id::float32:
    return 0x7f80'0000;
  case type_id::float64:
    return 0x7ff0'0000'0000'0000;
  default:
    return 0;
  }
}

/// The rows of a child or dictionary `to` that `step` leads to from `of`.
compared_side step_through(const compared_side& of, const column& to, equal_step step) {
  compared_side side{&to, of.first, of.steps};
  step.validity = validity_of(*of.of);
  step.first = to.offset();
  const bool plain = step.kind == equal_step_kind::add && step.validity == nullptr && step.ids == nullptr;
  if (plain && side.steps.empty()) {
    side.first += step.first;
  } else {
    side.steps.push_back(step);
  }
  return side;
}

compared_side to_child(const compared_side& of, std::size_t index) {
  const data_type& type = of.of->type();
  const column& child = of.of->children()[index];
  equal_step step;
  if (!type.has_validity()) { // a union
    step.ids = address_of<std::int8_t>(of.of->buffers()[0]);
    step.code = type.type_codes()[index];
  }
  if (type.mapping() == row_mapping::scattered) {
    step.kind = equal_step_kind::offsets;
    step.values = address_of(of.of->buffers()[1]);
  }
  return step_through(of, child, step);
}

compared_side to_dictionary(const compared_side& of) {
  const column& values = *of.of->dictionary();
  equal_step step;
  step.kind = equal_step_kind::indices;
  step.width = of.of->type().byte_width();
  step.values = address_of(of.of->buffers()[1]);
  step.count = values.length();
  return step_through(of, values, step);
}

compared_side to_run_values(const compared_side& of) {
  const column& ends = of.of->children()[0];
  equal_step step;
  step.kind = equal_step_kind::runs;
  step.width = ends.type().byte_width();
  step.values = address_of<std::byte>(ends.buffers()[1]) + ends.offset() * step.width;
  step.count = ends.length();
  return step_through(of, of.of->children()[1], step);
}

template <class Through>
compared_rows map_both(const compared_rows& of, Through through) {
  return {through(of.left), through(of.right), of.rows, of.lists};
}

std::uintptr_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

} // namespace

void comparison_level::require_aligned(const void* address, std::int32_t width) const {
  if (aligned_) {
    require_alignment("comparing columns", address, width);
  }
}

equal_side comparison_level::side_of(equal_kind kind, const compared_side& of) const {
  equal_side side;
  side.first = of.first;
  side.validity = validity_of(*of.of);
  const std::span<const buffer> buffers = of.of->buffers();
  switch (kind) {
  case equal_kind::nulls:
  case equal_kind::fixed_lists:
    return side;
  case equal_kind::bytes:
  case equal_kind::list_views:
    side.second = address_of(buffers[2]);
    break;
  default:
    break;
  }
  side.values = address_of(buffers[of.of->type().has_validity() ? 1 : 0]);
  return side;
}

comparison_level::side_places comparison_level::place(equal_kind kind, const compared_side& of) {
  const side_places places{steps_.size(), tables_.size()};
  steps_.insert(steps_.end(), of.steps.begin(), of.steps.end());
  for (const equal_step& step : of.steps) {
    require_aligned(step.values, step.kind == equal_step_kind::offsets ? 4 : step.width);
  }
  if (kind == equal_kind::views) {
    for (const buffer& bytes : of.of->buffers().subspan(of.of->type().buffer_count())) {
      tables_.push_back(static_cast<std::int64_t>(bytes.address()));
    }
  }
  return places;
}

equal_task& comparison_level::add_task(equal_kind kind, const compared_rows& of) {
  places_.push_back({place(kind, of.left), place(kind, of.right)});
  equal_task& task = tasks_.emplace_back();
  task.kind = kind;
  task.count = of.rows;
  task.left = side_of(kind, of.left);
  task.right = side_of(kind, of.right);
  task.left.step_count = static_cast<std::int64_t>(of.left.steps.size());
  task.right.step_count = static_cast<std::int64_t>(of.right.steps.size());
  if (of.lists != nullptr) {
    task.starts = of.lists->starts();
    task.lists = of.lists->count;
    task.left.shifts = of.lists->left_shifts();
    task.right.shifts = of.lists->right_shifts();
    scattered_.push_back(of.lists);
  }
  return task;
}

/// Direct rows compare only their validity, as bits. Other rows compare everything that makes a row null.
void comparison_level::add_nulls(const compared_rows& of) {
  if (!of.is_direct()) {
    add_task(equal_kind::nulls, of);
  } else if (validity_of(*of.left.of) != nullptr || validity_of(*of.right.of) != nullptr) {
    equal_task& task = add_task(equal_kind::nulls, of);
    task.kind = equal_kind::flat_bits;
    task.left.values = std::exchange(task.left.validity, nullptr);
    task.right.values = std::exchange(task.right.validity, nullptr);
  }
}

void comparison_level::add_values(const compared_rows& of) {
  const data_type& type = of.left.of->type();
  const bool fixed = type.has_validity(); // otherwise the type ids of a union
  const std::int32_t bytes = fixed ? type.byte_width() : 1;
  if (of.is_direct() || bytes == 0) {
    add_nulls(of);
  }
  if (bytes == 0) {
    return;
  }
  equal_task& task = add_task(of.is_direct() ? equal_kind::flat_values : equal_kind::values, of);
  task.infinity = fixed ? infinity_of(type) : 0;
  task.width = bytes == 2 || bytes == 4 ? bytes : bytes % 8 == 0 ? 8 : 1;
  const bool aligned = (number_of(task.left.values) | number_of(task.right.values)) %
                           static_cast<std::uintptr_t>(task.width) ==
                       0;
  if (!aligned && task.infinity == 0) {
    task.width = 1;
  }
  task.units = bytes / task.width;
  require_aligned(task.left.values, task.width);
  require_aligned(task.right.values, task.width);
}

void comparison_level::add_children(const compared_rows& of) {
  for (std::size_t i = 0; i < of.left.of->children().size(); ++i) {
    add(map_both(of, [&](const compared_side& side) { return to_child(side, i); }));
  }
}

void comparison_level::add_lists(const compared_rows& of, equal_kind kind) {
  const data_type& type = of.left.of->type();
  equal_task& task = add_task(kind, of);
  task.width = type.buffer(1).width;
  task.units = type.list_size();
  if (kind != equal_kind::fixed_lists) {
    require_aligned(task.left.values, task.width);
    require_aligned(task.right.values, task.width);
    require_aligned(task.left.second, task.width);
    require_aligned(task.right.second, task.width);
  }
  task.extent = of.is_direct() ? extents_++ : 0;
  lists_.push_back({of, tasks_.size() - 1});
}

/// Without nulls the values of the lists certainly follow each other.
void comparison_level::add_fixed_lists(const compared_rows& of) {
  if (!of.is_direct() || validity_of(*of.left.of) != nullptr || validity_of(*of.right.of) != nullptr) {
    return add_lists(of, equal_kind::fixed_lists);
  }
  const std::int64_t size = of.left.of->type().list_size();
  compared_rows values = map_both(of, [&](const compared_side& side) {
    const column& child = side.of->children()[0];
    return compared_side{&child, child.offset() + side.first * size, {}};
  });
  values.rows = checked_mul(of.rows, size, "values of lists");
  add(values);
}

void comparison_level::add_strings(const compared_rows& of) {
  equal_task& task = add_task(equal_kind::bytes, of);
  task.width = of.left.of->type().buffer(1).width;
  require_aligned(task.left.values, task.width);
  require_aligned(task.right.values, task.width);
}

void comparison_level::add_bytes(const compared_rows& of, std::int64_t left, std::int64_t right,
                                 std::int64_t bytes) {
  if (bytes == 0) {
    return;
  }
  places_.emplace_back();
  equal_task& task = tasks_.emplace_back();
  task.kind = equal_kind::flat_values;
  task.width = 1;
  task.count = bytes;
  task.left.values = address_of(of.left.of->bytes());
  task.left.first = left;
  task.right.values = address_of(of.right.of->bytes());
  task.right.first = right;
}

void comparison_level::add(const compared_rows& of) {
  if (of.rows == 0) {
    return;
  }
  const data_type& type = of.left.of->type();
  if (type.id() == type_id::dictionary) {
    return add(map_both(of, to_dictionary));
  }
  switch (type.layout()) {
  case layout_kind::none:
    return;
  case layout_kind::bits:
    if (of.is_direct()) {
      add_nulls(of);
    }
    add_task(of.is_direct() ? equal_kind::flat_bits : equal_kind::bits, of);
    return;
  case layout_kind::fixed:
    return add_values(of);
  case layout_kind::bytes:
    return of.is_direct() ? add_lists(of, equal_kind::offsets) : add_strings(of);
  case layout_kind::views: {
    const equal_task& task = add_task(equal_kind::views, of);
    require_aligned(task.left.values, 4);
    require_aligned(task.right.values, 4);
    return;
  }
  case layout_kind::list:
    return add_lists(of, equal_kind::offsets);
  case layout_kind::list_view:
    return add_lists(of, equal_kind::list_views);
  case layout_kind::fixed_list:
    return add_fixed_lists(of);
  case layout_kind::structure:
    add_nulls(of);
    return add_children(of);
  case layout_kind::dense_union:
  case layout_kind::sparse_union:
    add_values(of);
    return add_children(of);
  case layout_kind::run_ends:
    return add(map_both(of, to_run_values));
  }
}

std::vector<use> comparison_level::uses() const {
  std::vector<use> uses;
  std::ranges::transform(scattered_, std::back_inserter(uses),
                         [](const auto& lists) { return reads(lists->memory); });
  return uses;
}

void comparison_level::finish(const equal_step* steps, const std::int64_t* tables) {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    tasks_[i].left.steps = steps + places_[i].left.steps;
    tasks_[i].right.steps = steps + places_[i].right.steps;
    tasks_[i].left.table = tables + places_[i].left.table;
    tasks_[i].right.table = tables + places_[i].right.table;
  }
  number_tiles(tasks_);
}

} // namespace saeta
