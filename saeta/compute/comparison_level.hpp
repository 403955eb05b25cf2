// Plans the comparison of columns, level by level.
//
// Every array of both sides becomes a task of the kernel (device/equal.hpp). The values of lists and the
// bytes of strings form the next level. They are compared side by side if they follow each other in the same
// way on both sides, and otherwise list by list.
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/device/equal.hpp"
#include "saeta/memory/use_token.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace saeta {

/// Lists whose values do not follow each other, as rows of their values: where each list begins, and the
/// shifts of both sides.
struct scattered_lists {
  buffer memory;
  std::int64_t count = 0;

  [[nodiscard]] std::int64_t* starts() const noexcept {
    return reinterpret_cast<std::int64_t*>(memory.address());
  }
  [[nodiscard]] std::int64_t* left_shifts() const noexcept { return starts() + count + 1; }
  [[nodiscard]] std::int64_t* right_shifts() const noexcept { return left_shifts() + count; }
};

/// The rows of a column that one side compares, and the steps that lead to them.
struct compared_side {
  const column* of = nullptr;
  std::int64_t first = 0; ///< row in its buffers, including the column's offset
  std::vector<equal_step> steps;
};

struct compared_rows {
  compared_side left;
  compared_side right;
  std::int64_t rows = 0;
  /// Lists that the rows come from; null: the rows follow each other.
  std::shared_ptr<const scattered_lists> lists;

  [[nodiscard]] bool is_direct() const noexcept {
    return lists == nullptr && left.steps.empty() && right.steps.empty();
  }
};

/// The tasks of one level. Addresses are those of buffers that a use token holds.
class comparison_level {
public:
  explicit comparison_level(const context& ctx) : aligned_(!ctx.on_host()) {}

  /// Adds everything that can be compared without opening lists.
  void add(const compared_rows& of);
  /// Adds strings that are compared one by one.
  void add_strings(const compared_rows& of);
  /// Adds strings whose bytes are contiguous on both sides, as one run of bytes.
  void add_bytes(const compared_rows& of, std::int64_t left, std::int64_t right, std::int64_t bytes);

  /// The lists or strings of one task. Their values form the next level.
  struct opened {
    compared_rows rows;
    std::size_t task = 0;
  };

  [[nodiscard]] const std::vector<opened>& lists() const noexcept { return lists_; }
  [[nodiscard]] const std::vector<equal_task>& tasks() const noexcept { return tasks_; }
  /// The steps and tables that the tasks point to.
  [[nodiscard]] const std::vector<equal_step>& steps() const noexcept { return steps_; }
  [[nodiscard]] const std::vector<std::int64_t>& tables() const noexcept { return tables_; }
  [[nodiscard]] std::size_t extents() const noexcept { return static_cast<std::size_t>(extents_); }
  /// Uses of the memory that the tasks read besides the columns.
  [[nodiscard]] std::vector<use> uses() const;
  /// Makes the tasks point to the steps and tables on the device.
  void finish(const equal_step* steps, const std::int64_t* tables);

private:
  /// First step and first table entry of a side.
  struct side_places {
    std::size_t steps = 0;
    std::size_t table = 0;
  };
  struct task_places {
    side_places left;
    side_places right;
  };

  void add_nulls(const compared_rows& of);
  void add_values(const compared_rows& of);
  void add_children(const compared_rows& of);
  void add_lists(const compared_rows& of, equal_kind kind);
  void add_fixed_lists(const compared_rows& of);
  equal_task& add_task(equal_kind kind, const compared_rows& of);
  [[nodiscard]] equal_side side_of(equal_kind kind, const compared_side& of) const;
  [[nodiscard]] side_places place(equal_kind kind, const compared_side& of);
  void require_aligned(const void* address, std::int32_t width) const;

  bool aligned_;
  std::vector<equal_task> tasks_;
  std::vector<task_places> places_;
  std::vector<equal_step> steps_;
  std::vector<std::int64_t> tables_;
  std::vector<opened> lists_;
  std::vector<std::shared_ptr<const scattered_lists>> scattered_;
  std::int32_t extents_ = 1; ///< extent 0 tells whether rows differ
};

} // namespace saeta
