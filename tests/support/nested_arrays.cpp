#include "support/nested_arrays.hpp"

#include "saeta/column/column.hpp"
#include "saeta/column/schema.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace saeta::support {
namespace {

using bytes = std::vector<std::byte>;
using engine = std::mt19937_64;

std::int64_t below(engine& random, std::int64_t limit) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
}

template <class T>
bytes bytes_of(const std::vector<T>& values) {
  const auto* const first = reinterpret_cast<const std::byte*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

template <class T>
T load(const void* values, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(values) + index * static_cast<std::int64_t>(sizeof(T)),
              sizeof value);
  return value;
}

/// Reads a signed integer of 1, 2, 4 or 8 bytes.
std::int64_t load_integer(const void* values, std::size_t width, std::int64_t index) {
  switch (width) {
  case 1:
    return load<std::int8_t>(values, index);
  case 2:
    return load<std::int16_t>(values, index);
  case 4:
    return load<std::int32_t>(values, index);
  default:
    return load<std::int64_t>(values, index);
  }
}

bytes integers(const std::vector<std::int64_t>& values, std::size_t width) {
  bytes made(values.size() * width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::memcpy(made.data() + i * width, &values[i], width);
  }
  return made;
}

class filler {
public:
  filler(plain_array& made, const array_shape& shape, engine& random)
      : made_(made), shape_(shape), random_(random), rows_(shape.offset + shape.length) {}

  void lists() {
    std::vector<std::int64_t> offsets{below(random_, 4)};
    for (std::int64_t i = 0; i < rows_; ++i) {
      offsets.push_back(offsets.back() + below(random_, 3) * below(random_, 3));
    }
    add_child(0, offsets.back());
    made_.buffers.push_back(rows_ == 0 ? bytes{} : integers(offsets, made_.type.offset_width()));
  }

  void list_views() {
    constexpr std::int64_t child_rows = 23;
    const auto width = static_cast<std::size_t>(made_.type.buffer(1).width);
    std::vector<std::int64_t> offsets;
    std::vector<std::int64_t> sizes;
    for (std::int64_t i = 0; i < rows_; ++i) {
      offsets.push_back(below(random_, child_rows + 1));
      sizes.push_back(below(random_, std::min<std::int64_t>(child_rows - offsets.back(), 5) + 1));
    }
    add_child(0, child_rows);
    made_.buffers.push_back(integers(offsets, width));
    made_.buffers.push_back(integers(sizes, width));
  }

  /// Adds all children. @param each  number of child rows for one row
  void children_of_the_same_rows(std::int64_t each) {
    for (std::size_t i = 0; i < made_.type.children().size(); ++i) {
      add_child(i, rows_ * each);
    }
  }

  /// The offsets of each child are increasing, as the Arrow format requires for dense unions.
  void unions(bool dense) {
    const auto codes = made_.type.type_codes();
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> offsets;
    std::vector<std::int64_t> next(codes.size(), 1);
    for (std::int64_t i = 0; i < rows_; ++i) {
      const auto child = static_cast<std::size_t>(below(random_, static_cast<std::int64_t>(codes.size())));
      ids.push_back(codes[child]);
      offsets.push_back(next[child]);
      next[child] += below(random_, 3);
    }
    made_.buffers.push_back(integers(ids, 1));
    if (!dense) {
      return children_of_the_same_rows(1);
    }
    made_.buffers.push_back(integers(offsets, 4));
    for (std::size_t i = 0; i < codes.size(); ++i) {
      add_child(i, next[i] + 1);
    }
  }

  void runs() {
    std::vector<std::int64_t> ends;
    while ((rows_ != 0 && ends.empty()) || (!ends.empty() && ends.back() < rows_)) {
      ends.push_back((ends.empty() ? 0 : ends.back()) + 1 + below(random_, 7));
    }
    auto run_ends = std::make_shared<plain_array>();
    run_ends->type = made_.type.children()[0].type;
    run_ends->length = static_cast<std::int64_t>(ends.size());
    run_ends->buffers = {{}, integers(ends, static_cast<std::size_t>(run_ends->type.byte_width()))};
    made_.children.push_back(std::move(run_ends));
    add_child(1, static_cast<std::int64_t>(ends.size()), 0);
  }

