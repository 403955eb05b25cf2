// The join kernels, compared with a model that works value by value, with random offsets and sizes.
#include "conformance/device/raw_bytes.hpp"
#include "conformance/harness/backends.hpp"
#include "conformance/harness/device_memory.hpp"
#include "saeta/device/kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace saeta::conformance {
namespace {

using bytes = std::vector<std::uint8_t>;

constexpr std::int64_t entries = 100; ///< entries of a lookup table
constexpr std::int64_t type_ids = 128;

/// The steps of one launch. Sources, targets, lookup tables and counters are in one memory each. Steps have
/// byte offsets into these memories, which are converted to addresses before the launch.
class join : public backend_test {
protected:
  struct piece {
    join_step step;
    std::size_t source = 0;
    std::size_t target = 0;
    std::size_t ids = 0;
    std::size_t table = 0;
    std::size_t counter = 0;
    bool counts = false;
  };

  [[nodiscard]] stream_ref work() const { return work_.ref(); }
  std::int64_t below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random_);
  }

  std::size_t add_source(std::size_t size, std::size_t alignment) {
    while (source_.size() % alignment != 0) {
      source_.push_back(poison);
    }
    const std::size_t at = source_.size();
    for (std::size_t i = 0; i < size; ++i) {
      source_.push_back(static_cast<std::uint8_t>(random_()));
    }
    return at;
  }
  std::size_t add_target(std::size_t size, std::size_t alignment, std::uint8_t content) {
    target_.resize((target_.size() + alignment - 1) / alignment * alignment, poison);
    const std::size_t at = target_.size();
    target_.resize(at + size, content);
    return at;
  }
  template <class T>
  [[nodiscard]] T load(std::size_t at) const {
    T value;
    std::memcpy(&value, source_.data() + at, sizeof value);
    return value;
  }
  template <class T>
  void expect(std::size_t at, T value) {
    std::memcpy(expected_.data() + at, &value, sizeof value);
  }

  void add_bytes(std::int64_t count);
  void add_zeroes(std::int64_t count);
  void add_bits(std::int64_t count);
  template <class Offset>
  void add_offsets(std::int64_t count);
  template <class Index>
  void add_indices(std::int64_t count);
  void add_views(std::int64_t count);
  void add_unions(std::int64_t count);
  template <class End>
  void add_run_ends(std::int64_t count);
  void add_all(std::int64_t count);

  /// Runs all steps in one launch and compares the result with the model.
  void run();
  void model(const piece& of);
  template <class Value, class Change>
  void model_values(const piece& of, Change change);

private:
  stream work_{shared_device()};
  std::mt19937_64 random_{20'261'122};
  bytes source_;
  bytes target_;
  bytes expected_;
  std::vector<std::int64_t> tables_;
  std::vector<std::int64_t> counted_;
  std::vector<piece> pieces_;
};

void join::add_bytes(std::int64_t count) {
  piece made;
  made.step.kind = join_kind::copy;
  made.step.count = count;
  made.step.copy = {.zeros = below(65)};
  add_source(static_cast<std::size_t>(below(17)), 1);
  made.source = add_source(static_cast<std::size_t>(count), 1);
  add_target(static_cast<std::size_t>(below(17)), 1, poison);
  made.target = add_target(static_cast<std::size_t>(count + made.step.copy.zeros), 1, poison);
  pieces_.push_back(made);
}

void join::add_zeroes(std::int64_t count) {
  piece made;
  made.step.kind = join_kind::zero;
  made.step.count = count;
  add_target(static_cast<std::size_t>(below(17)), 1, poison);
  made.target = add_target(static_cast<std::size_t>(count), 1, poison);
  pieces_.push_back(made);
}

