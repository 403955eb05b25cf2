// The comparison kernels: contiguous values at every alignment with a difference at various positions, rows
// through indices and offsets, and expanded lists.
#include "conformance/device/raw_bytes.hpp"
#include "conformance/harness/backends.hpp"
#include "conformance/harness/device_memory.hpp"
#include "saeta/device/kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

namespace saeta::conformance {
namespace {

/// Row numbers around the limits of a vector load, a thread, a block and a tile, for values of every width.
const std::vector<std::int64_t> different_places{0,      1,      7,      15,     16,      17,     255,
                                                 256,    1023,   1024,   2047,   2048,    16'383, 16'384,
                                                 32'767, 32'768, 32'769, 65'535, 131'071, 140'000};
constexpr std::int64_t rows = 140'001;

std::vector<std::uint8_t> pattern(std::size_t bytes) {
  std::vector<std::uint8_t> made(bytes);
  std::uint32_t state = 17;
  for (std::uint8_t& each : made) {
    state = state * 1664525 + 1013904223;
    each = static_cast<std::uint8_t>(state >> 24);
  }
  return made;
}

class equal_kernels : public backend_test {
protected:
  [[nodiscard]] stream_ref work() const { return work_.ref(); }

  template <class T>
  T* there(const std::vector<T>& values) {
    return memory_.emplace_back(work(), raw(values)).template as<T>();
  }
  /// Copies the bytes to an address `skew` bytes after an aligned one.
  const std::uint8_t* there_at(const std::vector<std::uint8_t>& values, std::size_t skew) {
    std::vector<std::uint8_t> moved(skew);
    moved.insert(moved.end(), values.begin(), values.end());
    return there(moved) + skew;
  }

  std::vector<equal_extent> compare(std::vector<equal_task> tasks, std::size_t extents = 1) {
    number_tiles(tasks);
    const device_memory uploaded(work(), raw(tasks));
    const std::vector<equal_extent> untouched(extents + 1, equal_extent{42, 42, 42, 42});
    const device_memory found(work(), raw(untouched));
    device().kernels().compare(work().native_handle(), tasks, uploaded.as<equal_task>(),
                               {found.as<equal_extent>(), extents});
    std::vector<equal_extent> seen(extents + 1);
    const std::vector<std::uint8_t> content = found.download();
    std::memcpy(static_cast<void*>(seen.data()), content.data(), content.size());
    EXPECT_EQ(seen.back().scattered, 42);
    seen.pop_back();
    return seen;
  }
  bool same(const equal_task& task) { return compare({task})[0].scattered == 0; }

