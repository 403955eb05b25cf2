// The kernel that copies columns into a row-major matrix, compared with a model that works value by value.

#include "conformance/device/raw_bytes.hpp"
#include "conformance/harness/backends.hpp"
#include "conformance/harness/device_memory.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/half.hpp"
#include "support/test_size.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <random>

namespace saeta::conformance {
namespace {

using bytes = std::vector<std::uint8_t>;

constexpr std::array<std::uint16_t, 8> halves{0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700};
constexpr int kinds = 12;

number_kind kind_at(int index) { return static_cast<number_kind>(index); }

template <class Value>
void append(bytes& to, Value value) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(&value);
  to.insert(to.end(), first, first + sizeof value);
}

/// Appends a number from 0 to 7 as a value of the given kind.
void append_number(bytes& to, number_kind kind, unsigned number) {
  switch (kind) {
  case number_kind::boolean:
    return append(to, static_cast<std::uint8_t>(number));
  case number_kind::half_float:
    return append(to, halves.at(number));
  case number_kind::float32:
    return append(to, static_cast<float>(number));
  case number_kind::float64:
    return append(to, static_cast<double>(number));
  default:
    const std::uint64_t whole = number;
    const auto* const first = reinterpret_cast<const std::uint8_t*>(&whole);
    to.insert(to.end(), first, first + width_of(kind));
  }
}

class gather_columns : public backend_test {
protected:
  [[nodiscard]] stream_ref work() const { return work_.ref(); }

  std::int64_t random_below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random_);
  }

  struct matrix {
    std::int64_t rows = 0;
    int columns = 0;
    bool row_major = true;
    std::int64_t rows_a_bit = 1;
  };

  /// Makes columns of the kinds that `kind_of` returns. Every third has nulls, and every seventh has no
  /// values.
  template <class KindOf>
  void expect_gathered(const matrix& shape, number_kind to, KindOf kind_of) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " rows of " << shape.columns << " columns, "
                                      << (shape.row_major ? "row" : "column") << "-major, kind "
                                      << static_cast<int>(to) << ", " << shape.rows_a_bit << " rows a bit");
    constexpr unsigned fill = 5;
    std::deque<device_memory> sources;
    std::vector<gathered_column> columns;
    std::vector<std::vector<unsigned>> expected; // values of each column
    for (int i = 0; i < shape.columns; ++i) {
      gathered_column column;
      column.kind = kind_of(i);
      std::vector<unsigned> shown(static_cast<std::size_t>(shape.rows), 1);
      if (i % 7 != 6) {
        bytes content;
        for (unsigned& number : shown) {
          const auto drawn = static_cast<unsigned>(random_below(8));
          append_number(content, column.kind, drawn);
          const bool truth = column.kind == number_kind::boolean || to == number_kind::boolean;
          number = truth ? static_cast<unsigned>(drawn != 0) : drawn;
        }
        column.values = sources.emplace_back(work(), content).data();
      }
      if (i % 3 == 2) {
        const std::int64_t bits = (shape.rows + shape.rows_a_bit - 1) / shape.rows_a_bit;
        column.bit_offset = random_below(70);
        bytes validity(static_cast<std::size_t>((column.bit_offset + bits + 7) / 8));
        for (std::uint8_t& byte : validity) {
          byte = static_cast<std::uint8_t>(random_below(256));
        }
        column.validity = sources.emplace_back(work(), validity).data();
        for (std::int64_t row = 0; row < shape.rows; ++row) {
          const std::int64_t bit = column.bit_offset + row / shape.rows_a_bit;
          if ((validity[static_cast<std::size_t>(bit / 8)] >> (bit % 8) & 1) == 0) {
            shown[static_cast<std::size_t>(row)] = to == number_kind::boolean ? 0 : fill;
          }
        }
      }
      columns.push_back(column);
      expected.push_back(std::move(shown));
    }
    gather_target target;
    target.rows = shape.rows;
    target.kind = to;
    target.row_step = shape.row_major ? shape.columns : 1;
    target.column_step = shape.row_major ? 1 : shape.rows;
    target.rows_a_bit = shape.rows_a_bit;
    bytes fill_bytes;
    append_number(fill_bytes, to, to == number_kind::boolean ? 0 : fill);
    std::memcpy(&target.fill, fill_bytes.data(), fill_bytes.size());

    constexpr std::size_t guard = 64;
    const auto count = static_cast<std::size_t>(shape.rows * shape.columns);
    const auto width = static_cast<std::size_t>(width_of(to));
    const device_memory written(work(), bytes(count * width + guard, poison));
    device().kernels().gather_columns(work().native_handle(), columns, target, written.data());

    bytes wanted;
    const auto height = static_cast<std::size_t>(shape.rows);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t column = shape.row_major ? i % columns.size() : i / height;
      const std::size_t row = shape.row_major ? i / columns.size() : i % height;
      append_number(wanted, to, expected[column][row]);
    }
    wanted.resize(wanted.size() + guard, poison);
    ASSERT_EQ(written.download(), wanted);
  }