/// Adds three steps that write one bitmap: a copy with a null count, a fill with ones, a copy.
void join::add_bits(std::int64_t count) {
  const std::int64_t head = below(70);
  const std::int64_t set = below(70) + 1;
  const std::int64_t total = head + count + set + count;
  const std::size_t target = add_target(static_cast<std::size_t>((total + 31) / 32 * 4), 4, 0);
  const std::size_t counter = counted_.size();
  counted_.push_back(0);
  std::int64_t at = head;
  for (int run = 0; run < 3; ++run) {
    piece made;
    made.target = target;
    made.step.bits.target_first = at;
    made.step.count = run == 1 ? set : count;
    made.step.kind = run == 1 ? join_kind::ones : join_kind::bits;
    if (run != 1) {
      made.step.bits.source_first = below(80);
      made.source = add_source(static_cast<std::size_t>((made.step.bits.source_first + count + 7) / 8), 1);
    }
    made.counts = run == 0;
    made.counter = counter;
    at += made.step.count;
    pieces_.push_back(made);
  }
}

template <class Offset>
void join::add_offsets(std::int64_t count) {
  piece made;
  made.step.kind = join_kind::add;
  made.step.width = sizeof(Offset);
  made.step.count = count;
  made.step.add = {below(1000) - 500};
  made.source = add_source(static_cast<std::size_t>(count) * sizeof(Offset), sizeof(Offset));
  made.target = add_target(static_cast<std::size_t>(count) * sizeof(Offset), sizeof(Offset), poison);
  pieces_.push_back(made);
}

template <class Index>
void join::add_indices(std::int64_t count) {
  add_offsets<Index>(count);
  piece& made = pieces_.back();
  made.step.kind = join_kind::remap;
  made.step.remap = {.table = nullptr, .entries = entries};
  made.table = tables_.size();
  for (std::int64_t i = 0; i < entries; ++i) {
    tables_.push_back(below(120));
  }
  for (std::int64_t i = 0; i < count; i += 2) { // the others stay random, as values under nulls may be
    const auto known = static_cast<Index>(below(entries));
    std::memcpy(source_.data() + made.source + static_cast<std::size_t>(i) * sizeof(Index), &known,
                sizeof known);
  }
}

void join::add_views(std::int64_t count) {
  piece made;
  made.step.kind = join_kind::views;
  made.step.count = count;
  made.step.views = {5};
  made.source = add_source(static_cast<std::size_t>(count) * 16, 16);
  made.target = add_target(static_cast<std::size_t>(count) * 16, 16, poison);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto size = static_cast<std::int32_t>(below(26)); // around 12, the limit of inline views
    std::memcpy(source_.data() + made.source + static_cast<std::size_t>(i) * 16, &size, sizeof size);
  }
  pieces_.push_back(made);
}

void join::add_unions(std::int64_t count) {
  add_offsets<std::int32_t>(count);
  piece& made = pieces_.back();
  made.step.kind = join_kind::unions;
  made.ids = add_source(static_cast<std::size_t>(count), 1);
  made.table = tables_.size();
  for (std::int64_t i = 0; i < type_ids; ++i) {
    tables_.push_back(below(1'000'000));
  }
}

template <class End>
void join::add_run_ends(std::int64_t count) {
  add_offsets<End>(count);
  piece& made = pieces_.back();
  made.step.kind = join_kind::run_ends;
  made.step.run_ends = {.first_row = below(100), .rows = below(1000), .base = below(1000)};
}

void join::add_all(std::int64_t count) {
  add_bytes(count);
  add_bits(count);
  add_zeroes(count);
  add_offsets<std::uint8_t>(count);
  add_offsets<std::uint16_t>(count);
  add_offsets<std::uint32_t>(count);
  add_offsets<std::uint64_t>(count);
  add_indices<std::uint8_t>(count);
  add_indices<std::uint16_t>(count);
  add_indices<std::uint32_t>(count);
  add_indices<std::uint64_t>(count);
  add_views(count);
  add_unions(count);
  add_run_ends<std::int16_t>(count);
  add_run_ends<std::int32_t>(count);
  add_run_ends<std::int64_t>(count);
}

