// Validation of values that refer to other values: offsets, dictionary indices, views, type ids and run ends.
// The error names batch, column and row, with and without compression, and also if batches are joined.

#include "ipc_test.hpp"
#include "saeta/bridge/arrow_status.hpp"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/util/compression.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace saeta::ipc {
namespace {

using bridge::check;
using bridge::take;

/// Marks the bodies of a file as compressed, with uncompressed buffers (length -1), so that tests can find
/// and change their values.
std::string stored(const std::string& file) {
  const auto reading = take(arrow::ipc::RecordBatchFileReader::Open(
                                std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(file))),
                            "file");
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.codec = take(arrow::util::Codec::Create(arrow::Compression::LZ4_FRAME), "codec");
  options.min_space_savings = 1.0;
  const auto sink = take(arrow::io::BufferOutputStream::Create(), "sink");
  const auto writing = take(arrow::ipc::MakeFileWriter(sink, reading->schema(), options), "writer");
  for (int i = 0; i < reading->num_record_batches(); ++i) {
    check(writing->WriteRecordBatch(*take(reading->ReadRecordBatch(i), "batch")), "batch");
  }
  check(writing->Close(), "file");
  return take(sink->Finish(), "sink")->ToString();
}

/// Changes bytes of a batch between two valid ones.
class whole_values : public ipc_test {
protected:
  /// Writes files of one column, uncompressed and compressed. Replaces the values `good`, which occur exactly
  /// once, by `bad`.
  template <class Value>
  std::vector<std::string> changed(const std::vector<support::shared_array>& pieces,
                                   const std::vector<Value>& good, const std::vector<Value>& bad) {
    std::vector<std::vector<support::shared_array>> batches;
    for (const auto& piece : pieces) {
      batches.push_back({piece});
    }
    const std::string plain =
        write_bytes(support::table_of(ctx(), {{{"x", pieces.front()->type, true, {}}}, {}}, batches));
    const std::string from(reinterpret_cast<const char*>(good.data()), good.size() * sizeof(Value));
    const std::string to(reinterpret_cast<const char*>(bad.data()), bad.size() * sizeof(Value));
    std::vector<std::string> files{plain, stored(plain)};
    for (std::string& bytes : files) {
      const auto at = bytes.find(from);
      EXPECT_NE(at, std::string::npos);
      EXPECT_EQ(bytes.find(from, at + 1), std::string::npos);
      bytes.replace(at, to.size(), to);
    }
    return files;
  }
  void expect_refused(const std::vector<std::string>& files, const std::string& text) {
    for (const std::string& bytes : files) {
      for (const bool joined : {true, false}) {
        const read_options options{.copy = copy_policy::always, .combine_chunks = joined};
        EXPECT_ERROR(read_bytes(bytes, options), format, "bytes: batch 1: column 'x'", text);
        EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, 0U);
      }
    }
  }
};

