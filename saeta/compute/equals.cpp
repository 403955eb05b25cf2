#include "saeta/compute/equals.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/column/same_type.hpp"
#include "saeta/compute/comparison_level.hpp"
#include "saeta/memory/device_copy.hpp"

#include <algorithm>

namespace saeta {
namespace {

/// Rows of two columns of one type, starting at a row of each.
struct row_range {
  const column* left = nullptr;
  std::int64_t left_row = 0;
  const column* right = nullptr;
  std::int64_t right_row = 0;
  std::int64_t rows = 0;
};

void require_one_context(const context& left, const context& right) {
  if (!left.shares_with(right)) {
    throw error(errc::invalid_argument,
                concat("equals: the two sides are in different contexts, one of ", to_string(left.device()),
                       " and one of ", to_string(right.device()),
                       ": copy one of them into the context of the other first"));
  }
}

/// column::unknown_nulls if nulls would have to be counted, or if values may be null that the validity does
/// not show.
std::int64_t known_nulls(std::span<const column> pieces) noexcept {
  std::int64_t nulls = 0;
  for (const column& piece : pieces) {
    const std::int64_t known = piece.known_null_count();
    if (known < 0 || !piece.type().has_validity() || piece.dictionary() != nullptr) {
      return column::unknown_nulls;
    }
    nulls += known;
  }
  return nulls;
}

/// A NaN is not equal to itself, so a column with floats need not equal itself.
bool holds_floats(const data_type& type) {
  return type.is_floating() || (type.value_type() != nullptr && holds_floats(*type.value_type())) ||
         std::ranges::any_of(type.children(), [](const field& child) { return holds_floats(child.type); });
}

/// Compares what is known without reading data: numbers of rows, types and null counts.
bool may_be_equal(std::span<const column> left, std::span<const column> right, bool check_metadata) {
  if (total_rows(left) != total_rows(right)) {
    return false;
  }
  if (left.empty() || right.empty()) {
    return true;
  }
  const std::int64_t left_nulls = known_nulls(left);
  const std::int64_t right_nulls = known_nulls(right);
  return same_type(left.front().type(), right.front().type(), check_metadata) &&
         (left_nulls == right_nulls || left_nulls < 0 || right_nulls < 0);
}

/// Cuts both sides wherever a piece of either one ends. Skips pieces in the same memory, unless they hold
/// floats.
void append_ranges(std::span<const column> left, std::span<const column> right,
                   std::vector<row_range>& ranges) {
  const bool same_is_equal = !left.empty() && !holds_floats(left.front().type());
  std::size_t l = 0;
  std::size_t r = 0;
  std::int64_t left_row = 0;
  std::int64_t right_row = 0;
  while (l < left.size() && r < right.size()) {
    const std::int64_t rows = std::min(left[l].length() - left_row, right[r].length() - right_row);
    const bool whole = rows == left[l].length() && rows == right[r].length();
    if (rows != 0 && !(whole && same_is_equal && same_memory(left[l], right[r]))) {
      ranges.push_back({&left[l], left_row, &right[r], right_row, rows});
    }
    left_row += rows;
    right_row += rows;
    if (left_row == left[l].length()) {
      ++l;
      left_row = 0;
    }
    if (right_row == right[r].length()) {
      ++r;
      right_row = 0;
    }
  }
}

class comparison {
public:
  comparison(std::shared_ptr<context> ctx, std::span<const row_range> ranges)
      : ctx_(std::move(ctx)), ranges_(ranges) {}

