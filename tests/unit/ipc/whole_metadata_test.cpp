// Messages whose metadata lacks nodes or buffers that the columns need, or contradicts them. Every read path
// refuses them, naming the batch, the column and the numbers.

#include "ipc_test.hpp"
#include "saeta/ipc/read/planned_source.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace saeta::ipc {
namespace {

using support::nulls;

/// Changes single numbers in the bytes of a file.
class whole_metadata : public ipc_test {
protected:
  /// Writes a file with a batch of 3 rows and a second batch, the given one.
  [[nodiscard]] std::string file_of(const data_type& type, std::int64_t rows,
                                    nulls pattern = nulls::absent) const {
    return write_bytes(support::table_of(ctx(), {{{"x", type, true, {}}}, {}},
                                         {{support::random_array(type, {3, 0, nulls::absent}, 1)},
                                          {support::random_array(type, {rows, 0, pattern}, 2)}}));
  }
  /// Replaces a sequence of numbers that occurs exactly once in the bytes.
  template <class Number, std::size_t Count>
  static std::string with(std::string bytes, const std::array<Number, Count>& from,
                          const std::array<Number, Count>& to) {
    const std::string_view wanted(reinterpret_cast<const char*>(from.data()), sizeof from);
    const auto at = bytes.find(wanted);
    EXPECT_NE(at, std::string::npos);
    EXPECT_EQ(bytes.find(wanted, at + 1), std::string::npos);
    std::memcpy(bytes.data() + at, to.data(), sizeof to);
    return bytes;
  }
  /// Changes the length of the metadata vector that begins with these numbers.
  template <std::size_t Count>
  static std::string with_entries(std::string bytes, const std::array<std::int64_t, Count>& first,
                                  std::uint32_t entries) {
    const std::string_view wanted(reinterpret_cast<const char*>(first.data()), sizeof first);
    const auto at = bytes.find(wanted);
    EXPECT_NE(at, std::string::npos);
    EXPECT_EQ(bytes.find(wanted, at + 1), std::string::npos);
    std::memcpy(bytes.data() + at - sizeof entries, &entries, sizeof entries);
    return bytes;
  }
  /// Expects that all read paths refuse the bytes, and that the message of a whole read contains the text.
  void expect_refused(const std::string& bytes, const std::string& text) {
    EXPECT_ERROR(read_bytes(bytes), format, "bytes: batch 1");
    for (const bool joined : {true, false}) {
      const read_options options{.copy = copy_policy::always, .combine_chunks = joined};
      EXPECT_ERROR(read_bytes(bytes, options), format, "bytes: batch 1", text);
      EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, 0U);
    }
  }
};

const data_type int64(type_id::int64);

data_type pair_of(const data_type& type) {
  return data_type::nested("+s", {{"a", type, true, {}}, {"b", type, true, {}}});
}

TEST_F(whole_metadata, of_an_empty_last_batch_may_end_a_stream_without_end_marker) {
  const data_type none(type_id::null);
  const table source =
      support::table_of(ctx(), {{{"x", none, true, {}}}, {}}, {{support::random_array(none, {3}, 1)}});
  for (const compression body : {compression::none, compression::lz4}) {
    std::string bytes = write_bytes(source, {.format = container::stream, .body = body});
    bytes.resize(bytes.size() - 8); // removes the end marker
    for (const bool joined : {true, false}) {
      EXPECT_EQ(read_bytes(bytes, {.copy = copy_policy::always, .combine_chunks = joined}).rows(), 3);
    }
  }
}

TEST_F(whole_metadata, with_too_few_field_nodes_is_refused) {
  const std::string bytes = file_of(pair_of(int64), 57);
  expect_refused(with_entries<6>(bytes, {57, 0, 57, 0, 57, 0}, 2), "2 field nodes, the schema needs 3");
}

TEST_F(whole_metadata, with_too_few_buffers_is_refused) {
  const std::string bytes = file_of(int64, 57);
  expect_refused(with_entries<4>(bytes, {0, 0, 0, 57 * 8}, 1), "1 buffers, the schema needs 2");
}

TEST_F(whole_metadata, with_too_few_variadic_counts_is_refused) {
  auto views =
      support::plain_array(*support::random_array(data_type(type_id::string_view), {5, 0, nulls::absent}, 1));
  views.buffers.resize(2);
  std::fill(views.buffers[1].begin(), views.buffers[1].end(), std::byte{0}); // empty strings
  views.buffers.resize(2 + 7, std::vector<std::byte>(16));
  const auto array = std::make_shared<const support::plain_array>(std::move(views));
  const std::string bytes = write_bytes(support::table_of(
      ctx(), {{{"x", array->type, true, {}}}, {}}, {{support::random_array(array->type, {3}, 1)}, {array}}));
  expect_refused(with<std::uint32_t, 3>(bytes, {1, 7, 0}, {0, 7, 0}),
                 "0 counts of data buffers of views, the schema needs 1");
}

