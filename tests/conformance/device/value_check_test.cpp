// The validation kernel for offsets, indices, views, type ids, run ends and UTF-8: each kind of check, with
// valid values and with errors at various positions.
#include "conformance/device/raw_bytes.hpp"
#include "conformance/harness/backends.hpp"
#include "conformance/harness/device_memory.hpp"
#include "saeta/device/kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace saeta::conformance {
namespace {

/// Row numbers around the limits of a thread, a block and a tile.
const std::vector<std::int64_t> bad_places{0, 1, 7, 255, 256, 1023, 1024, 8191, 8192, 8193, 20'000};
constexpr std::int64_t tested_rows = 20'001;

class value_checks : public backend_test {
protected:
  [[nodiscard]] stream_ref work() const { return work_.ref(); }

  template <class T>
  T* there(const std::vector<T>& values) {
    return memory_.emplace_back(work(), raw(values)).template as<T>();
  }

  std::vector<std::int64_t> run(std::vector<value_check> checks) {
    number_tiles(checks);
    const device_memory uploaded(work(), raw(checks));
    const std::vector<std::int64_t> untouched(checks.size() + 1, 42);
    const device_memory found(work(), raw(untouched));
    device().kernels().check_values(work().native_handle(), checks, uploaded.as<value_check>(),
                                    found.as<std::int64_t>());
    std::vector<std::int64_t> seen(checks.size() + 1);
    const std::vector<std::uint8_t> content = found.download();
    std::memcpy(seen.data(), content.data(), content.size());
    EXPECT_EQ(seen.back(), 42);
    seen.pop_back();
    return seen;
  }

  /// Breaks `values` at each position in turn by `worsen(value)`. Expects that the check reports this row.
  template <class T>
  void expect_found(std::vector<T> values, const std::function<value_check(const T*)>& check,
                    const std::function<void(std::vector<T>&, std::int64_t)>& worsen,
                    std::int64_t shift = 0) {
    std::vector<value_check> checks{check(there(values))};
    std::vector<std::int64_t> expected{no_bad_row};
    for (const std::int64_t place : bad_places) {
      std::vector<T> broken = values;
      worsen(broken, place);
      if (place + 5 < tested_rows) { // a second error must not be reported
        worsen(broken, place + 5);
      }
      checks.push_back(check(there(broken)));
      expected.push_back(place + shift);
    }
    EXPECT_EQ(run(checks), expected);
  }

private:
  stream work_{shared_device()};
  std::deque<device_memory> memory_;
};

template <class Offset>
std::vector<Offset> rising() {
  std::vector<Offset> made;
  for (std::int64_t i = 0; i <= tested_rows; ++i) {
    made.push_back(static_cast<Offset>(i + i / 3));
  }
  return made;
}

TEST_P(value_checks, find_decreasing_offsets) {
  const auto check = [](auto width) {
    return [width](const auto* values) {
      return value_check{.kind = check_kind::offsets, .width = width, .values = values, .count = tested_rows};
    };
  };
  const auto worsen = [](auto& values, std::int64_t place) {
    values[static_cast<std::size_t>(place) + 1] = -1;
  };
  expect_found<std::int32_t>(rising<std::int32_t>(), check(4), worsen);
  expect_found<std::int64_t>(rising<std::int64_t>(), check(8), worsen);
}

template <class Index>
void expect_indices(
    const std::function<void(std::vector<Index>, const std::function<value_check(const Index*)>&,
                             const std::function<void(std::vector<Index>&, std::int64_t)>&)>& run,
    const std::uint8_t* validity) {
  const std::vector<Index> values(static_cast<std::size_t>(tested_rows), Index{99});
  run(
      values,
      [&](const Index* there) {
        return value_check{.kind = check_kind::indices,
                           .width = sizeof(Index),
                           .values = there,
                           .validity = validity,
                           .bit_offset = 3,
                           .count = tested_rows,
                           .limit = 100};
      },
      [](std::vector<Index>& broken, std::int64_t place) {
        broken[static_cast<std::size_t>(place)] = Index{100};
      });
}

TEST_P(value_checks, find_indices_outside_of_the_dictionary) {
  const std::vector<std::uint8_t> all(3000, 0xff);
  for (const std::uint8_t* const validity : {static_cast<std::uint8_t*>(nullptr), there(all)}) {
    const auto with = [&](auto values, const auto& check, const auto& worsen) {
      expect_found(std::move(values), check, worsen);
    };
    expect_indices<std::uint8_t>(with, validity);
    expect_indices<std::uint16_t>(with, validity);
    expect_indices<std::uint32_t>(with, validity);
    expect_indices<std::uint64_t>(with, validity);
  }
}

TEST_P(value_checks, ignore_indices_under_nulls) {
  const std::vector<std::uint8_t> indices(static_cast<std::size_t>(tested_rows), 200);
  std::vector<std::uint8_t> validity(3000, 0);
  value_check check{.kind = check_kind::indices,
                    .width = 1,
                    .values = there(indices),
                    .validity = there(validity),
                    .bit_offset = 5,
                    .count = tested_rows,
                    .limit = 100};
  std::vector<value_check> checks{check};
  validity[(5 + 9000) / 8] = static_cast<std::uint8_t>(1u << ((5 + 9000) % 8));
  check.validity = there(validity);
  checks.push_back(check);
  check.limit = 256; // all values of a byte are valid
  checks.push_back(check);
  EXPECT_EQ(run(checks), (std::vector<std::int64_t>{no_bad_row, 9000, no_bad_row}));
}

TEST_P(value_checks, find_lists_outside_of_their_child) {
  const std::vector<std::int32_t> sizes(static_cast<std::size_t>(tested_rows), 10);
  const std::int32_t* const there_sizes = there(sizes);
  const auto check = [&](const std::int32_t* offsets) {
    return value_check{.kind = check_kind::list_views,
                       .width = 4,
                       .values = offsets,
                       .second = there_sizes,
                       .count = tested_rows,
                       .limit = 50};
  };
  const std::vector<std::int32_t> offsets(static_cast<std::size_t>(tested_rows), 40);
  for (const std::int32_t bad : {41, 51, -1}) {
    expect_found<std::int32_t>(offsets, check, [bad](std::vector<std::int32_t>& broken, std::int64_t place) {
      broken[static_cast<std::size_t>(place)] = bad;
    });
  }
  const std::vector<std::int64_t> wide(static_cast<std::size_t>(tested_rows), 0);
  expect_found<std::int64_t>(
      wide,
      [&](const std::int64_t* values) {
        return value_check{.kind = check_kind::list_views,
                           .width = 8,
                           .values = values,
                           .second = values,
                           .count = tested_rows,
                           .limit = 50};
      },
      [](std::vector<std::int64_t>& broken, std::int64_t place) {
        broken[static_cast<std::size_t>(place)] = -3;
      });
}

TEST_P(value_checks, find_unknown_type_ids_and_offsets_outside_of_their_child) {
  std::vector<std::int64_t> table(256, -1);
  table[5] = 10;
  table[127] = 3;
  const std::int64_t* const known = there(table);
  const std::vector<std::int8_t> ids(static_cast<std::size_t>(tested_rows), 5);
  expect_found<std::int8_t>(
      ids,
      [&](const std::int8_t* values) {
        return value_check{
            .kind = check_kind::unions, .values = values, .count = tested_rows, .table = known};
      },
      [](std::vector<std::int8_t>& broken, std::int64_t place) {
        broken[static_cast<std::size_t>(place)] = -5;
      });
  const std::int8_t* const there_ids = there(ids);
  const std::vector<std::int32_t> offsets(static_cast<std::size_t>(tested_rows), 9);
  for (const std::int32_t bad : {10, -1}) {
    expect_found<std::int32_t>(
        offsets,
        [&](const std::int32_t* values) {
          return value_check{.kind = check_kind::unions,
                             .values = there_ids,
                             .second = values,
                             .count = tested_rows,
                             .table = known};
        },
        [bad](std::vector<std::int32_t>& broken, std::int64_t place) {
          broken[static_cast<std::size_t>(place)] = bad;
        });
  }
}

struct view {
  std::int32_t size;
  std::uint32_t start;
  std::int32_t index;
  std::int32_t offset;
};

TEST_P(value_checks, find_views_out_of_range_or_with_a_wrong_prefix) {
  std::vector<std::uint8_t> bytes(64);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(i);
  }
  const std::vector<std::int64_t> table{
      64, static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(there(bytes)))};
  const std::int64_t* const known = there(table);
  const view good{20, 0x07060504, 0, 4};
  const std::vector<view> views(static_cast<std::size_t>(tested_rows), good);
  const auto check = [&](const view* values) {
    return value_check{
        .kind = check_kind::views, .values = values, .count = tested_rows, .limit = 1, .table = known};
  };
  for (const view bad :
       {view{-1, 0, 0, 0}, view{20, 0x07060504, 1, 4}, view{20, 0x07060504, -1, 4},
        view{20, 0x07060504, 0, -1}, view{61, 0x07060504, 0, 4}, view{20, 0x07060503, 0, 4}}) {
    expect_found<view>(views, check, [bad](std::vector<view>& broken, std::int64_t place) {
      broken[static_cast<std::size_t>(place)] = bad;
    });
  }
  // Short views contain their bytes inline and refer to no buffer.
  const std::vector<view> inlined(static_cast<std::size_t>(tested_rows), view{12, 1, 77, -5});
  EXPECT_EQ(run({check(there(inlined))}), (std::vector<std::int64_t>{no_bad_row}));
}