  bool run() {
    storage_reads memory(ctx_->work_stream());
    for (const row_range& range : ranges_) {
      append_reads(*range.left, memory);
      append_reads(*range.right, memory);
    }
    use_token sources(ctx_->work_stream(), memory.uses()); // keeps the addresses valid
    auto level = std::make_unique<comparison_level>(*ctx_);
    for (const row_range& range : ranges_) {
      level->add({{range.left, range.left->offset() + range.left_row, {}},
                  {range.right, range.right->offset() + range.right_row, {}},
                  range.rows,
                  nullptr});
    }
    bool same = true;
    while (same && !level->tasks().empty()) {
      auto next = std::make_unique<comparison_level>(*ctx_);
      same = run_level(*level, *next);
      level = std::move(next);
    }
    sources.finish();
    return same;
  }

private:
  /// Compares a level. If all is equal so far, adds the values of its lists to the next level.
  bool run_level(comparison_level& level, comparison_level& next) {
    const device_copy<equal_step> steps(ctx_, level.steps());
    const device_copy<std::int64_t> tables(ctx_, level.tables());
    std::vector<use> uses = level.uses();
    uses.push_back(reads(steps.memory()));
    uses.push_back(reads(tables.memory()));
    use_token token(ctx_->work_stream(), uses);
    level.finish(steps.data(token), tables.data(token));
    const std::vector<equal_extent> extents = compare(level);
    const bool same = extents[0].scattered == 0;
    if (same) {
      open_lists(level, extents, next);
    }
    token.finish();
    return same;
  }

  std::vector<equal_extent> compare(const comparison_level& level) {
    constexpr std::size_t numbers = sizeof(equal_extent) / sizeof(std::int64_t);
    const device_copy<equal_task> tasks(ctx_, level.tasks());
    const auto run = [&](const use_token& token, std::int64_t* results) {
      ctx_->kernels().compare(token.stream().native_handle(), level.tasks(), tasks.data(token),
                              {reinterpret_cast<equal_extent*>(results), level.extents()});
    };
    const std::vector<std::int64_t> values =
        kernel_results(ctx_, level.extents() * numbers, tasks.memory(), run);
    std::vector<equal_extent> extents(level.extents());
    for (std::size_t i = 0; i < extents.size(); ++i) {
      const std::int64_t* const from = values.data() + i * numbers;
      extents[i] = {from[0], from[1], from[2], from[3]};
    }
    return extents;
  }

  static void require_within(const data_type& type, std::int64_t first, std::int64_t count,
                             std::int64_t limit) {
    if (first < 0 || count < 0 || first > limit - count) {
      throw error(errc::format, concat("comparing columns of ", type.name(), ": rows refer to ", count,
                                       " values from ", first, " on, there are ", limit));
    }
  }

  /// Adds values that follow each other on both sides.
  static void add_side_by_side(const compared_rows& lists, const equal_extent& extent,
                               comparison_level& next) {
    const column& left = *lists.left.of;
    const column& right = *lists.right.of;
    const std::int64_t count = extent.left_end - extent.left_first;
    if (left.type().children().empty()) {
      require_within(left.type(), extent.left_first, count, static_cast<std::int64_t>(left.bytes().size()));
      require_within(left.type(), extent.right_first, count, static_cast<std::int64_t>(right.bytes().size()));
      next.add_bytes(lists, extent.left_first, extent.right_first, count);
      return;
    }
    const column& left_values = left.children()[0];
    const column& right_values = right.children()[0];
    require_within(left.type(), extent.left_first, count, left_values.length());
    require_within(left.type(), extent.right_first, count, right_values.length());
    next.add({{&left_values, left_values.offset() + extent.left_first, {}},
              {&right_values, right_values.offset() + extent.right_first, {}},
              count,
              nullptr});
  }

  void open_lists(const comparison_level& level, const std::vector<equal_extent>& extents,
                  comparison_level& next) {
    std::vector<const comparison_level::opened*> scattered;
    for (const comparison_level::opened& list : level.lists()) {
      const equal_task& task = level.tasks()[list.task];
      const auto extent = static_cast<std::size_t>(task.extent);
      if (extent != 0 && extents[extent].scattered == 0) {
        add_side_by_side(list.rows, extents[extent], next);
      } else if (list.rows.left.of->type().children().empty()) {
        next.add_strings(list.rows);
      } else {
        scattered.push_back(&list);
      }
    }
    expand(level, scattered, next);
  }

