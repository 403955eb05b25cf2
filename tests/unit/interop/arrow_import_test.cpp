#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "support/arrays.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>

namespace saeta {
namespace {

using support::nulls;
using support::random_array;
using support::shared_array;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

/// A batch of three columns and six rows, of which each test breaks a field.
class broken_batch : public ::testing::Test {
protected:
  static constexpr std::int64_t rows = 6;

  static schema fields() {
    return {
        {{"numbers", data_type(type_id::int32), true, {}},
         {"words", data_type(type_id::string), true, {}},
         {"codes", data_type::dictionary(data_type(type_id::int8), data_type(type_id::string)), true, {}}},
        {}};
  }

  void SetUp() override {
    std::uint64_t seed = 1;
    for (const field& f : fields().fields) {
      children_.push_back(random_array(f.type, {rows, 9, nulls::all, true}, seed++));
    }
  }

  [[nodiscard]] arrow_array fresh() const { return support::to_c_batch(children_, rows, 0, releases_); }

  [[nodiscard]] error import_error(ArrowArray& source, const import_options& options = {}) const {
    dictionary_cache dictionaries;
    try {
      static_cast<void>(import_batch(ctx_, fields(), source, dictionaries, options));
    } catch (const error& seen) {
      return seen;
    }
    ADD_FAILURE() << "nothing was thrown";
    return {errc::invalid_argument, ""};
  }

  /// Breaks a new batch, expects the error, repairs the batch and checks that it can still be released.
  void expect_refused(const char* part, const std::function<void(ArrowArray&)>& broken, errc code,
                      std::string_view said) {
    SCOPED_TRACE(part);
    *releases_ = 0;
    arrow_array source = fresh();
    ArrowArray& root = source.get();
    const ArrowArray good = root;
    const std::vector<const void*> good_buffers(root.children[0]->buffers, root.children[0]->buffers + 2);
    std::vector<ArrowArray> good_children{*root.children[0], *root.children[1], *root.children[2]};
    std::vector<ArrowArray*> good_pointers(root.children, root.children + 3);
    const ArrowArray good_dictionary = *root.children[2]->dictionary;
    const void* const good_offsets = root.children[1]->buffers[1];
    broken(root);
    const error seen = import_error(root);
    EXPECT_EQ(seen.code(), code) << seen.message();
    EXPECT_NE(seen.message().find(said), std::string::npos) << seen.message();
    EXPECT_EQ(ctx_->copies().read_counters().imports, 0U) << "nothing was taken in";
    root = good;
    std::copy(good_pointers.begin(), good_pointers.end(), root.children);
    for (std::size_t i = 0; i < 3; ++i) {
      *root.children[i] = good_children[i];
    }
    std::copy(good_buffers.begin(), good_buffers.end(), root.children[0]->buffers);
    root.children[1]->buffers[1] = good_offsets;
    *root.children[2]->dictionary = good_dictionary;
    EXPECT_EQ(*releases_, 0) << "the struct stays with the caller";
    source.reset();
    EXPECT_EQ(*releases_, 1);
  }