template <class Value>
std::vector<std::byte> bytes_of(const std::vector<Value>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

template <class... Buffers>
support::shared_array array_of(data_type type, std::int64_t length, Buffers... buffers) {
  support::plain_array made;
  made.type = std::move(type);
  made.length = length;
  made.buffers = {std::move(buffers)...};
  return std::make_shared<const support::plain_array>(std::move(made));
}

TEST_F(whole_values, offsets_must_not_decrease) {
  const std::vector<std::int32_t> good{0, 101, 203, 305};
  const auto fine = support::strings({"one", "", "three"});
  const auto text = array_of(data_type(type_id::string), 3, std::vector<std::byte>(), bytes_of(good),
                             std::vector<std::byte>(305, std::byte{'x'}));
  expect_refused(changed<std::int32_t>({fine, text, fine}, good, {0, 203, 101, 305}),
                 "offsets decrease from 203 to 101 at row 1");
  expect_refused(changed<std::int32_t>({fine, text, fine}, good, {0, 101, 203, 306}), "there are 305 bytes");
  expect_refused(changed<std::int32_t>({fine, text, fine}, good, {0, 101, 999, 305}),
                 "offsets decrease from 999 to 305 at row 2");
}

TEST_F(whole_values, of_dictionaries_are_reported_with_the_column) {
  const std::vector<std::int32_t> good{0, 101, 203, 305};
  const auto values = array_of(data_type(type_id::string), 3, std::vector<std::byte>(), bytes_of(good),
                               std::vector<std::byte>(305, std::byte{'x'}));
  const auto piece = support::indices({0, 2, 1}, values);
  for (const std::string& bytes : changed<std::int32_t>({piece, piece}, good, {0, 203, 101, 305})) {
    for (const bool joined : {true, false}) {
      const read_options options{.copy = copy_policy::always, .combine_chunks = joined};
      EXPECT_ERROR(read_bytes(bytes, options), format, "bytes: dictionary of column 'x'",
                   "offsets decrease from 203 to 101 at row 1");
    }
  }
}

TEST_F(whole_values, indices_must_be_inside_their_dictionary) {
  const auto values = support::strings({"a", "b", "c"});
  const std::vector<std::int32_t> good{2, 1, 0, 1, 1, 1, 2};
  const std::vector<support::shared_array> pieces{
      support::indices({0, 1}, values), support::indices(good, values), support::indices({2}, values)};
  expect_refused(changed<std::int32_t>(pieces, good, {2, 1, 0, 1, 1, 3, 2}),
                 "index 3 at row 5 is not in the dictionary, which has 3 entries");
  expect_refused(changed<std::int32_t>(pieces, good, {3, 1, 0, 1, 1, 1, 2}), "index 3 at row 0 is not in");
  const auto unsigned_indices = [&](const std::vector<std::uint8_t>& rows) {
    support::plain_array made(
        *array_of(data_type::dictionary(data_type(type_id::uint8), data_type(type_id::string)),
                  std::ssize(rows), std::vector<std::byte>(), bytes_of(rows)));
    made.dictionary = values;
    return std::make_shared<const support::plain_array>(std::move(made));
  };
  const std::vector<std::uint8_t> narrow{2, 1, 0, 1, 1, 1, 2, 2, 0, 1, 1, 1, 2, 0, 1, 2, 2, 2, 1};
  std::vector<std::uint8_t> bad = narrow;
  bad[5] = 200;
  expect_refused(
      changed<std::uint8_t>({unsigned_indices({0, 1}), unsigned_indices(narrow), unsigned_indices({2})},
                            narrow, bad),
      "index 200 at row 5 is not in the dictionary, which has 3 entries");
}

TEST_F(whole_values, null_counts_are_recounted_from_the_validity) {
  const auto fine =
      array_of(data_type(type_id::int8), 8, std::vector<std::byte>(), std::vector<std::byte>(8));
  auto some = support::plain_array(*fine);
  some.null_count = 3;
  some.buffers = {{std::byte{0x57}}, std::vector<std::byte>(8, std::byte{0x33})};
  const auto nulls = std::make_shared<const support::plain_array>(std::move(some));
  const std::vector<std::uint8_t> good{0x57, 0, 0, 0, 0, 0, 0, 0};
  for (const std::string& bytes :
       changed<std::uint8_t>({fine, nulls, fine}, good, {0x77, 0, 0, 0, 0, 0, 0, 0})) {
    for (const auto copy : {copy_policy::when_needed, copy_policy::always}) {
      for (const auto check : {validation::full, validation::structure}) {
        for (const bool texts : {true, false}) {
          for (const bool joined : {true, false}) {
            const table seen = read_bytes(
                bytes, {.copy = copy, .check = check, .check_texts = texts, .combine_chunks = joined});
            std::int64_t counted = 0;
            for (const column& piece : seen.pieces(0)) {
              counted += piece.null_count();
            }
            EXPECT_EQ(counted, 2);
            EXPECT_EQ(std::ranges::count(support::cells(seen, 0), support::cell()), 2);
            const table again = read_bytes(write_bytes(seen), {.copy = copy_policy::always});
            EXPECT_TRUE(support::same_contents(again, seen));
          }
        }
      }
    }
  }
}

TEST_F(whole_values, views_must_be_inside_their_buffers) {
  const auto view = [](std::int32_t size, const char* prefix, std::int32_t buffer, std::int32_t offset) {
    std::vector<std::int32_t> made(4);
    made[0] = size;
    std::memcpy(&made[1], prefix, 4);
    made[2] = buffer;
    made[3] = offset;
    return made;
  };
  const std::string text = "a text that is longer than twelve bytes";
  const auto piece = [&](const std::vector<std::int32_t>& first) {
    return array_of(data_type(type_id::string_view), 1, std::vector<std::byte>(), bytes_of(first),
                    bytes_of(std::vector<char>(text.begin(), text.end())));
  };
  const auto fine = view(20, "text", 0, 2);
  const auto good = view(24, "text", 0, 2);
  expect_refused(changed({piece(fine), piece(good), piece(fine)}, good, view(24, "text", 1, 2)),
                 "of buffer 1");
  expect_refused(changed({piece(fine), piece(good), piece(fine)}, good, view(24, "text", 0, 20)),
                 "this one of 39 bytes");
  expect_refused(changed({piece(fine), piece(good), piece(fine)}, good, view(24, "tent", 0, 2)),
                 "differs from its bytes");
}

TEST_F(whole_values, list_views_and_unions_must_refer_to_rows_of_their_batch) {
  const auto numbers = [](std::int64_t rows) {
    return array_of(data_type(type_id::int8), rows, std::vector<std::byte>(),
                    std::vector<std::byte>(static_cast<std::size_t>(rows)));
  };
  const auto with_children = [](support::shared_array array, std::vector<support::shared_array> children) {
    auto made = support::plain_array(*array);
    made.children = std::move(children);
    return std::make_shared<const support::plain_array>(std::move(made));
  };
  const data_type list = data_type::nested("+vl", {{"item", data_type(type_id::int8), true, {}}});
  const auto list_view = [&](const std::vector<std::int32_t>& offsets, std::vector<std::int32_t> sizes) {
    return with_children(array_of(list, static_cast<std::int64_t>(offsets.size()), std::vector<std::byte>(),
                                  bytes_of(offsets), bytes_of(sizes)),
                         {numbers(9)});
  };
  const std::vector<std::int32_t> offsets{3, 5, 1, 3};
  expect_refused(changed<std::int32_t>(
                     {list_view({0, 1}, {1, 1}), list_view(offsets, {2, 2, 2, 2}), list_view({0, 1}, {1, 1})},
                     offsets, {3, 8, 1, 3}),
                 "the list at row 1 has 2 values from 8, its child has 9 rows");
  expect_refused(changed<std::int32_t>(
                     {list_view({0, 1}, {1, 1}), list_view(offsets, {2, 2, 2, 2}), list_view({0, 1}, {1, 1})},
                     offsets, {3, -2, 1, 3}),
                 "the list at row 1 has 2 values from -2, its child has 9 rows");
  const data_type dense = data_type::nested(
      "+ud:3,7", {{"a", data_type(type_id::int8), true, {}}, {"b", data_type(type_id::int8), true, {}}});
  const auto union_of = [&](const std::vector<std::int8_t>& ids, const std::vector<std::int32_t>& rows) {
    return with_children(
        array_of(dense, static_cast<std::int64_t>(ids.size()), bytes_of(ids), bytes_of(rows)),
        {numbers(6), numbers(4)});
  };
  const std::vector<std::int8_t> ids{3, 7, 7, 3, 3, 7, 3, 7, 7};
  const std::vector<std::int32_t> rows{5, 3, 2, 1, 0, 0, 2, 1, 1};
  const auto fine = union_of({3, 7}, {0, 0});
  expect_refused(changed<std::int32_t>({fine, union_of(ids, rows), fine}, rows, {5, 3, 4, 1, 0, 0, 2, 1, 1}),
                 "offset 4 at row 2 is outside of child 'b', which has 4 rows");
  expect_refused(changed<std::int8_t>({fine, union_of(ids, rows), fine}, ids, {3, 7, 7, 3, 3, 5, 3, 7, 7}),
                 "type id 5 at row 5 is not one of the union's");
}

TEST_F(whole_values, run_ends_must_increase) {
  const data_type type = data_type::nested("+r", {{"run_ends", data_type(type_id::int32), false, {}},
                                                  {"values", data_type(type_id::int8), true, {}}});
  const auto runs = [&](const std::vector<std::int32_t>& ends) {
    const auto count = static_cast<std::int64_t>(ends.size());
    support::plain_array made;
    made.type = type;
    made.length = ends.back();
    made.children = {array_of(data_type(type_id::int32), count, std::vector<std::byte>(), bytes_of(ends)),
                     array_of(data_type(type_id::int8), count, std::vector<std::byte>(),
                              std::vector<std::byte>(ends.size()))};
    return std::make_shared<const support::plain_array>(std::move(made));
  };
  const std::vector<std::int32_t> good{17, 23, 29, 31};
  expect_refused(changed<std::int32_t>({runs({3, 5}), runs(good), runs({4})}, good, {17, 13, 29, 31}),
                 "run ends don't increase: 13 after 17 at run 1");
  expect_refused(changed<std::int32_t>({runs({3, 5}), runs(good), runs({4})}, good, {17, 23, 29, 30}),
                 "run ends do not reach row 30");
}

TEST_F(whole_values, are_not_checked_without_full_validation) {
  const auto values = support::strings({"a", "b", "c"});
  const std::vector<std::int32_t> good{2, 1, 0, 1, 1, 1, 2};
  for (const std::string& bytes :
       changed<std::int32_t>({support::indices(good, values)}, good, {2, 1, 0, 1, 1, 3, 2})) {
    const table seen = read_bytes(
        bytes, {.copy = copy_policy::always, .check = validation::structure, .combine_chunks = true});
    EXPECT_EQ(seen.rows(), 7);
  }
}

TEST_F(whole_values, strings_are_checked_for_utf8_on_request) {
  const auto text_of = [](data_type type, const std::string& letters, std::vector<std::int32_t> offsets) {
    return array_of(std::move(type), std::ssize(offsets) - 1, std::vector<std::byte>(), bytes_of(offsets),
                    bytes_of(std::vector<char>(letters.begin(), letters.end())));
  };
  const std::vector<char> good{'p', 'i', '\xC3', '\xB1', 'a', 't', 'a', 's'};
  const std::vector<char> bad{'p', 'i', '\xC3', 'n', 'a', 't', 'a', 's'};
  const std::string letters = "hola" + std::string(good.begin(), good.end()) + "adi\xC3\xB3s";
  const std::vector<std::int32_t> offsets{0, 4, 12, 18};
  const auto fine = support::strings({"one", "", "three"});
  const auto expect_texts = [&](const std::string& bytes, bool refused) {
    for (const auto copy : {copy_policy::always, copy_policy::when_needed}) {
      read_options options{.copy = copy, .combine_chunks = copy == copy_policy::always};
      EXPECT_EQ(read_bytes(bytes, options).rows(), 9);
      options.check_texts = true;
      if (!refused) {
        EXPECT_EQ(read_bytes(bytes, options).rows(), 9);
      } else {
        EXPECT_ERROR(read_bytes(bytes, options), format, "bytes: batch 1: column 'x'",
                     "the string at row 1 is not UTF-8: byte 0xc3 at position 2 of 8");
      }
    }
  };
  for (const std::string& bytes :
       changed<char>({fine, text_of(data_type(type_id::string), letters, offsets), fine}, good, bad)) {
    expect_texts(bytes, true);
  }
  for (const std::string& bytes :
       changed<char>({fine, text_of(data_type(type_id::string), letters, offsets), fine}, good, good)) {
    expect_texts(bytes, false);
  }
  // Binary values and values under a null need not be UTF-8.
  const data_type binary(type_id::binary);
  const auto other = text_of(binary, "abc", {0, 1, 2, 3});
  for (const std::string& bytes :
       changed<char>({other, text_of(binary, letters, offsets), other}, good, bad)) {
    expect_texts(bytes, false);
  }
  auto with_null = support::plain_array(*text_of(data_type(type_id::string), letters, offsets));
  with_null.null_count = 1;
  with_null.buffers[0] = {std::byte{0x5}};
  const auto hidden = std::make_shared<const support::plain_array>(std::move(with_null));
  for (const std::string& bytes : changed<char>({fine, hidden, fine}, good, bad)) {
    expect_texts(bytes, false);
  }
}

TEST_F(whole_values, string_views_are_checked_for_utf8_on_request) {
  const std::string text = "a text that is longer than twelve bytes \xE2\x82\xAC";
  const auto piece = [&](const std::vector<std::int32_t>& views) {
    return array_of(data_type(type_id::string_view), std::ssize(views) / 4, std::vector<std::byte>(),
                    bytes_of(views), bytes_of(std::vector<char>(text.begin(), text.end())));
  };
  const auto expect_bad = [&](const support::shared_array& bad, const std::string& reason) {
    const auto fine = piece({3, 0x636261, 0, 0});
    const std::string plain =
        write_bytes(support::table_of(ctx(), {{{"x", fine->type, true, {}}}, {}}, {{fine}, {bad}, {fine}}));
    for (const std::string& bytes : {plain, stored(plain)}) {
      for (const auto copy : {copy_policy::always, copy_policy::when_needed}) {
        for (const bool joined : {true, false}) {
          read_options options{.copy = copy, .combine_chunks = joined};
          EXPECT_EQ(read_bytes(bytes, options).rows(), 2 + bad->length);
          options.check_texts = true;
          EXPECT_ERROR(read_bytes(bytes, options), format, "bytes: batch 1: column 'x'", reason);
        }
      }
    }
  };
  std::int32_t start = 0;
  std::memcpy(&start, text.data() + 27, sizeof start);
  expect_bad(piece({15, start, 0, 27}), "the string at row 0 is not UTF-8: byte 0xe2 at position 13 of 15");
  expect_bad(piece({5, 0x61616161, 0xF5, 0}), "byte 0xf5 at position 4 of 5");
  std::int32_t begin = 0;
  std::memcpy(&begin, text.data(), sizeof begin);
  expect_bad(piece({3, 0x636261, 0, 0, 15, begin, 0, 0, 5, 0x61616161, 0xF5, 0}),
             "the string at row 2 is not UTF-8: byte 0xf5 at position 4 of 5");
  expect_bad(piece({3, 0x636261, 0, 0, 13, begin, 0, 0, 15, start, 0, 27}),
             "the string at row 2 is not UTF-8: byte 0xe2 at position 13 of 15");
}

TEST_F(whole_values, uncompressed_buffers_of_compressed_batches_are_read_one_by_one) {
  std::vector<data_type> types = support::file_types();
  std::erase_if(types, [](const data_type& type) { return type.value_type() != nullptr; });
  const table original = support::random_table(ctx(), types, {.batch_rows = {50, 30}});
  const std::string bytes = stored(write_bytes(original));
  for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
    const auto reading = reader::open(std::as_bytes(std::span(bytes)), nullptr, {.copy = copy});
    std::vector<batch> batches;
    while (auto next = reading->next(ctx())) {
      batches.push_back(std::move(*next));
    }
    EXPECT_TRUE(support::same_contents(table::make(ctx(), reading->fields(), std::move(batches)), original));
  }
}