  /// Views under a null are random.
  void views() {
    constexpr std::int32_t letters = 64;
    std::array<bytes, 2> behind;
    for (bytes& buffer : behind) {
      buffer.resize(letters);
      std::ranges::generate(buffer, [&] { return static_cast<std::byte>('a' + below(random_, 26)); });
    }
    std::vector<std::array<std::int32_t, 4>> all;
    for (std::int64_t i = 0; i < rows_; ++i) {
      std::array<std::int32_t, 4> one{};
      const bool visible = i < made_.offset || made_.valid(i - made_.offset);
      if (!visible) {
        std::ranges::generate(one, [&] { return static_cast<std::int32_t>(random_()); });
      } else if (below(random_, 2) == 0) {
        one[0] = static_cast<std::int32_t>(below(random_, 13));
        std::memcpy(&one[1], behind[0].data(), static_cast<std::size_t>(one[0]));
      } else {
        one[0] = static_cast<std::int32_t>(13 + below(random_, 20));
        one[2] = static_cast<std::int32_t>(below(random_, 2));
        one[3] = static_cast<std::int32_t>(below(random_, letters - one[0] + 1));
        std::memcpy(&one[1], behind[static_cast<std::size_t>(one[2])].data() + one[3], 4);
      }
      all.push_back(one);
    }
    made_.buffers.push_back(bytes_of(all));
    if (rows_ != 0) {
      made_.buffers.insert(made_.buffers.end(), behind.begin(), behind.end());
    }
  }

private:
  /// Adds a random child of at least `rows` rows and at most `more` rows more.
  void add_child(std::size_t index, std::int64_t rows, std::int64_t more = 2) {
    const field& described = made_.type.children()[index];
    array_shape shape = shape_;
    shape.length = rows + below(random_, more + 1);
    shape.offset = below(random_, 10);
    shape.pattern = described.nullable ? shape_.pattern : nulls::absent;
    made_.children.push_back(random_array(described.type, shape, random_()));
  }

  plain_array& made_;
  array_shape shape_;
  engine& random_;
  std::int64_t rows_;
};

std::string viewed(const void* views, std::int64_t row, const auto& buffer_at) {
  const auto one = load<std::array<std::int32_t, 4>>(views, row);
  std::string value(static_cast<std::size_t>(one[0]), ' ');
  const void* const from = one[0] <= 12
                               ? static_cast<const void*>(static_cast<const std::byte*>(views) + row * 16 + 4)
                               : static_cast<const std::byte*>(buffer_at(one[2])) + one[3];
  std::memcpy(value.data(), from, value.size());
  return value;
}

