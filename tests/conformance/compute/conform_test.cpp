// Conversion of columns to the common type of several columns: from type null, and from types with other
// field names.
#include "conformance/harness/pieces_test.hpp"
#include "saeta/compute/cast.hpp"
#include "saeta/compute/equals.hpp"
#include "support/arrays.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

namespace saeta::conformance {
namespace {

using support::carried_types;
using support::random_array;

class conforming : public pieces_test {
protected:
  [[nodiscard]] column rows_of_null(std::int64_t rows) const {
    return column::make(ctx(), {data_type(), rows, 0, rows, {}, {}});
  }
};

TEST_P(conforming, makes_nulls_of_every_type) {
  for (const data_type& type : carried_types()) {
    for (const std::int64_t rows : {0, 1, 70}) {
      SCOPED_TRACE(::testing::Message() << type.name() << ", " << rows << " rows");
      const column made = conform(rows_of_null(rows), type);
      EXPECT_EQ(made.type(), type);
      EXPECT_EQ(made.length(), rows);
      if (type.has_validity()) {
        EXPECT_EQ(made.null_count(), rows);
        EXPECT_TRUE(equals(made, imported(random_array(type, {rows, 0, support::nulls::all, true}, 1))));
      }
    }
  }
}

TEST_P(conforming, does_not_copy_rows_if_only_names_change) {
  const auto lists = [](std::string name, bool nullable) {
    return data_type::nested("+l", {{std::move(name), data_type(type_id::int32), nullable, {}}});
  };
  const column given = imported(random_array(lists("element", false), {9, 2, support::nulls::some, true}, 1));
  const column made = conform(given.slice(1, 5), lists("item", true));
  EXPECT_EQ(made.type(), lists("item", true));
  EXPECT_EQ(made.offsets().address(), given.offsets().address());
  EXPECT_EQ(made.offset(), given.offset() + 1);
  EXPECT_EQ(made.length(), 5);
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(conform(made, lists("item", false))); }),
            errc::type_mismatch);
}

TEST_P(conforming, makes_nulls_inside_of_sliced_structs) {
  const auto rows = [](const data_type& second) {
    return data_type::nested("+s", {{"a", data_type(type_id::int8), true, {}}, {"b", second, true, {}}});
  };
  const column given = imported(random_array(rows(data_type()), {9, 2, support::nulls::some, true}, 1));
  const column made = conform(given.slice(3, 4), rows(data_type(type_id::string)));
  EXPECT_EQ(made.child(1).null_count(), 4);
  EXPECT_TRUE(equals(made.child(0), given.slice(3, 4).child(0)));
  EXPECT_EQ(made.null_count(), given.slice(3, 4).null_count());
}

SAETA_CONFORMANCE_SUITE(conforming);

} // namespace
} // namespace saeta::conformance
