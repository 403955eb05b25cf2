// Imports of invalid nested arrays and views: they are refused with the reason, and stay with the caller.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "support/arrays.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace saeta {
namespace {

using support::nulls;
using support::plain_array;

const field number{"a", data_type(type_id::int32), true, {}};
const field text{"b", data_type(type_id::string), true, {}};

data_type list_of(const char* format, const data_type& values) {
  return data_type::nested(format, {{"item", values, true, {}}});
}

/// A change to an array before it is imported.
using change = std::function<void(plain_array&)>;

template <class T>
void set(plain_array& in, std::size_t buffer, std::int64_t row, T value) {
  std::memcpy(in.buffers[buffer].data() + static_cast<std::size_t>(in.offset + row) * sizeof(T), &value,
              sizeof value);
}

template <class T>
T get(const plain_array& in, std::size_t buffer, std::int64_t row) {
  T value;
  std::memcpy(&value, in.buffers[buffer].data() + static_cast<std::size_t>(in.offset + row) * sizeof(T),
              sizeof value);
  return value;
}

void change_child(plain_array& in, std::size_t index, const change& how) {
  auto child = std::make_shared<plain_array>(*in.children[index]);
  how(*child);
  in.children[index] = std::move(child);
}

class nested_import : public ::testing::Test {
protected:
  static constexpr std::int64_t rows = 3000; // several blocks of the validation kernels

  [[nodiscard]] static plain_array array_of(const data_type& type, nulls pattern = nulls::absent) {
    return *support::random_array(type, {rows, 3, pattern, true}, 5);
  }

  [[nodiscard]] error error_of(arrow_array& given, const data_type& type,
                               const import_options& options = {}) const {
    try {
      static_cast<void>(import_column(ctx_, {"x", type, true, {}}, given.get(), options));
    } catch (const error& why) {
      EXPECT_FALSE(given.empty()) << "the struct stays with the caller";
      return why;
    }
    ADD_FAILURE() << "taken: " << type.name();
    return {errc::invalid_argument, ""};
  }

  void expect_refused(const data_type& type, const change& broken, std::string_view said,
                      nulls pattern = nulls::absent) const {
    plain_array made = array_of(type, pattern);
    broken(made);
    arrow_array given = support::to_c(std::make_shared<const plain_array>(std::move(made)));
    const error seen = error_of(given, type);
    EXPECT_EQ(seen.code(), errc::format) << seen.message();
    EXPECT_NE(seen.message().find(said), std::string::npos) << type.name() << ": " << seen.message();
  }

  void expect_taken(const data_type& type, const change& changed, nulls pattern) const {
    plain_array made = array_of(type, pattern);
    changed(made);
    arrow_array given = support::to_c(std::make_shared<const plain_array>(std::move(made)));
    EXPECT_EQ(import_column(ctx_, {"x", type, true, {}}, given.get()).length(), rows);
  }