TEST_F(whole_metadata, with_too_few_rows_of_a_child_is_refused) {
  const std::string pairs = file_of(pair_of(int64), 57);
  expect_refused(with<std::int64_t, 6>(pairs, {57, 0, 57, 0, 57, 0}, {57, 0, 57, 0, 50, 0}),
                 "column 'x', child 'b': 50 rows, its parent refers to 57");
  const std::string lists = file_of(data_type::nested("+w:3", {{"item", int64, true, {}}}), 57);
  expect_refused(with<std::int64_t, 4>(lists, {57, 0, 171, 0}, {57, 0, 170, 0}),
                 "column 'x', child 'item': 170 rows, its parent refers to 171");
}

TEST_F(whole_metadata, with_a_row_count_unlike_its_batch_is_refused) {
  const std::string bytes = file_of(int64, 57);
  expect_refused(with<std::int64_t, 2>(bytes, {57, 0}, {56, 0}), "56 rows in a record batch of 57");
}

TEST_F(whole_metadata, with_impossible_null_counts_is_refused) {
  const std::string bytes = file_of(int64, 57, nulls::all);
  for (const std::int64_t bad : {std::int64_t{58}, std::int64_t{-2}}) {
    expect_refused(with<std::int64_t, 2>(bytes, {57, 57}, {57, bad}), concat("57 rows and ", bad, " nulls"));
  }
}

TEST_F(whole_metadata, of_run_ends_with_nulls_or_without_values_is_refused) {
  const data_type runs = data_type::nested("+r", {{"run_ends", data_type(type_id::int32), false, {}},
                                                  {"values", data_type(type_id::int8), true, {}}});
  auto array = support::plain_array(*support::random_array(runs, {57, 0, nulls::absent}, 2));
  const std::int64_t count = array.children[0]->length;
  const std::string bytes =
      write_bytes(support::table_of(ctx(), {{{"x", runs, true, {}}}, {}},
                                    {{support::random_array(runs, {3, 0, nulls::absent}, 1)},
                                     {std::make_shared<const support::plain_array>(array)}}));
  const std::int64_t known = array.children[1]->null_count;
  expect_refused(with<std::int64_t, 4>(bytes, {count, 0, count, known}, {count, 0, count - 1, known}),
                 concat(count, " run ends with null_count 0 and ", count - 1, " values"));
  expect_refused(with<std::int64_t, 4>(bytes, {count, 0, count, known}, {count, 1, count, known}),
                 concat(count, " run ends with null_count 1 and ", count, " values"));
}

TEST(source_window, reads_once_what_it_holds) {
  std::size_t reads = 0;
  const scatter_source source{100, [&](std::uint64_t position, std::span<std::byte> target) {
                                ++reads;
                                for (std::size_t i = 0; i < target.size(); ++i) {
                                  target[i] = static_cast<std::byte>(position + i);
                                }
                              }};
  detail::source_window window(source);
  const auto expect_read = [&](std::uint64_t position, std::size_t bytes, std::size_t expected) {
    const auto seen = window.read(position, bytes);
    ASSERT_EQ(seen.size(), bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      EXPECT_EQ(seen[i], static_cast<std::byte>(position + i));
    }
    EXPECT_EQ(reads, expected) << bytes << " bytes at " << position;
  };
  expect_read(40, 20, 1);
  expect_read(40, 20, 1);
  expect_read(45, 10, 1);
  expect_read(59, 1, 1);
  expect_read(59, 2, 2);
  expect_read(58, 2, 3);
  expect_read(90, 10, 4);
  expect_read(99, 1, 4);
  for (const auto& [position, bytes] : {std::pair(99U, 2U), std::pair(101U, 0U), std::pair(0U, 101U)}) {
    EXPECT_ERROR(window.read(position, bytes), format,
                 concat(bytes, " bytes at offset ", position, " exceed a source of 100 bytes"));
  }
  expect_read(100, 0, 4);
}

TEST(source_window, discards_the_bytes_of_a_failed_read) {
  bool fails = false;
  const scatter_source source{100, [&](std::uint64_t position, std::span<std::byte> target) {
                                std::memset(target.data(), 0xFF, target.size());
                                if (fails) {
                                  throw error(errc::io, "gone");
                                }
                                std::memset(target.data(), static_cast<int>(position), target.size());
                              }};
  detail::source_window window(source);
  EXPECT_EQ(window.read(10, 20)[0], std::byte{10});
  fails = true;
  EXPECT_THROW(static_cast<void>(window.read(50, 20)), error);
  fails = false;
  EXPECT_EQ(window.read(10, 20)[0], std::byte{10});
}

} // namespace
} // namespace saeta::ipc