TEST_P(value_checks, find_run_ends_that_do_not_increase) {
  const auto check = [](auto width) {
    return [width](const auto* values) {
      return value_check{
          .kind = check_kind::run_ends, .width = width, .values = values, .count = tested_rows};
    };
  };
  const auto ends = []<class End>(End) {
    std::vector<End> made;
    for (std::int64_t i = 0; i < tested_rows; ++i) {
      made.push_back(static_cast<End>(i + 1));
    }
    return made;
  };
  const auto worsen = [](auto& values, std::int64_t place) {
    values[static_cast<std::size_t>(place)] =
        place == 0 ? 0 : values[static_cast<std::size_t>(place) - 1]; // equal to the previous run end
  };
  expect_found<std::int16_t>(ends(std::int16_t{}), check(2), worsen);
  expect_found<std::int32_t>(ends(std::int32_t{}), check(4), worsen);
  expect_found<std::int64_t>(ends(std::int64_t{}), check(8), worsen);
}

TEST_P(value_checks, find_strings_that_are_not_utf8) {
  const std::string good = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x8F\xB9 words"; // 16 bytes, all lengths
  ASSERT_EQ(good.size(), 16U);
  std::vector<std::uint8_t> bytes;
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t i = 0; i < tested_rows; ++i) { // strings at every alignment
    bytes.insert(bytes.end(), good.begin(), good.end());
    bytes.insert(bytes.end(), static_cast<std::size_t>(i % 9), std::uint8_t{'x'});
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
  }
  const auto* const wide = there(offsets);
  const auto* const narrow = there(std::vector<std::int32_t>(offsets.begin(), offsets.end()));
  const std::vector<std::uint8_t> odd(static_cast<std::size_t>(tested_rows + 7) / 8, 0x55);
  const auto* const even_rows = there(odd);
  for (const std::int32_t width : {4, 8}) {
    const auto check_of = [&](const std::vector<std::uint8_t>& text, const std::uint8_t* validity) {
      return value_check{.kind = check_kind::texts,
                         .width = width,
                         .values = width == 4 ? static_cast<const void*>(narrow) : wide,
                         .second = there(text),
                         .validity = validity,
                         .count = tested_rows,
                         .limit = std::ssize(text)};
    };
    std::vector<value_check> checks{check_of(bytes, nullptr)};
    std::vector<std::int64_t> expected{no_bad_row};
    for (const std::int64_t place : bad_places) {
      std::vector<std::uint8_t> broken = bytes;
      const auto row = static_cast<std::size_t>(offsets[static_cast<std::size_t>(place)]);
      broken[row + 2 + static_cast<std::size_t>(place) % 8] = 0xFF;
      checks.push_back(check_of(broken, nullptr));
      expected.push_back(place);
      checks.push_back(check_of(broken, even_rows));
      expected.push_back(place % 2 == 0 ? place : no_bad_row);
      // A character must not be split between two rows.
      broken = bytes;
      broken[row + 15 + static_cast<std::size_t>(place % 9)] = 0xE2;
      checks.push_back(check_of(broken, nullptr));
      expected.push_back(place);
    }
    EXPECT_EQ(run(checks), expected);
  }
}