  std::shared_ptr<context> ctx_ = context::create(make_host_backend());
};

TEST_F(nested_import, refuses_list_offsets_that_decrease_or_exceed_the_child) {
  const data_type list = list_of("+l", number.type);
  for (const std::int64_t row : {std::int64_t{1}, std::int64_t{1023}, std::int64_t{1024}, rows - 1}) {
    expect_refused(
        list, [&](plain_array& a) { set(a, 1, row, get<std::int32_t>(a, 1, row - 1) - 1); },
        "offsets decrease from");
  }
  expect_refused(
      list, [](plain_array& a) { set<std::int32_t>(a, 1, rows, 1 << 30); },
      "its parent refers to 1073741824 rows");
  expect_refused(
      list, [](plain_array& a) { set<std::int32_t>(a, 1, rows, -1); },
      "the offsets of its first and last value are");
  const data_type large = list_of("+L", text.type);
  expect_refused(
      large, [](plain_array& a) { set<std::int64_t>(a, 1, 40, -7); }, "offsets decrease from");
  expect_refused(
      large, [](plain_array& a) { set<std::int64_t>(a, 1, rows, std::int64_t{1} << 62); },
      "its parent refers to");
}

/// Returns a struct array of one row, `row` of a child that has these ten offsets and three values.
arrow_array struct_of_one(const data_type& child_type, std::int64_t row,
                          const std::array<std::int32_t, 10>& offsets) {
  plain_array child{.type = child_type, .length = 9};
  const auto bytes = std::as_bytes(std::span(offsets));
  child.buffers = {{}, {bytes.begin(), bytes.end()}};
  if (child_type.children().empty()) {
    child.buffers.emplace_back(3);
  } else {
    plain_array values{.type = child_type.children()[0].type, .length = 3};
    values.buffers = {{}, std::vector<std::byte>(3)};
    child.children = {std::make_shared<const plain_array>(std::move(values))};
  }
  plain_array whole{
      .type = data_type::nested("+s", {{"c", child_type, true, {}}}), .length = 1, .offset = row};
  whole.buffers = {{}};
  whole.children = {std::make_shared<const plain_array>(std::move(child))};
  return support::to_c(std::make_shared<const plain_array>(std::move(whole)));
}

/// The first and the last offset of the child are valid, so that only a check of the slice finds the error.
TEST_F(nested_import, refuses_offsets_of_a_sliced_child_outside_of_its_values) {
  const std::pair<data_type, std::string> cases[] = {{list_of("+l", data_type(type_id::int8)), "values"},
                                                     {data_type(type_id::string), "bytes"}};
  for (const auto& [type, unit] : cases) {
    const data_type whole = data_type::nested("+s", {{"c", type, true, {}}});
    arrow_array below = struct_of_one(type, 8, {0, 0, 0, 0, 0, 0, 0, 0, -500'000, 3});
    EXPECT_EQ(error_of(below, whole).message(),
              "column 'x', child 'c': offsets run from -500000 to 3, there are 3 " + unit);
    arrow_array behind = struct_of_one(type, 0, {0, 500'000, 0, 0, 0, 0, 0, 0, 0, 3});
    EXPECT_EQ(error_of(behind, whole).message(),
              "column 'x', child 'c': offsets run from 0 to 500000, there are 3 " + unit);
    arrow_array right = struct_of_one(type, 8, {0, 0, 0, 0, 0, 0, 0, 0, 1, 3});
    EXPECT_EQ(import_column(ctx_, {"x", whole, true, {}}, right.get()).length(), 1);
  }
}

TEST_F(nested_import, refuses_list_views_outside_of_the_child) {
  for (const char* const format : {"+vl", "+vL"}) {
    const data_type views = list_of(format, number.type);
    const auto put = [&](std::size_t buffer, std::int64_t row, std::int64_t value) {
      return [=](plain_array& a) {
        if (views.id() == type_id::list_view) {
          set(a, buffer, row, static_cast<std::int32_t>(value));
        } else {
          set(a, buffer, row, value);
        }
      };
    };
    const auto size = [&](std::int64_t row) {
      const plain_array whole = array_of(views);
      return views.id() == type_id::list_view ? get<std::int32_t>(whole, 2, row)
                                              : get<std::int64_t>(whole, 2, row);
    };
    for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1023}, std::int64_t{1024}, rows - 1}) {
      const std::string list = concat("the list at row ", row, " has ");
      expect_refused(views, put(1, row, -1), concat(list, size(row), " values from -1, its child has "));
      expect_refused(views, put(2, row, -1), list + "-1 values from ");
      expect_refused(views, put(1, row, 1 << 20),
                     concat(list, size(row), " values from 1048576, its child has "));
      expect_refused(views, put(2, row, 1 << 20), list + "1048576 values from ");
    }
    expect_refused(views, put(2, 9, (std::int64_t{1} << 31) - 1), "its child has");
  }
}

TEST_F(nested_import, accepts_list_views_up_to_the_end_of_the_child) {
  const data_type views = list_of("+vl", number.type);
  expect_taken(
      views,
      [](plain_array& a) {
        const auto last = static_cast<std::int32_t>(a.children[0]->length);
        set<std::int32_t>(a, 1, 7, last);
        set<std::int32_t>(a, 2, 7, 0);
        set<std::int32_t>(a, 1, 8, last - 1);
        set<std::int32_t>(a, 2, 8, 1);
      },
      nulls::absent);
}

TEST_F(nested_import, refuses_type_ids_and_offsets_outside_of_a_union) {
  for (const char* const format : {"+ud:3,127", "+us:3,127"}) {
    const data_type either = data_type::nested(format, {number, text});
    for (const std::int64_t row : {std::int64_t{0}, rows - 1}) {
      expect_refused(
          either, [&](plain_array& a) { set<std::int8_t>(a, 0, row, 4); }, "type id 4 at row");
      expect_refused(
          either, [&](plain_array& a) { set<std::int8_t>(a, 0, row, -1); }, "type id -1 at row");
    }
  }
  const data_type dense = data_type::nested("+ud:0,1", {number, text});
  expect_refused(
      dense, [](plain_array& a) { set<std::int32_t>(a, 1, 5, -1); },
      "offset -1 at row 5 is outside of child '");
  expect_refused(
      dense,
      [](plain_array& a) {
        const auto child = static_cast<std::size_t>(get<std::int8_t>(a, 0, rows - 1));
        set(a, 1, rows - 1, static_cast<std::int32_t>(a.children[child]->length));
      },
      "at row 2999 is outside of child '");
}

TEST_F(nested_import, refuses_children_that_are_too_short) {
  const auto shorter = [](std::int64_t length) {
    return [=](plain_array& a) { change_child(a, 1, [&](plain_array& child) { child.length = length; }); };
  };
  for (const data_type& type :
       {data_type::nested("+s", {number, text}), data_type::nested("+us:0,1", {number, text})}) {
    expect_refused(type, shorter(rows + 2), "child 'b': length is 3002, its parent refers to 3003 rows");
  }
  expect_refused(
      list_of("+w:2", number.type),
      [](plain_array& a) { change_child(a, 0, [](plain_array& child) { child.length = 2 * rows + 5; }); },
      "child 'item': length is 6005, its parent refers to 6006 rows");
}

TEST_F(nested_import, refuses_runs_that_do_not_cover_the_rows) {
  for (const char* const format : {"s", "i", "l"}) {
    const data_type runs = data_type::nested(
        "+r", {{"run_ends", data_type::parse(format), false, {}}, {"values", text.type, true, {}}});
    const auto width = static_cast<std::size_t>(data_type::parse(format).byte_width());
    const auto put = [&](std::int64_t run, std::int64_t end) {
      return [=](plain_array& a) {
        change_child(a, 0, [&](plain_array& ends) {
          const std::int64_t place = run < 0 ? ends.length + run : run;
          std::memcpy(ends.buffers[1].data() + static_cast<std::size_t>(ends.offset + place) * width, &end,
                      width);
        });
      };
    };
    expect_refused(runs, put(0, 0), "run ends don't increase: 0 after 0 at run 0");
    expect_refused(runs, put(1, 1), "run ends don't increase");
    expect_refused(runs, put(5, -4), "run ends don't increase: -4 after");
    expect_refused(runs, put(-1, rows + 2), "run ends is 3002, the array has offset 3 and length 3000");
    expect_refused(
        runs, [](plain_array& a) { change_child(a, 1, [](plain_array& values) { --values.length; }); },
        "run ends with");
    expect_refused(
        runs,
        [](plain_array& a) {
          change_child(a, 0, [](plain_array& ends) {
            ends.buffers[0].resize(static_cast<std::size_t>(ends.length / 8 + 1), std::byte{0xfe});
            ends.null_count = 1;
          });
        },
        "with null_count 1");
    expect_refused(
        runs,
        [](plain_array& a) {
          change_child(a, 0, [](plain_array& ends) { ends.length = 0; });
          change_child(a, 1, [](plain_array& values) { values.length = 0; });
        },
        "the last of 0 run ends is 0");
  }
}

struct view {
  std::int32_t size;
  std::array<char, 4> prefix;
  std::int32_t index;
  std::int32_t offset;
};

TEST_F(nested_import, refuses_views_outside_of_their_buffers) {
  const data_type views = data_type::parse("vu");
  const auto with = [](const view& broken, std::int64_t row) {
    return [=](plain_array& a) { set(a, 1, row, broken); };
  };
  for (const std::int64_t row : {std::int64_t{0}, rows - 1}) {
    const std::string at = concat("the view at row ", row, " has ");
    expect_refused(views, with({13, {}, 2, 0}, row), at + "13 bytes from 0 of buffer 2, there are 2 buffers");
    expect_refused(views, with({13, {}, -1, 0}, row), "of buffer -1");
    expect_refused(views, with({13, {}, 0, -1}, row), "from -1 of buffer 0");
    expect_refused(views, with({13, {}, 1, 52}, row), "this one of 64 bytes");
    expect_refused(views, with({-1, {}, 0, 0}, row), at + "-1 bytes");
    expect_refused(views, with({13, {'#', '#', '#', '#'}, 0, 0}, row), "differs from its bytes");
  }
  expect_taken(
      views,
      [](plain_array& a) {
        view last{13, {}, 1, 51};
        std::memcpy(last.prefix.data(), a.buffers[3].data() + 51, 4);
        set(a, 1, 4, last);
      },
      nulls::absent);
  expect_taken(views, with({13, {}, 9, 0}, 4), nulls::all); // values under a null are not checked
}

TEST_F(nested_import, refuses_invalid_sizes_of_variadic_buffers) {
  const data_type views = data_type::parse("vz");
  const auto source = support::random_array(views, {rows, 0, nulls::absent, true}, 3);
  const auto seen_with = [&](const std::function<void(ArrowArray&)>& broken) {
    arrow_array given = support::to_c(source);
    const ArrowArray sound = given.get();
    const std::vector<const void*> buffers(sound.buffers, sound.buffers + sound.n_buffers);
    broken(given.get());
    const error why = error_of(given, views);
    std::ranges::copy(buffers, sound.buffers);
    given.get() = sound;
    return std::string(why.message());
  };
  static const std::array<std::int64_t, 2> negative{64, -1};
  EXPECT_NE(
      seen_with([](ArrowArray& a) { a.buffers[4] = negative.data(); }).find("the size of buffers[3] is -1"),
      std::string::npos);
  EXPECT_NE(seen_with([](ArrowArray& a) { a.buffers[4] = nullptr; }).find("buffers[4] is null"),
            std::string::npos);
  EXPECT_NE(seen_with([](ArrowArray& a) { a.buffers[2] = nullptr; }).find("buffers[2] is null"),
            std::string::npos);
  EXPECT_NE(seen_with([](ArrowArray& a) { a.n_buffers = 2; }).find("n_buffers is 2, expected 3"),
            std::string::npos);
}

TEST_F(nested_import, refuses_indices_outside_of_nested_dictionaries) {
  const data_type words = data_type::dictionary(data_type(type_id::int16), text.type);
  const data_type list = list_of("+l", data_type::nested("+s", {{"w", words, true, {}}}));
  expect_refused(
      list,
      [](plain_array& a) {
        change_child(a, 0, [](plain_array& rows_of_it) {
          change_child(rows_of_it, 0, [](plain_array& codes) { set<std::int16_t>(codes, 1, 700, 99); });
        });
      },
      "child 'item', child 'w': index 99");
  const data_type numbers = data_type::dictionary(data_type(type_id::int8), list_of("+l", number.type));
  expect_refused(
      numbers,
      [](plain_array& a) {
        auto values = std::make_shared<plain_array>(*a.dictionary);
        set<std::int32_t>(*values, 1, 2, -5);
        a.dictionary = std::move(values);
      },
      "dictionary of column 'x': offsets decrease");
}

TEST_F(nested_import, refuses_broken_dictionaries_without_references) {
  const data_type words = data_type::dictionary(data_type(type_id::int8), text.type);
  const change break_words = [](plain_array& codes) {
    auto values = std::make_shared<plain_array>(*codes.dictionary);
    set<std::int32_t>(*values, 1, 1, -2);
    codes.dictionary = std::move(values);
  };
  const data_type structs = data_type::nested("+s", {{"w", words, true, {}}});
  // Dictionaries of an array without rows, and of a list whose rows are all empty.
  expect_refused(
      structs,
      [&](plain_array& a) {
        a.length = 0;
        change_child(a, 0, break_words);
      },
      "dictionary of column 'x', child 'w': offsets decrease");
  expect_refused(
      list_of("+l", structs),
      [&](plain_array& a) {
        for (std::int64_t row = 0; row <= rows; ++row) {
          set<std::int32_t>(a, 1, row, 0);
        }
        change_child(a, 0, [&](plain_array& item) { change_child(item, 0, break_words); });
      },
      "dictionary of column 'x', child 'item', child 'w': offsets decrease");
}

TEST_F(nested_import, checks_values_only_with_full_validation) {
  const data_type views = list_of("+vl", number.type);
  plain_array made = array_of(views);
  set<std::int32_t>(made, 1, 0, -1);
  arrow_array given = support::to_c(std::make_shared<const plain_array>(std::move(made)));
  import_options structure;
  structure.check = validation::structure;
  EXPECT_EQ(import_column(ctx_, {"x", views, true, {}}, given.get(), structure).length(), rows);
}

TEST_F(nested_import, refuses_structs_without_their_children) {
  const data_type rows_of_two = data_type::nested("+s", {number, text});
  const auto source = support::random_array(rows_of_two, {40, 1, nulls::some, true}, 3);
  const auto seen_with = [&](const std::function<void(ArrowArray&)>& broken) {
    arrow_array given = support::to_c(source);
    const ArrowArray sound = given.get();
    const std::array<ArrowArray*, 2> children{sound.children[0], sound.children[1]};
    const ArrowArray second = *children[1];
    broken(given.get());
    const error why = error_of(given, rows_of_two);
    std::ranges::copy(children, sound.children);
    *children[1] = second;
    given.get() = sound;
    return std::string(why.message());
  };
  EXPECT_NE(seen_with([](ArrowArray& a) { a.n_children = 1; }).find("n_children is 1, expected 2"),
            std::string::npos);
  EXPECT_NE(seen_with([](ArrowArray& a) { a.children = nullptr; }).find("children is null"),
            std::string::npos);
  EXPECT_NE(seen_with([](ArrowArray& a) { a.children[1] = nullptr; }).find("child 'b': children[1] is null"),
            std::string::npos);
  EXPECT_NE(seen_with([](ArrowArray& a) { a.children[1]->release = nullptr; }).find("released already"),
            std::string::npos);
  EXPECT_NE(seen_with([](ArrowArray& a) { a.children[1]->offset = -1; }).find("child 'b': length"),
            std::string::npos);
  EXPECT_NE(seen_with([](ArrowArray& a) { a.null_count = 99; }).find("null_count 99"), std::string::npos);
}

} // namespace
} // namespace saeta