  std::shared_ptr<context> ctx_ = context::create(make_host_backend());
  std::vector<shared_array> children_;
  std::shared_ptr<std::atomic<int>> releases_ = std::make_shared<std::atomic<int>>(0);
};

TEST_F(broken_batch, is_accepted_whole) {
  arrow_array source = fresh();
  dictionary_cache dictionaries;
  const batch seen = import_batch(ctx_, fields(), source.get(), dictionaries);
  EXPECT_TRUE(source.empty());
  EXPECT_EQ(seen.rows, rows);
  EXPECT_EQ(seen.columns.size(), 3U);
}

TEST_F(broken_batch, is_refused_for_fields_of_its_struct) {
  expect_refused(
      "length", [](ArrowArray& a) { a.length = -1; }, errc::format, "length -1");
  expect_refused(
      "offset", [](ArrowArray& a) { a.offset = -1; }, errc::format, "offset -1");
  expect_refused(
      "offset + length", [](ArrowArray& a) { a.offset = huge; }, errc::overflow, "overflows");
  expect_refused(
      "longer than its children", [](ArrowArray& a) { a.length = 7; }, errc::format,
      "column 'numbers': length is 6, the batch has offset 0 and length 7");
  expect_refused(
      "offset past its children", [](ArrowArray& a) { a.offset = 1; }, errc::format, "offset 1");
  expect_refused(
      "null_count -2", [](ArrowArray& a) { a.null_count = -2; }, errc::format, "null_count -2");
  expect_refused(
      "null_count over length", [](ArrowArray& a) { a.null_count = 7; }, errc::format, "null_count 7");
  expect_refused(
      "null_count without validity", [](ArrowArray& a) { a.null_count = 1; }, errc::format,
      "null_count is 1 but buffers[0] is null");
  expect_refused(
      "n_buffers", [](ArrowArray& a) { a.n_buffers = 2; }, errc::format, "n_buffers is 2, expected 1");
  expect_refused(
      "buffers", [](ArrowArray& a) { a.buffers = nullptr; }, errc::format, "buffers is null");
  expect_refused(
      "n_children", [](ArrowArray& a) { a.n_children = 2; }, errc::format, "n_children is 2, expected 3");
  expect_refused(
      "children", [](ArrowArray& a) { a.children = nullptr; }, errc::format, "children is null");
  expect_refused(
      "children[1]", [](ArrowArray& a) { a.children[1] = nullptr; }, errc::format,
      "column 'words': children[1] of the batch is null");
  expect_refused(
      "dictionary", [](ArrowArray& a) { a.dictionary = a.children[0]; }, errc::format, "has a dictionary");
  expect_refused(
      "release", [](ArrowArray& a) { a.release = nullptr; }, errc::closed, "released already");
}

TEST_F(broken_batch, is_refused_for_fields_of_a_child) {
  expect_refused(
      "length", [](ArrowArray& a) { a.children[0]->length = -5; }, errc::format, "length -5");
  expect_refused(
      "shorter than the batch", [](ArrowArray& a) { a.children[2]->length = 5; }, errc::format,
      "null_count 6 is not in -1 to the length 5");
  expect_refused(
      "offset", [](ArrowArray& a) { a.children[0]->offset = -9; }, errc::format, "offset -9");
  expect_refused(
      "offset + length", [](ArrowArray& a) { a.children[0]->offset = huge - 5; }, errc::overflow,
      "overflows");
  expect_refused(
      "bytes", [](ArrowArray& a) { a.children[0]->offset = huge - 6; }, errc::overflow, "overflows");
  expect_refused(
      "null_count", [](ArrowArray& a) { a.children[0]->null_count = -2; }, errc::format,
      "column 'numbers': null_count -2");
  expect_refused(
      "n_buffers", [](ArrowArray& a) { a.children[0]->n_buffers = 3; }, errc::format,
      "column 'numbers': n_buffers is 3, expected 2");
  expect_refused(
      "n_buffers negative", [](ArrowArray& a) { a.children[1]->n_buffers = -1; }, errc::format,
      "n_buffers is -1, expected 3");
  expect_refused(
      "buffers", [](ArrowArray& a) { a.children[0]->buffers = nullptr; }, errc::format, "buffers is null");
  expect_refused(
      "validity", [](ArrowArray& a) { a.children[0]->buffers[0] = nullptr; }, errc::format,
      "null_count is 6 but buffers[0] is null");
  expect_refused(
      "values", [](ArrowArray& a) { a.children[0]->buffers[1] = nullptr; }, errc::format,
      "buffers[1] is null, 60 bytes are needed");
  expect_refused(
      "offsets", [](ArrowArray& a) { a.children[1]->buffers[1] = nullptr; }, errc::format,
      "buffers[1] is null, 64 bytes are needed");
  expect_refused(
      "address",
      [](ArrowArray& a) { a.children[0]->buffers[1] = reinterpret_cast<void*>(~std::uintptr_t{7}); },
      errc::overflow, "address + bytes of buffers[1]");
  expect_refused(
      "n_children", [](ArrowArray& a) { a.children[0]->n_children = 1; }, errc::format,
      "n_children is 1, expected 0");
  expect_refused(
      "release", [](ArrowArray& a) { a.children[1]->release = nullptr; }, errc::closed,
      "column 'words': the ArrowArray was released already");
}

TEST_F(broken_batch, is_refused_for_fields_of_a_dictionary) {
  expect_refused(
      "missing", [](ArrowArray& a) { a.children[2]->dictionary = nullptr; }, errc::format,
      "column 'codes': dictionary is null");
  expect_refused(
      "not asked for", [](ArrowArray& a) { a.children[0]->dictionary = a.children[2]->dictionary; },
      errc::format, "column 'numbers': has a dictionary");
  expect_refused(
      "released", [](ArrowArray& a) { a.children[2]->dictionary->release = nullptr; }, errc::closed,
      "dictionary of column 'codes'");
  expect_refused(
      "length", [](ArrowArray& a) { a.children[2]->dictionary->length = -1; }, errc::format, "length -1");
  expect_refused(
      "n_buffers", [](ArrowArray& a) { a.children[2]->dictionary->n_buffers = 2; }, errc::format,
      "dictionary of column 'codes': n_buffers is 2, expected 3");
}

TEST_F(broken_batch, with_null_struct_rows_is_refused) {
  const std::uint8_t validity = 0b101111;
  for (const std::int64_t said : {std::int64_t{-1}, std::int64_t{1}}) {
    arrow_array source = fresh();
    source.get().buffers[0] = &validity;
    source.get().null_count = said;
    const error seen = import_error(source.get());
    EXPECT_EQ(seen.code(), errc::unsupported);
    EXPECT_NE(seen.message().find("1 of 6 rows are null as a whole"), std::string::npos) << seen.message();
  }
}

TEST_F(broken_batch, with_a_validity_buffer_is_accepted_if_no_row_is_null) {
  const std::uint8_t validity = 0b111111;
  arrow_array source = fresh();
  source.get().buffers[0] = &validity;
  source.get().null_count = -1;
  dictionary_cache dictionaries;
  EXPECT_EQ(import_batch(ctx_, fields(), source.get(), dictionaries).rows, rows);
}

TEST_F(broken_batch, is_refused_by_its_null_count_without_reading_the_validity) {
  const std::uint8_t validity = 0b101110;
  arrow_array source = fresh();
  source.get().buffers[0] = &validity;
  source.get().null_count = 1;
  EXPECT_EQ(import_error(source.get()).message(),
            "batch: 1 of 6 rows are null as a whole, which a table can't represent");
  source.get().length = 1;
  EXPECT_EQ(import_error(source.get()).message(),
            "batch: 1 of 1 rows are null as a whole, which a table can't represent");
}

TEST(imported_null_counts, of_a_slice_are_known_only_if_all_or_no_rows_are_null) {
  constexpr std::int64_t rows = 8;
  constexpr std::int64_t part = 4; // number of the last rows, which are imported
  const auto ctx = context::create(make_host_backend());
  const schema fields{{{"x", data_type(type_id::int32), true, {}}}, {}};
  for (std::int64_t nulls = 0; nulls <= rows; ++nulls) { // number of the first rows, which are null
    auto content = *random_array(fields.fields[0].type, {rows, 0, support::nulls::none, true}, 1);
    content.buffers[0][0] = static_cast<std::byte>(0xFF << nulls);
    content.null_count = nulls;
    arrow_array source =
        support::to_c_batch({std::make_shared<const support::plain_array>(content)}, part, part);
    dictionary_cache dictionaries;
    const batch seen = import_batch(ctx, fields, source.get(), dictionaries);
    const std::int64_t known = nulls == 0 ? 0 : nulls == rows ? part : column::unknown_nulls;
    EXPECT_EQ(seen.columns[0].known_null_count(), known) << nulls;
    EXPECT_EQ(seen.columns[0].null_count(), std::max(std::int64_t{0}, nulls - part)) << nulls;
  }
}

/// Imports one column. Returns the error, or nullopt if it succeeds.
std::optional<error> refusal(const data_type& type, const support::plain_array& content,
                             validation check = validation::full) {
  auto shared = std::make_shared<const support::plain_array>(content);
  const auto ctx = context::create(make_host_backend());
  arrow_array source = support::to_c(shared);
  import_options options;
  options.check = check;
  try {
    static_cast<void>(import_column(ctx, {"x", type, true, {}}, source.get(), options));
  } catch (const error& seen) {
    EXPECT_FALSE(source.empty());
    return seen;
  }
  EXPECT_TRUE(source.empty());
  return std::nullopt;
}

template <class T>
void put(support::plain_array& array, std::size_t buffer, std::int64_t index, T value) {
  std::memcpy(array.buffers[buffer].data() + static_cast<std::size_t>(index) * sizeof(T), &value,
              sizeof value);
}

/// Returns the rows whose values are broken, one at a time: at both ends, and on both sides of the boundaries
/// between blocks of a validation kernel, whatever power of two a block has.
std::vector<std::int64_t> places(std::int64_t first, std::int64_t rows) {
  std::vector<std::int64_t> found;
  for (std::int64_t row = first; row < rows; ++row) {
    const std::int64_t in_block = row % 64;
    if (row < 4 || row >= rows - 4 || in_block == 0 || in_block == 1 || in_block == 31 || in_block == 63) {
      found.push_back(row);
    }
  }
  return found;
}

template <class T>
void expect_falling_offsets_refused(const data_type& type) {
  for (const std::int64_t rows : {std::int64_t{3}, std::int64_t{2100}}) {
    const support::plain_array good = *random_array(type, {rows, 9, nulls::some, true}, 4);
    EXPECT_FALSE(refusal(type, good));
    for (const std::int64_t row : places(1, rows)) {
      support::plain_array content = good;
      put<T>(content, 1, 9 + row, static_cast<T>(-7));
      const auto low = refusal(type, content);
      ASSERT_TRUE(low) << row;
      EXPECT_EQ(low->code(), errc::format);
      EXPECT_NE(low->message().find("to -7 at row " + std::to_string(row - 1)), std::string::npos)
          << low->message();
      EXPECT_FALSE(refusal(type, content, validation::structure)) << "only the ends are looked at";
      put<T>(content, 1, 9 + row, std::numeric_limits<T>::max());
      const auto high = refusal(type, content);
      ASSERT_TRUE(high) << row;
      EXPECT_NE(high->message().find("at row " + std::to_string(row)), std::string::npos) << high->message();
    }
  }
}

TEST(imported_offsets, must_not_decrease) {
  expect_falling_offsets_refused<std::int32_t>(data_type(type_id::string));
  expect_falling_offsets_refused<std::int64_t>(data_type(type_id::large_binary));
}

TEST(imported_offsets, have_valid_ends_even_if_only_the_structure_is_checked) {
  const data_type type(type_id::string);
  const support::plain_array good = *random_array(type, {20, 9, nulls::some, true}, 4);
  for (const std::int64_t row : {9, 29}) { // the start of the first row, the end of the last one
    support::plain_array content = good;
    put<std::int32_t>(content, 1, row, -1);
    const auto seen = refusal(type, content, validation::structure);
    ASSERT_TRUE(seen) << row;
    EXPECT_EQ(seen->code(), errc::format);
  }
  support::plain_array content = good;
  put<std::int32_t>(content, 1, 8, -7); // offsets before the first row are not checked
  put<std::int32_t>(content, 1, 9, 5);
  put<std::int32_t>(content, 1, 29, 4);
  constexpr const char* expected = "column 'x': the offsets of its first and last value are ";
  EXPECT_EQ(refusal(type, content, validation::structure)->message(), std::string(expected) + "5 and 4");
  put<std::int32_t>(content, 1, 29, 5);
  EXPECT_FALSE(refusal(type, content, validation::structure)) << "no value has a byte";
}

struct alignment_case {
  const char* format;
  std::int64_t buffer;
  std::uintptr_t needed; ///< required alignment in bytes
};

TEST(imported_buffers, are_used_in_place_if_their_values_are_aligned) {
  alignas(64) static std::array<std::byte, 256> memory{}; // zeros are valid offsets, too
  const auto ctx = context::create(make_host_backend());
  for (const alignment_case& one :
       {alignment_case{"c", 1, 1}, alignment_case{"S", 1, 2}, alignment_case{"f", 1, 4},
        alignment_case{"l", 1, 8}, alignment_case{"d:10,2", 1, 8}, alignment_case{"d:10,2,256", 1, 8},
        alignment_case{"tin", 1, 8}, alignment_case{"w:4", 1, 1}, alignment_case{"b", 1, 1},
        alignment_case{"l", 0, 1}, alignment_case{"u", 1, 4}, alignment_case{"Z", 1, 8},
        alignment_case{"u", 2, 1}, alignment_case{"Z", 2, 1}}) {
    for (const std::uintptr_t shift : {1U, 2U, 4U, 8U}) {
      SCOPED_TRACE(::testing::Message() << one.format << ", buffer " << one.buffer << ", shift " << shift);
      std::array<const void*, 3> buffers{memory.data(), memory.data(), memory.data()};
      buffers[static_cast<std::size_t>(one.buffer)] = memory.data() + shift;
      const data_type type = data_type::parse(one.format);
      ArrowArray given{};
      given.length = 2;
      given.null_count = -1;
      given.n_buffers = static_cast<std::int64_t>(type.buffer_count());
      given.buffers = buffers.data();
      given.release = [](ArrowArray* array) { array->release = nullptr; };
      import_options in_place;
      in_place.copy = copy_policy::never;
      if (shift % one.needed == 0) {
        EXPECT_NO_THROW(import_column(ctx, {"x", type, true, {}}, given, in_place));
      } else {
        EXPECT_THROW(import_column(ctx, {"x", type, true, {}}, given, in_place), error);
      }
    }
  }
}

template <class T>
void expect_index_refused(const data_type& index, T value, std::int64_t entries, bool refused) {
  SCOPED_TRACE(index.name());
  const data_type type = data_type::dictionary(index, data_type(type_id::int16));
  const shared_array dictionary =
      random_array(data_type(type_id::int16), {entries, 0, nulls::absent, true}, 2);
  for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{2100}}) {
    const support::plain_array good =
        *support::random_indices(type, {rows, 9, nulls::none, true}, dictionary, 3);
    for (const std::int64_t row : places(0, rows)) {
      support::plain_array content = good;
      put<T>(content, 1, 9 + row, value);
      const auto seen = refusal(type, content);
      ASSERT_EQ(seen.has_value(), refused) << row;
      if (seen) {
        EXPECT_EQ(seen->code(), errc::format);
        EXPECT_NE(seen->message().find(concat("index ", +value, " at row ", row,
                                              " is not in the dictionary, which has ", entries, " entries")),
                  std::string::npos)
            << seen->message();
      }
      const std::int64_t bit = 9 + row;
      content.buffers[0][static_cast<std::size_t>(bit / 8)] &= ~(std::byte{1} << (bit % 8));
      content.null_count = -1;
      EXPECT_FALSE(refusal(type, content)) << "what lies under a null may be anything, at row " << row;
      const std::int64_t beside = row == 0 ? rows - 1 : row - 1;
      if (refused && beside != row) {
        put<T>(content, 1, 9 + beside, value);
        EXPECT_TRUE(refusal(type, content)) << "the row beside the null, " << beside << ", is not one";
      }
    }
  }
}