  [[nodiscard]] std::shared_ptr<const scattered_lists> allocate_lists(std::int64_t count) const {
    const auto numbers = checked_add(checked_mul(static_cast<std::size_t>(count), std::size_t{3}, "lists"),
                                     std::size_t{1}, "lists");
    const std::size_t bytes = checked_mul(numbers, sizeof(std::int64_t), "bytes of lists");
    return std::make_shared<const scattered_lists>(
        scattered_lists{buffer::allocate(ctx_, bytes, ctx_->work_stream(), "compared lists"), count});
  }

  void expand(const comparison_level& level, const std::vector<const comparison_level::opened*>& scattered,
              comparison_level& next) {
    if (scattered.empty()) {
      return;
    }
    const stream_ref work = ctx_->work_stream();
    std::vector<std::shared_ptr<const scattered_lists>> made;
    std::vector<list_expansion> expansions;
    std::vector<value_request> totals;
    std::vector<use> uses;
    for (const comparison_level::opened* const opened_lists : scattered) {
      made.push_back(allocate_lists(opened_lists->rows.rows));
      uses.push_back(writes(made.back()->memory));
    }
    use_token token(work, uses);
    for (std::size_t i = 0; i < scattered.size(); ++i) {
      const scattered_lists& lists = *made[i];
      expansions.push_back(
          {level.tasks()[scattered[i]->task], lists.starts(), lists.left_shifts(), lists.right_shifts()});
      totals.push_back({.at = lists.starts() + lists.count, .width = sizeof(std::int64_t)});
    }
    const device_copy<list_expansion> uploaded(ctx_, expansions);
    use_token described(work, {reads(uploaded.memory())});
    ctx_->kernels().expand(work.native_handle(), expansions, uploaded.data(described));
    described.finish();
    const std::vector<std::int64_t> rows = read_values(ctx_, totals);
    token.finish();
    for (std::size_t i = 0; i < scattered.size(); ++i) {
      const compared_rows& lists = scattered[i]->rows;
      const column& left = lists.left.of->children()[0];
      const column& right = lists.right.of->children()[0];
      next.add({{&left, left.offset(), {}}, {&right, right.offset(), {}}, rows[i], made[i]});
    }
  }

  std::shared_ptr<context> ctx_;
  std::span<const row_range> ranges_;
};

bool same_rows(const std::shared_ptr<context>& ctx, std::span<const row_range> ranges) {
  return ranges.empty() || comparison(ctx, ranges).run();
}

} // namespace

bool equals(const column& left, const column& right, bool check_metadata) {
  return equals(std::span(&left, 1), std::span(&right, 1), check_metadata);
}

bool equals(std::span<const column> left, std::span<const column> right, bool check_metadata) {
  if (left.empty() || right.empty()) {
    return total_rows(left) == total_rows(right);
  }
  require_one_context(*left.front().ctx(), *right.front().ctx());
  if (!may_be_equal(left, right, check_metadata)) {
    return false;
  }
  std::vector<row_range> ranges;
  append_ranges(left, right, ranges);
  return same_rows(left.front().ctx(), ranges);
}

bool equals(const table& left, const table& right, bool check_metadata) {
  require_one_context(*left.ctx(), *right.ctx());
  if (left.rows() != right.rows() || !same_schema(left.fields(), right.fields(), check_metadata)) {
    return false;
  }
  std::vector<std::vector<column>> columns; // the ranges point into them
  columns.reserve(2 * left.column_count());
  std::vector<row_range> ranges;
  for (std::size_t i = 0; i < left.column_count(); ++i) {
    const std::vector<column>& ours = columns.emplace_back(left.pieces(i));
    const std::vector<column>& theirs = columns.emplace_back(right.pieces(i));
    if (!may_be_equal(ours, theirs, check_metadata)) {
      return false;
    }
    append_ranges(ours, theirs, ranges);
  }
  return same_rows(left.ctx(), ranges);
}

} // namespace saeta