/// Returns the index of the run that contains a row, relative to the first of `runs`.
std::int64_t run_of(const void* ends, std::size_t width, child_rows runs, std::int64_t row) {
  // A loop, because clang 14, which builds the fuzzers, lacks std::views::iota for
  // std::ranges::partition_point.
  std::int64_t first = 0;
  std::int64_t last = runs.count;
  while (first < last) {
    const std::int64_t middle = first + (last - first) / 2;
    if (load_integer(ends, width, runs.first + middle) <= row) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

bool same_lists(const ArrowArray& seen, std::int64_t at, const plain_array& expected, std::int64_t row) {
  const auto width = static_cast<std::size_t>(expected.type.buffer(1).width);
  const bool views = expected.type.layout() == layout_kind::list_view;
  const auto bounds = [&](const void* offsets, const void* sizes, std::int64_t i) {
    const std::int64_t first = load_integer(offsets, width, i);
    return child_rows{first,
                      views ? load_integer(sizes, width, i) : load_integer(offsets, width, i + 1) - first};
  };
  const child_rows here = bounds(seen.buffers[1], views ? seen.buffers[2] : nullptr, seen.offset + at);
  const child_rows there =
      bounds(expected.buffers[1].data(), views ? expected.buffers[2].data() : nullptr, expected.offset + row);
  for (std::int64_t i = 0; here.count == there.count && i < here.count; ++i) {
    if (!same_row(*seen.children[0], here.first + i, *expected.children[0], there.first + i)) {
      return false;
    }
  }
  return here.count == there.count;
}

bool same_children(const ArrowArray& seen, std::int64_t at, const plain_array& expected, std::int64_t row) {
  const std::int64_t each = expected.type.layout() == layout_kind::fixed_list ? expected.type.list_size() : 1;
  for (std::size_t c = 0; c < expected.children.size(); ++c) {
    for (std::int64_t i = 0; i < each; ++i) {
      if (!same_row(*seen.children[c], (seen.offset + at) * each + i, *expected.children[c],
                    (expected.offset + row) * each + i)) {
        return false;
      }
    }
  }
  return true;
}

bool same_union(const ArrowArray& seen, std::int64_t at, const plain_array& expected, std::int64_t row) {
  const std::int64_t here = seen.offset + at;
  const std::int64_t there = expected.offset + row;
  const auto id = load<std::int8_t>(seen.buffers[0], here);
  if (id != load<std::int8_t>(expected.buffers[0].data(), there)) {
    return false;
  }
  const auto codes = expected.type.type_codes();
  const auto child = static_cast<std::size_t>(std::ranges::find(codes, id) - codes.begin());
  const bool dense = expected.type.layout() == layout_kind::dense_union;
  return same_row(*seen.children[child], dense ? load<std::int32_t>(seen.buffers[1], here) : here,
                  *expected.children[child],
                  dense ? load<std::int32_t>(expected.buffers[1].data(), there) : there);
}

bool same_run(const ArrowArray& seen, std::int64_t at, const plain_array& expected, std::int64_t row) {
  const plain_array& theirs = *expected.children[0];
  const auto width = static_cast<std::size_t>(theirs.type.byte_width());
  const ArrowArray& ends = *seen.children[0];
  const std::int64_t here = run_of(ends.buffers[1], width, {ends.offset, ends.length}, seen.offset + at);
  const std::int64_t there =
      run_of(theirs.buffers[1].data(), width, {theirs.offset, theirs.length}, expected.offset + row);
  return same_row(*seen.children[1], here, *expected.children[1], there);
}

/// Reads a dictionary index of any width, signed or unsigned.
std::int64_t index_at(const void* indices, std::size_t width, std::int64_t row) {
  std::int64_t index = 0; // little-endian
  std::memcpy(&index, static_cast<const std::byte*>(indices) + static_cast<std::size_t>(row) * width, width);
  return index;
}

} // namespace

void fill_nested(plain_array& made, const array_shape& shape, engine& random) {
  filler fill(made, shape, random);
  switch (made.type.layout()) {
  case layout_kind::views:
    return fill.views();
  case layout_kind::list:
    return fill.lists();
  case layout_kind::list_view:
    return fill.list_views();
  case layout_kind::fixed_list:
    return fill.children_of_the_same_rows(made.type.list_size());
  case layout_kind::structure:
    return fill.children_of_the_same_rows(1);
  case layout_kind::dense_union:
  case layout_kind::sparse_union:
    return fill.unions(made.type.layout() == layout_kind::dense_union);
  case layout_kind::run_ends:
    return fill.runs();
  default:
    ADD_FAILURE() << made.type.name() << " is not nested";
  }
}

bool same_row(const ArrowArray& seen, std::int64_t at, const plain_array& expected, std::int64_t row) {
  const data_type& type = expected.type;
  const auto* const bits = type.has_validity() ? static_cast<const std::uint8_t*>(seen.buffers[0]) : nullptr;
  const std::int64_t bit = seen.offset + at;
  const bool null =
      type.layout() == layout_kind::none || (bits != nullptr && (bits[bit / 8] >> (bit % 8) & 1) == 0);
  if (null == expected.valid(row)) {
    return false;
  }
  if (null) {
    return true;
  }
  if (expected.dictionary) {
    const auto width = static_cast<std::size_t>(type.byte_width());
    return same_row(*seen.dictionary, index_at(seen.buffers[1], width, bit), *expected.dictionary,
                    index_at(expected.buffers[1].data(), width, expected.offset + row));
  }
  switch (type.layout()) {
  case layout_kind::views:
    return viewed(seen.buffers[1], bit, [&](std::int32_t i) { return seen.buffers[2 + i]; }) ==
           viewed(expected.buffers[1].data(), expected.offset + row,
                  [&](std::int32_t i) { return expected.buffers[2 + static_cast<std::size_t>(i)].data(); });
  case layout_kind::list:
  case layout_kind::list_view:
    return same_lists(seen, at, expected, row);
  case layout_kind::fixed_list:
  case layout_kind::structure:
    return same_children(seen, at, expected, row);
  case layout_kind::dense_union:
  case layout_kind::sparse_union:
    return same_union(seen, at, expected, row);
  case layout_kind::run_ends:
    return same_run(seen, at, expected, row);
  default: {
    ArrowArray one = seen;
    one.offset += at;
    one.length = 1;
    one.null_count = -1;
    return static_cast<bool>(same_rows(one, expected, row, 1));
  }
  }
}

} // namespace saeta::support