TEST(imported_indices, must_be_inside_their_dictionary) {
  expect_index_refused<std::int8_t>(data_type(type_id::int8), 5, 5, true);
  expect_index_refused<std::int8_t>(data_type(type_id::int8), -1, 5, true);
  expect_index_refused<std::int8_t>(data_type(type_id::int8), -1, 300, true);
  expect_index_refused<std::int8_t>(data_type(type_id::int8), 127, 300, false);
  expect_index_refused<std::uint8_t>(data_type(type_id::uint8), 255, 300, false);
  expect_index_refused<std::uint8_t>(data_type(type_id::uint8), 255, 255, true);
  expect_index_refused<std::int16_t>(data_type(type_id::int16), -300, 5, true);
  expect_index_refused<std::uint16_t>(data_type(type_id::uint16), 5, 5, true);
  expect_index_refused<std::int32_t>(data_type(type_id::int32), 1 << 30, 5, true);
  expect_index_refused<std::uint32_t>(data_type(type_id::uint32), 4, 5, false);
  expect_index_refused<std::int64_t>(data_type(type_id::int64), std::int64_t{1} << 32, 5, true);
  expect_index_refused<std::uint64_t>(data_type(type_id::uint64), ~std::uint64_t{0}, 5, true);
}

TEST(imported_indices, need_a_dictionary_that_is_not_empty_unless_all_are_null) {
  const data_type type = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const shared_array empty = random_array(data_type(type_id::string), {}, 1);
  support::plain_array content;
  content.type = type;
  content.length = 2;
  content.buffers = {{}, std::vector<std::byte>(8)};
  content.dictionary = empty;
  EXPECT_TRUE(refusal(type, content));
  content.buffers[0] = {std::byte{0}};
  content.null_count = 2;
  EXPECT_FALSE(refusal(type, content));
}

} // namespace
} // namespace saeta