  /// Changes the right side at each position in turn and expects that the kernel finds it, unless the row is
  /// null on both sides.
  void expect_found(equal_task task, std::vector<std::uint8_t> values, std::size_t left_skew,
                    std::size_t right_skew) {
    const auto row_bytes = static_cast<std::size_t>(task.units * task.width);
    task.left.values = there_at(values, left_skew);
    const device_memory other(work(), values.size() + right_skew);
    task.right.values = other.data() + right_skew;
    const auto upload = [&] {
      std::vector<std::uint8_t> moved(right_skew);
      moved.insert(moved.end(), values.begin(), values.end());
      other.upload(moved);
    };
    upload();
    EXPECT_TRUE(same(task));
    for (const std::int64_t place : different_places) {
      if (place >= task.count) {
        continue;
      }
      const std::int64_t row = task.right.first + place;
      std::uint8_t& changed = values[static_cast<std::size_t>(row) * row_bytes];
      changed ^= 0x10;
      upload();
      EXPECT_FALSE(same(task)) << "row " << place;
      std::vector<std::uint8_t> validity((static_cast<std::size_t>(task.left.first + task.count) + 7) / 8,
                                         0xff);
      const std::int64_t bit = task.left.first + place;
      validity[static_cast<std::size_t>(bit / 8)] ^= static_cast<std::uint8_t>(1 << (bit % 8));
      equal_task masked = task;
      const device_memory bits(work(), validity);
      masked.left.validity = bits.data();
      EXPECT_TRUE(same(masked)) << "row " << place << ", null";
      changed ^= 0x10;
    }
  }

private:
  stream work_{shared_device()};
  std::deque<device_memory> memory_;
};

TEST_P(equal_kernels, find_a_byte_that_differs_at_any_alignment) {
  for (const auto& [left, right] :
       std::vector<std::pair<std::size_t, std::size_t>>{{0, 0}, {3, 0}, {0, 5}, {7, 7}, {1, 14}}) {
    SCOPED_TRACE(::testing::Message() << left << " and " << right);
    equal_task task;
    task.kind = equal_kind::flat_values;
    task.width = 1;
    task.count = rows;

    expect_found(task, pattern(static_cast<std::size_t>(rows)), left, right);
  }
}

TEST_P(equal_kernels, find_values_of_every_width_that_differ) {
  for (const auto& [width, units] :
       std::vector<std::pair<int, int>>{{2, 1}, {4, 1}, {8, 1}, {8, 2}, {8, 4}, {1, 5}}) {
    SCOPED_TRACE(::testing::Message() << units << " of " << width);
    equal_task task;
    task.kind = equal_kind::flat_values;
    task.width = width;
    task.units = units;
    task.count = 40'000;

    task.left.first = 1; // the left side begins one row later
    task.right.first = 1;
    expect_found(task, pattern(static_cast<std::size_t>((task.count + 1) * width * units)), 0, 0);
  }
}

TEST_P(equal_kernels, find_floats_that_differ_by_their_values) {
  for (const auto& [width, infinity] : std::vector<std::pair<int, std::uint64_t>>{
           {2, 0x7c00}, {4, 0x7f80'0000}, {8, 0x7ff0'0000'0000'0000}}) {
    SCOPED_TRACE(width);
    equal_task task;
    task.kind = equal_kind::flat_values;
    task.width = width;
    task.infinity = infinity;
    task.count = rows;

    task.left.first = 1;
    task.right.first = 1;
    std::vector<std::uint8_t> values((static_cast<std::size_t>(rows) + 1) * static_cast<std::size_t>(width),
                                     0x11);
    expect_found(task, values, 0, 0);
    std::vector<std::uint8_t> negative_zero((static_cast<std::size_t>(rows) + 1) *
                                            static_cast<std::size_t>(width));
    const std::vector<std::uint8_t> zero = negative_zero;
    negative_zero.back() = 0x80;
    task.left.values = there(zero);
    task.right.values = there(negative_zero);
    EXPECT_TRUE(same(task));
    const std::vector<std::uint8_t> nan(zero.size(), 0xff);
    task.left.values = there(nan);
    task.right.values = task.left.values;
    EXPECT_FALSE(same(task)) << "a NaN";
  }
}

TEST_P(equal_kernels, find_bits_that_differ_at_any_offset) {
  const std::vector<std::uint8_t> bits = pattern(static_cast<std::size_t>(rows) / 8 + 3);
  for (const std::int64_t offset : {0, 3, 8, 13}) {
    std::vector<std::uint8_t> moved(bits.size());
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t from = i + offset;
      const int set = bits[static_cast<std::size_t>(from / 8)] >> (from % 8) & 1;
      moved[static_cast<std::size_t>(i / 8)] |= static_cast<std::uint8_t>(set << (i % 8));
    }
    equal_task task;
    task.kind = equal_kind::flat_bits;
    task.count = rows;

    task.left = {.values = there(bits), .first = offset};
    task.right.values = there(moved);
    EXPECT_TRUE(same(task)) << offset;
    for (const std::int64_t place : different_places) {
      std::vector<std::uint8_t> changed = moved;
      changed[static_cast<std::size_t>(place / 8)] ^= static_cast<std::uint8_t>(1 << (place % 8));
      const device_memory other(work(), changed);
      task.right.values = other.data();
      EXPECT_FALSE(same(task)) << "row " << place << ", offset " << offset;
      std::vector<std::uint8_t> validity(bits.size(), 0xff);
      const std::int64_t bit = offset + place;
      validity[static_cast<std::size_t>(bit / 8)] ^= static_cast<std::uint8_t>(1 << (bit % 8));
      const device_memory mask(work(), validity);
      equal_task masked = task;
      masked.left.validity = mask.data();
      EXPECT_TRUE(same(masked)) << "row " << place << ", null";
    }
  }
}

TEST_P(equal_kernels, treat_an_absent_bitmap_as_all_valid) {
  std::vector<std::uint8_t> ones(static_cast<std::size_t>(rows) / 8 + 1, 0xff);
  equal_task task;
  task.kind = equal_kind::flat_bits;
  task.count = rows;

  task.left.values = there(ones);
  EXPECT_TRUE(same(task));
  ones.back() = 0;
  task.left.values = there(ones);
  EXPECT_FALSE(same(task));
  std::swap(task.left, task.right);
  EXPECT_FALSE(same(task));
}

TEST_P(equal_kernels, follow_indices) {
  std::vector<std::int32_t> left_values(300);
  std::vector<std::int32_t> right_values(300);
  for (int i = 0; i < 300; ++i) {
    left_values[static_cast<std::size_t>(i)] = i;
    right_values[static_cast<std::size_t>(299 - i)] = i;
  }
  std::vector<std::uint16_t> left_indices(rows);
  std::vector<std::uint16_t> right_indices(rows);
  for (std::size_t i = 0; i < left_indices.size(); ++i) {
    left_indices[i] = static_cast<std::uint16_t>(i % 300);
    right_indices[i] = static_cast<std::uint16_t>(299 - i % 300);
  }
  for (const std::int64_t place : different_places) {
    std::vector<std::uint16_t> changed = right_indices;
    changed[static_cast<std::size_t>(place)] = 300; // out of range counts as null
    equal_step step{
        .kind = equal_step_kind::indices, .width = 2, .values = there(left_indices), .count = 300};
    std::vector<equal_step> steps{step, step, step};
    steps[1].values = there(right_indices);
    steps[2].values = there(changed);
    const equal_step* const uploaded = there(steps);
    equal_task task;
    task.kind = equal_kind::values;
    task.width = 4;
    task.count = rows;

    task.left = {.values = there(left_values), .steps = uploaded, .step_count = 1};
    task.right = {.values = there(right_values), .steps = uploaded + 1, .step_count = 1};
    EXPECT_TRUE(same(task));
    task.right.steps = uploaded + 2;
    EXPECT_FALSE(same(task)) << place;
  }
}

/// List i has i % 4 values. The child of the right side begins with 10 values that no list refers to.
TEST_P(equal_kernels, locate_values_of_lists_and_expand_scattered_ones) {
  constexpr std::int64_t count = 5000;
  std::vector<std::int64_t> left{0};
  std::vector<std::int64_t> right{10};
  for (std::int64_t i = 0; i < count; ++i) {
    left.push_back(left.back() + i % 4);
    right.push_back(right.back() + i % 4);
  }
  equal_task task;
  task.kind = equal_kind::offsets;
  task.width = 8;
  task.extent = 1;
  task.count = count;

  task.left.values = there(left);
  task.right.values = there(right);
  const std::vector<equal_extent> found = compare({task}, 2);
  EXPECT_EQ(found[0].scattered, 0);
  EXPECT_EQ(found[1].scattered, 0);
  EXPECT_EQ(found[1].left_first, 0);
  EXPECT_EQ(found[1].left_end, left.back());
  EXPECT_EQ(found[1].right_first, 10);

  std::vector<std::uint8_t> validity(count / 8, 0xff);
  validity[100] = 0xfe; // list 800 has no values, list 802 has two
  task.left.validity = there(validity);
  task.right.validity = task.left.validity;
  EXPECT_EQ(compare({task}, 2)[1].scattered, 0);
  validity[100] = 0xfb;
  task.left.validity = there(validity);
  task.right.validity = task.left.validity;
  EXPECT_EQ(compare({task}, 2)[1].scattered, 1);

  const std::vector<std::int64_t> space(3 * count + 1, -7);
  std::int64_t* const memory = there(space);
  const std::vector<list_expansion> expansions{{task, memory, memory + count + 1, memory + 2 * count + 1}};
  device().kernels().expand(work().native_handle(), expansions, there(expansions));
  std::vector<std::int64_t> seen(space.size());
  device().copy(seen.data(), memory, seen.size() * sizeof(std::int64_t), copy_kind::device_to_host,
                work().native_handle());
  device().synchronize_stream(work().native_handle());
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(seen[at], total) << i;
    const std::int64_t own = i == 802 ? 0 : i % 4;
    if (own != 0) {
      EXPECT_EQ(seen[at + count + 1] + total, left[at]) << i;
      EXPECT_EQ(seen[at + 2 * count + 1] + total, right[at]) << i;
    }
    total += own;
  }
  EXPECT_EQ(seen[count], total);