TEST_P(value_checks, ignore_offsets_out_of_range_when_checking_utf8) {
  const std::vector<std::uint8_t> text(8, std::uint8_t{0xFF});
  const std::vector<std::int32_t> offsets{-4, 0, 9, 4, 4, 1 << 30};
  EXPECT_EQ(run({{.kind = check_kind::texts,
                  .width = 4,
                  .values = there(offsets),
                  .second = there(text),
                  .count = 5,
                  .limit = 8}}),
            (std::vector<std::int64_t>{no_bad_row}));
}

TEST_P(value_checks, find_string_views_that_are_not_utf8) {
  std::vector<std::uint8_t> bytes(64, std::uint8_t{'a'});
  bytes[40] = 0xC3; // the first byte of a two-byte character
  const std::vector<std::int64_t> table{
      64, static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(there(bytes)))};
  const std::int64_t* const known = there(table);
  const std::vector<view> views(static_cast<std::size_t>(tested_rows), view{20, 0, 0, 4});
  const auto check = [&](const view* values) {
    return value_check{
        .kind = check_kind::text_views, .values = values, .count = tested_rows, .limit = 1, .table = known};
  };
  for (const view bad :
       {view{20, 0, 0, 30}, view{13, 0, 0, 28}, view{5, 0x61616161, 0xC3, 0}, view{1, 0x80, 0, 0}}) {
    expect_found<view>(views, check, [bad](std::vector<view>& broken, std::int64_t place) {
      broken[static_cast<std::size_t>(place)] = bad;
    });
  }
  for (const view other : {view{20, 0, 1, 30}, view{20, 0, 0, -1}, view{61, 0, 0, 30}, view{-1, 0, 0, 30},
                           view{3, 0x80616161, 0, 0}, view{12, 0x61616161, 0x61616161, 0x61616161}}) {
    const std::vector<view> same(static_cast<std::size_t>(tested_rows), other);
    EXPECT_EQ(run({check(there(same))}), (std::vector<std::int64_t>{no_bad_row}));
  }
}

TEST_P(value_checks, do_nothing_without_checks) {
  device().kernels().check_values(work().native_handle(), {}, nullptr, nullptr);
}

SAETA_CONFORMANCE_SUITE(value_checks);

} // namespace
} // namespace saeta::conformance