/// A read of compressed offsets first assumes that they begin at 0 and end at the last byte, as most writers
/// do. Here they don't.
TEST_F(whole_values, offsets_may_begin_after_0_and_end_before_the_last_byte) {
  const std::vector<std::int32_t> good{0, 101, 203, 305};
  const std::vector<std::int32_t> other{7, 101, 203, 301};
  const auto fine = support::strings({"one", "", "three"});
  std::vector<std::byte> letters(305);
  for (std::size_t i = 0; i < letters.size(); ++i) {
    letters[i] = static_cast<std::byte>('a' + i % 26);
  }
  const auto text =
      array_of(data_type(type_id::string), 3, std::vector<std::byte>(), bytes_of(good), letters);
  for (const std::string& bytes : changed<std::int32_t>({fine, text, fine}, good, other)) {
    for (const auto check : {validation::full, validation::structure}) {
      std::vector<std::int64_t> batches;
      const table seen =
          reader::open(std::as_bytes(std::span(bytes)), nullptr,
                       {.copy = copy_policy::always, .check = check, .combine_chunks = true})
              ->read_all(ctx(), [&](const progress& so_far) { batches.push_back(so_far.batches); });
      const auto rows = support::cells(seen, 0);
      ASSERT_EQ(rows.size(), 9U);
      const std::string_view all(reinterpret_cast<const char*>(letters.data()), letters.size());
      EXPECT_EQ(rows[3], all.substr(7, 94));
      EXPECT_EQ(rows[4], all.substr(101, 102));
      EXPECT_EQ(rows[5], all.substr(203, 98));
      EXPECT_EQ(rows[6], "one");
      EXPECT_EQ(seen.batches()[0].columns[0].buffers()[2].size(), 8 + 294 + 8);
      EXPECT_TRUE(std::ranges::is_sorted(batches));
      EXPECT_EQ(batches.back(), 3);
    }
  }
}

