// Bitwise comparison of rows in host memory, for every type and offset.

#include "ipc_test.hpp"
#include "saeta/interop/arrow/batches.hpp"
#include "saeta/ipc/write/written_dictionaries.hpp"

#include <limits>

namespace saeta::ipc {
namespace {

class same_rows_of : public ipc_test {
protected:
  [[nodiscard]] host_batch rows_of(const table& source) const {
    return std::move(host_batches(ctx(), source.batches()).front());
  }
  [[nodiscard]] host_batch numbers(const std::vector<double>& values) const {
    const auto array = std::make_shared<support::plain_array>();
    array->type = data_type(type_id::float64);
    array->length = std::ssize(values);
    const auto bytes = std::as_bytes(std::span(values));
    array->buffers = {{}, {bytes.begin(), bytes.end()}};
    return rows_of(support::table_of(ctx(), {{{"x", array->type, true, {}}}, {}}, {{array}}));
  }
};

TEST_F(same_rows_of, any_type_are_found_in_other_memory) {
  const std::vector<data_type>& types = support::carried_types();
  const auto drawn = [&](std::uint64_t seed) {
    return support::random_table(ctx(), types,
                                 {.batch_rows = {90}, .in_dictionaries = support::nulls::some, .seed = seed});
  };
  const table source = drawn(1);
  const table other = drawn(2);
  const table part = source.slice(17, 40);
  const host_batch all = rows_of(source);
  const host_batch again = rows_of(drawn(1));
  const host_batch others = rows_of(other);
  const host_batch slice = rows_of(part);
  for (std::size_t i = 0; i < types.size(); ++i) {
    const host_array& rows = all.arrays[i];
    EXPECT_TRUE(detail::same_rows(rows, again.arrays[i])) << types[i].name();
    EXPECT_TRUE(detail::same_rows(rows, again.arrays[i], 31)) << types[i].name();
    EXPECT_FALSE(detail::same_rows(rows, slice.arrays[i])) << types[i].name() << ": fewer rows";
    host_array window = rows;
    window.offset += 17;
    window.length = 40;
    EXPECT_TRUE(detail::same_rows(window, slice.arrays[i])) << types[i].name() << ": a slice";
    if (types[i].id() != type_id::null) {
      EXPECT_FALSE(detail::same_rows(rows, others.arrays[i])) << types[i].name();
    }
  }
}

TEST_F(same_rows_of, floats_are_compared_bitwise) {
  const double quiet = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(detail::same_rows(numbers({quiet, 0.0}).arrays[0], numbers({quiet, 0.0}).arrays[0]));
  EXPECT_FALSE(detail::same_rows(numbers({0.0}).arrays[0], numbers({-0.0}).arrays[0]));
  EXPECT_FALSE(detail::same_rows(numbers({quiet}).arrays[0], numbers({-quiet}).arrays[0]));
}

} // namespace
} // namespace saeta::ipc