template <class Value, class Change>
void join::model_values(const piece& of, Change change) {
  for (std::int64_t i = 0; i < of.step.count; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * sizeof(Value);
    expect(of.target + at, static_cast<Value>(change(load<Value>(of.source + at), i)));
  }
}

/// Calls `run` with an integer of the given width.
template <class Run>
void with_width(std::int32_t width, Run run) {
  if (width == 1) {
    run(std::int8_t{});
  } else if (width == 2) {
    run(std::int16_t{});
  } else if (width == 4) {
    run(std::int32_t{});
  } else {
    run(std::int64_t{});
  }
}

void join::model(const piece& of) {
  const join_step& step = of.step;
  switch (step.kind) {
  case join_kind::copy:
    std::fill_n(expected_.begin() + static_cast<std::ptrdiff_t>(of.target) + step.count, step.copy.zeros,
                std::uint8_t{0});
    return model_values<std::uint8_t>(of, [](std::uint8_t value, std::int64_t) { return value; });
  case join_kind::zero:
    std::fill_n(expected_.begin() + static_cast<std::ptrdiff_t>(of.target), step.count, std::uint8_t{0});
    return;
  case join_kind::bits:
  case join_kind::ones:
    for (std::int64_t i = 0; i < step.count; ++i) {
      const std::int64_t from = step.bits.source_first + i;
      const std::int64_t to = step.bits.target_first + i;
      const bool set = step.kind == join_kind::ones ||
                       (source_[of.source + static_cast<std::size_t>(from / 8)] >> (from % 8) & 1) != 0;
      std::uint8_t& byte = expected_[of.target + static_cast<std::size_t>(to / 8)];
      byte = static_cast<std::uint8_t>(byte | (set ? 1 : 0) << (to % 8));
      counted_[of.counter] += of.counts && !set ? 1 : 0;
    }
    return;
  case join_kind::add:
    return with_width(step.width, [&]<class Value>(Value) {
      using bits = std::make_unsigned_t<Value>;
      model_values<bits>(of, [&](bits v, std::int64_t) {
        return std::uint64_t{v} + static_cast<std::uint64_t>(step.add.addend);
      });
    });
  case join_kind::remap:
    return with_width(step.width, [&]<class Value>(Value) {
      using bits = std::make_unsigned_t<Value>;
      model_values<bits>(of, [&](bits v, std::int64_t) { return v < entries ? tables_[of.table + v] : 0; });
    });
  case join_kind::views:
    for (std::int64_t i = 0; i < step.count; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * 16;
      std::memcpy(expected_.data() + of.target + at, source_.data() + of.source + at, 16);
      if (load<std::int32_t>(of.source + at) > 12) {
        expect(of.target + at + 8, load<std::uint32_t>(of.source + at + 8) + 5);
      }
    }
    return;
  case join_kind::unions:
    return model_values<std::uint32_t>(of, [&](std::uint32_t v, std::int64_t i) {
      const auto id = load<std::int8_t>(of.ids + static_cast<std::size_t>(i));
      return v + static_cast<std::uint32_t>(id < 0 ? 0 : tables_[of.table + static_cast<std::size_t>(id)]);
    });
  case join_kind::run_ends:
    return with_width(step.width, [&]<class Value>(Value) {
      model_values<Value>(of, [&](Value v, std::int64_t) {
        return std::min(std::int64_t{v} - step.run_ends.first_row, step.run_ends.rows) + step.run_ends.base;
      });
    });
  }
}