/// Makes three lists over the numbers 0 to 304.
support::shared_array lists_at(const std::vector<std::int32_t>& offsets) {
  std::vector<std::int16_t> numbers(305);
  std::iota(numbers.begin(), numbers.end(), std::int16_t{0});
  auto made =
      support::plain_array(*array_of(data_type::nested("+l", {{"item", data_type(type_id::int16), true, {}}}),
                                     3, std::vector<std::byte>(), bytes_of(offsets)));
  made.children = {array_of(data_type(type_id::int16), 305, std::vector<std::byte>(), bytes_of(numbers))};
  return std::make_shared<const support::plain_array>(std::move(made));
}

/// The same for offsets of lists: a read whose assumption is wrong is repeated without it.
TEST_F(whole_values, list_offsets_may_begin_after_0_and_end_before_the_last_value) {
  const std::vector<std::int32_t> good{0, 101, 203, 305};
  const std::vector<std::int32_t> other{7, 101, 203, 301};
  const auto fine = lists_at({0, 100, 200, 305});
  for (const std::string& bytes : changed<std::int32_t>({fine, lists_at(good), fine}, good, other)) {
    std::vector<std::int64_t> batches;
    const table seen =
        reader::open(std::as_bytes(std::span(bytes)), nullptr,
                     {.copy = copy_policy::always, .combine_chunks = true})
            ->read_all(ctx(), [&](const progress& so_far) { batches.push_back(so_far.batches); });
    const column& joined = seen.batches()[0].columns[0];
    EXPECT_EQ(joined.children()[0].length(), 305 + 294 + 305);
    const auto rows = support::cells(seen, 0);
    const auto alone = support::cells(
        reader::open(std::as_bytes(std::span(bytes)), nullptr, {.batches = {{1, 2}}})->read_all(ctx()), 0);
    ASSERT_EQ(alone.size(), 3U);
    EXPECT_EQ(std::vector(rows.begin() + 3, rows.begin() + 6), alone);
    EXPECT_TRUE(std::ranges::is_sorted(batches));
    EXPECT_EQ(batches.back(), 3);
  }
  expect_refused(changed<std::int32_t>({fine, lists_at(good), fine}, good, {0, 101, 203, 306}),
                 "there are 305 values");
}