  // Compares the values of these lists one by one.
  std::vector<std::int32_t> values(static_cast<std::size_t>(left.back()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int32_t>(i * 7);
  }
  std::vector<std::int32_t> moved(10, -1);
  moved.insert(moved.end(), values.begin(), values.end());
  equal_task content;
  content.kind = equal_kind::values;
  content.width = 4;
  content.count = total;

  content.starts = memory;
  content.lists = count;
  content.left = {.values = there(values), .shifts = memory + count + 1};
  content.right.shifts = memory + 2 * count + 1;
  const auto same_with = [&](std::int64_t list, std::int64_t value) {
    std::vector<std::int32_t> changed = moved;
    changed[static_cast<std::size_t>(right[static_cast<std::size_t>(list)] + value)] = -5;
    content.right.values = there(changed);
    return same(content);
  };
  EXPECT_TRUE(same_with(802, 1)) << "below a null";
  EXPECT_FALSE(same_with(803, 0));
  EXPECT_FALSE(same_with(1, 0));
  EXPECT_FALSE(same_with(count - 1, 2));
}

TEST_P(equal_kernels, detect_scattered_list_views_on_one_side) {
  const std::vector<std::int32_t> sizes{2, 3, 1};
  const std::vector<std::int32_t> following{4, 6, 9};
  equal_task task;
  task.kind = equal_kind::list_views;
  task.width = 4;
  task.extent = 1;
  task.count = 3;
  task.left.second = there(sizes);
  task.right.second = task.left.second;
  const std::int32_t* const good = there(following);
  const std::vector<std::vector<std::int32_t>> others{{4, 6, 10}, {4, 7, 10}, {9, 6, 4}};
  for (const std::vector<std::int32_t>& places_of : others) {
    task.left.values = good;
    task.right.values = good;
    EXPECT_EQ(compare({task}, 2)[1].scattered, 0);
    task.right.values = there(places_of);
    EXPECT_EQ(compare({task}, 2)[1].scattered, 1);
    std::swap(task.left, task.right);
    EXPECT_EQ(compare({task}, 2)[1].scattered, 1);
    EXPECT_EQ(compare({task}, 2)[0].scattered, 0);
  }
}

SAETA_CONFORMANCE_SUITE(equal_kernels);

} // namespace
} // namespace saeta::conformance