void join::run() {
  expected_ = target_;
  const std::vector<std::int64_t> zeroes = counted_;
  for (const piece& each : pieces_) {
    model(each);
  }
  const device_memory source(work(), source_);
  const device_memory target(work(), target_);
  const device_memory tables(work(), raw(tables_));
  const device_memory counters(work(), raw(zeroes));
  std::vector<join_step> steps;
  for (const piece& each : pieces_) {
    join_step& step = steps.emplace_back(each.step);
    step.source = source.data() + each.source;
    step.target = target.data() + each.target;
    const auto* const table = tables.as<std::int64_t>() + each.table;
    if (step.kind == join_kind::remap) {
      step.remap.table = table;
    } else if (step.kind == join_kind::unions) {
      step.unions = {.bases = table, .ids = source.as<std::int8_t>() + each.ids};
    } else if (each.counts) {
      step.bits.nulls = counters.as<std::int64_t>() + each.counter;
    }
  }
  std::ranges::shuffle(steps, random_);
  number_tiles(steps);
  const device_memory uploaded(work(), raw(steps));

  device().kernels().join(work().native_handle(), steps, uploaded.as<join_step>());

  ASSERT_EQ(target.download(), expected_);
  const bytes seen = counters.download();
  ASSERT_TRUE(std::ranges::equal(seen, raw(counted_)));
}

TEST_P(join, runs_steps_of_all_kinds_in_one_launch) {
  for (const std::int64_t count : {1, 7, 8, 31, 32, 33, 64, 127, 500, 1000, 4099}) {
    add_all(count);
  }
  run();
}

TEST_P(join, runs_steps_of_several_tiles) {
  for (const std::int64_t count : {16'384, 20'011, 140'003}) {
    add_all(count);
  }
  run();
}

TEST_P(join, copies_between_all_alignments) {
  for (int i = 0; i < 400; ++i) {
    add_bytes(below(80) + 1);
    add_bits(below(80) + 1);
  }
  run();
}

TEST_P(join, does_nothing_without_steps) {
  device().kernels().join(work().native_handle(), {}, nullptr);
  device().kernels().read_values(work().native_handle(), {}, nullptr, nullptr);
}

TEST_P(join, reads_values_of_every_width_at_any_address) {
  const bytes content = [&] {
    bytes made(200);
    std::ranges::generate(made, [&] { return static_cast<std::uint8_t>(below(256)); });
    return made;
  }();
  const device_memory source(work(), content);
  std::vector<value_request> requests;
  std::vector<std::int64_t> expected;
  for (const std::int32_t width : {2, 4, 8}) {
    for (std::size_t at = 0; at < 100; ++at) {
      requests.push_back({.at = source.data() + at, .width = width});
      with_width(width, [&]<class Value>(Value) {
        Value value;
        std::memcpy(&value, content.data() + at, sizeof value);
        expected.push_back(value);
      });
    }
  }
  const device_memory uploaded(work(), raw(requests));
  const device_memory values(work(), bytes(requests.size() * 8, poison));
  device().kernels().read_values(work().native_handle(), requests, uploaded.as<value_request>(),
                                 values.as<std::int64_t>());
  EXPECT_TRUE(std::ranges::equal(values.download(), raw(expected)));
}

TEST_P(join, finds_the_first_value_above_another) {
  std::vector<std::int32_t> rising;
  for (std::int32_t i = 0; i < 1000; ++i) {
    rising.push_back(3 * i);
  }
  const device_memory source(work(), raw(rising));
  std::vector<value_request> requests;
  std::vector<std::int64_t> expected;
  for (const std::int64_t sought : {-5, 0, 1, 2, 3, 1500, 2996, 2997, 5000}) {
    requests.push_back({.at = source.data(), .width = 4, .search = true, .count = 1000, .greater = sought});
    expected.push_back(std::ranges::upper_bound(rising, sought) - rising.begin());
  }
  requests.push_back({.at = source.data(), .width = 4, .search = true, .count = 0, .greater = 0});
  expected.push_back(0);
  const device_memory uploaded(work(), raw(requests));
  const device_memory values(work(), bytes(requests.size() * 8, poison));
  device().kernels().read_values(work().native_handle(), requests, uploaded.as<value_request>(),
                                 values.as<std::int64_t>());
  EXPECT_TRUE(std::ranges::equal(values.download(), raw(expected)));
}

SAETA_CONFORMANCE_SUITE(join);

} // namespace
} // namespace saeta::conformance