/// Only the first or only the last offset of a batch differs from the assumption. Lists of neighbouring
/// batches must still end at their own values.
TEST_F(whole_values, unusual_first_or_last_list_offsets_do_not_change_neighbours) {
  const std::vector<std::int32_t> good{0, 101, 203, 305};
  const auto fine = lists_at({0, 100, 200, 305});
  for (const auto& [first, last] : {std::pair{7, 305}, {0, 301}}) {
    for (const std::string& bytes :
         changed<std::int32_t>({fine, lists_at(good), fine}, good, {first, 101, 203, last})) {
      const table joined = read_bytes(bytes, {.copy = copy_policy::always, .combine_chunks = true});
      const table apart = read_bytes(bytes, {.combine_chunks = false});
      EXPECT_EQ(support::cells(joined, 0), support::cells(apart, 0)) << first << " to " << last;
      EXPECT_EQ(joined.batches()[0].columns[0].children()[0].length(), 305 + (last - first) + 305);
    }
  }
}

TEST_F(whole_values, offsets_of_later_batches_are_checked_if_the_first_has_no_rows) {
  const std::vector<std::int32_t> good{0, 101, 203, 305};
  const auto fine = support::strings({"one", "", "three"});
  const auto text = array_of(data_type(type_id::string), 3, std::vector<std::byte>(), bytes_of(good),
                             std::vector<std::byte>(305, std::byte{'x'}));
  for (const std::string& bytes :
       changed<std::int32_t>({support::strings({}), text, fine}, good, {7, 101, 203, 301})) {
    const table seen = read_bytes(bytes, {.copy = copy_policy::always, .combine_chunks = true});
    EXPECT_EQ(support::cells(seen, 0)[2], std::string(98, 'x'));
    EXPECT_EQ(support::cells(seen, 0)[3], "one");
    EXPECT_EQ(seen.batches()[0].columns[0].buffers()[2].size(), 294U + 8) << "the bytes that are named";
  }
}