private:
  stream work_{shared_device()};
  std::mt19937_64 random_{20'251'122};
};

TEST_P(gather_columns, interleaves_the_values_of_any_number_of_columns) {
  constexpr std::array<std::int64_t, 5> lengths{1, 7, 64, 65, support::rows_to_test(1003, 197)};
  for (const number_kind kind :
       {number_kind::uint8, number_kind::int16, number_kind::float32, number_kind::float64}) {
    for (const std::int64_t rows : lengths) {
      for (const int columns : {1, 2, 3, 31, 32, 33, 130, 250}) {
        for (const bool row_major : {true, false}) {
          expect_gathered({rows, columns, row_major}, kind, [&](int) { return kind; });
        }
      }
    }
  }
}

TEST_P(gather_columns, converts_every_kind_to_every_kind_that_can_represent_it) {
  for (int to = 0; to < kinds; ++to) {
    std::vector<number_kind> from;
    for (int i = 0; i < kinds; ++i) {
      if (converts(kind_at(i), kind_at(to))) {
        from.push_back(kind_at(i));
      }
    }
    for (const bool row_major : {true, false}) {
      expect_gathered({200, 40, row_major}, kind_at(to),
                      [&](int i) { return from[static_cast<std::size_t>(i) % from.size()]; });
    }
  }
}

TEST_P(gather_columns, supports_validity_bits_for_several_rows) {
  for (const std::int64_t rows_a_bit : {2, 5, 64}) {
    for (const int columns : {1, 3, 6}) {
      expect_gathered({640, columns, true, rows_a_bit}, number_kind::int32,
                      [](int) { return number_kind::int32; });
    }
  }
}

TEST_P(gather_columns, rounds_to_the_nearest_float) {
  const std::array<std::int64_t, 8> whole{0, -1, 2049, 2051, 65519, 65520, -70000, (1LL << 62) + 1};
  bytes content;
  for (const std::int64_t number : whole) {
    append(content, number);
  }
  const device_memory source(work(), content);
  const device_memory written(work(), bytes(whole.size() * 8, poison));
  const gathered_column column{source.data(), nullptr, 0, number_kind::int64};
  for (const number_kind to : {number_kind::half_float, number_kind::float32, number_kind::float64}) {
    device().kernels().gather_columns(work().native_handle(), std::span(&column, 1),
                                      {static_cast<std::int64_t>(whole.size()), to, 1, 8, 1, 0},
                                      written.data());
    bytes expected;
    for (const std::int64_t number : whole) {
      if (to == number_kind::half_float) {
        append(expected, half_bits(static_cast<double>(number)));
      } else if (to == number_kind::float32) {
        append(expected, static_cast<float>(number));
      } else {
        append(expected, static_cast<double>(number));
      }
    }
    bytes seen = written.download();
    seen.resize(expected.size());
    EXPECT_EQ(seen, expected) << static_cast<int>(to);
  }
}

TEST_P(gather_columns, refuses_lossy_conversions) {
  if (GetParam().name == "sim") {
    GTEST_SKIP() << "the kinds are looked at when the operation runs";
  }
  const device_memory memory(work(), bytes(64, 1));
  const gathered_column column{memory.data(), nullptr, 0, number_kind::float32};
  EXPECT_THROW(device().kernels().gather_columns(work().native_handle(), std::span(&column, 1),
                                                 {1, number_kind::int64, 1, 1, 1, 0}, memory.data()),
               error);
}

SAETA_CONFORMANCE_SUITE(gather_columns);

} // namespace
} // namespace saeta::conformance