/// Errors in children count rows from the first child row that the batch refers to.
TEST_F(whole_values, of_children_are_reported_with_rows_relative_to_the_batch) {
  const std::vector<std::int32_t> before{0, 2, 6};
  const std::vector<std::int32_t> after{2, 4, 6};
  const auto list_of = [&](const support::shared_array& values) {
    auto made = support::plain_array(*array_of(data_type::nested("+l", {{"item", values->type, true, {}}}), 2,
                                               std::vector<std::byte>(), bytes_of(before)));
    made.children = {values};
    return std::make_shared<const support::plain_array>(std::move(made));
  };
  const auto expect_bad = [&](const support::shared_array& fine, const support::shared_array& values,
                              const auto& good, const auto& bad, const std::string& text) {
    std::vector<std::string> files = changed({list_of(fine), list_of(values), list_of(fine)}, good, bad);
    // Let the lists begin at child row 2.
    const std::string from(reinterpret_cast<const char*>(before.data()), 3 * sizeof(std::int32_t));
    const std::string to(reinterpret_cast<const char*>(after.data()), 3 * sizeof(std::int32_t));
    for (std::string& bytes : files) {
      std::size_t lists = 0;
      for (auto at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at + 1), ++lists) {
        bytes.replace(at, to.size(), to);
      }
      EXPECT_EQ(lists, 3U);
    }
    expect_refused(files, concat("child 'item': ", text));
  };
  const auto words = support::strings({"a", "b", "c", "d", "e", "f"});
  const std::vector<std::int32_t> rising{0, 51, 102, 153, 204, 255, 306};
  expect_bad(words,
             array_of(data_type(type_id::string), 6, std::vector<std::byte>(), bytes_of(rising),
                      std::vector<std::byte>(306, std::byte{'x'})),
             rising, std::vector<std::int32_t>{0, 51, 102, 153, 99, 255, 306},
             "offsets decrease from 153 to 99 at row 1");
  const std::vector<std::int32_t> indices{3, 4, 5, 5, 4, 3};
  expect_bad(support::indices({0, 1, 2, 0, 1, 2}, words), support::indices(indices, words), indices,
             std::vector<std::int32_t>{3, 4, 5, 5, 77, 3},
             "index 77 at row 2 is not in the dictionary, which has 6 entries");
  const auto views = [](std::int32_t marked, std::int32_t buffer) {
    std::vector<std::int32_t> made;
    for (std::int32_t i = 0; i < 6; ++i) {
      made.insert(made.end(), {i == marked ? 24 : 21, 0x78787878, i == marked ? buffer : 0, i});
    }
    return made;
  };
  const auto texts = [&](std::int32_t marked) {
    return array_of(data_type(type_id::string_view), 6, std::vector<std::byte>(), bytes_of(views(marked, 0)),
                    std::vector<std::byte>(40, std::byte{'x'}));
  };
  expect_bad(texts(-1), texts(3), views(3, 0), views(3, 9),
             "the view at row 1 has 24 bytes from 3 of buffer 9, there are 1 buffers");
}

TEST_F(whole_values, indices_into_a_dictionary_beyond_the_range_of_their_type_are_checked) {
  std::vector<std::string> names(300);
  std::vector<std::string_view> shown;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = concat("w", i);
    shown.emplace_back(names[i]);
  }
  const auto of = [&](const std::vector<std::int8_t>& rows) {
    support::plain_array made(
        *array_of(data_type::dictionary(data_type(type_id::int8), data_type(type_id::string)),
                  std::ssize(rows), std::vector<std::byte>(), bytes_of(rows)));
    made.dictionary = support::strings(shown);
    return std::make_shared<const support::plain_array>(std::move(made));
  };
  const std::vector<std::int8_t> good{101, 1, 102, 1, 103, 1, 104, 1, 105, 1};
  expect_refused(
      changed<std::int8_t>({of({0, 1}), of(good), of({2})}, good, {101, 1, 102, 1, 103, -1, 104, 1, 105, 1}),
      "index -1 at row 5");
}

} // namespace
} // namespace saeta::ipc
