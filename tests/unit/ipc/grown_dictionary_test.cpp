// Dictionaries that grow by deltas, up to the limit of their own offsets and beyond. Beyond it a whole read
// falls back to reading batch by batch, which reports the error.
#include "ipc_test.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/transfer/upload.hpp"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/writer.h>

#include <array>
#include <limits>

namespace saeta::ipc {
namespace {

using bridge::check;
using bridge::take;

class grown_dictionaries : public ipc_test {
protected:
  /// Returns an array of one run with `length` rows and 16-bit run ends.
  static std::shared_ptr<arrow::Array> one_run(std::int16_t length, std::int8_t value) {
    arrow::Int16Builder ends;
    arrow::Int8Builder values;
    check(ends.Append(length), "ends");
    check(values.Append(value), "values");
    return take(
        arrow::RunEndEncodedArray::Make(length, take(ends.Finish(), "ends"), take(values.Finish(), "values")),
        "run");
  }
  /// Returns a stream with a run-end encoded dictionary of `first` entries, a delta of `more` entries, and
  /// indices.
  static std::string grown_by(std::int16_t first, std::int16_t more, const std::vector<std::int32_t>& rows) {
    return grown(one_run(first, 1), one_run(more, 2), rows);
  }
  static std::string grown(const std::shared_ptr<arrow::Array>& dictionary,
                           const std::shared_ptr<arrow::Array>& more, const std::vector<std::int32_t>& rows) {
    arrow::Int32Builder numbers;
    check(numbers.AppendValues(rows), "rows");
    const auto type = arrow::dictionary(arrow::int32(), dictionary->type());
    const auto described = arrow::schema({arrow::field("x", type)});
    const auto indices = take(numbers.Finish(), "rows");
    const auto batch =
        arrow::RecordBatch::Make(described, indices->length(),
                                 std::vector<std::shared_ptr<arrow::Array>>{
                                     std::make_shared<arrow::DictionaryArray>(type, indices, dictionary)});
    const auto options = arrow::ipc::IpcWriteOptions::Defaults();
    const arrow::ipc::DictionaryFieldMapper fields(*described);
    const auto sink = take(arrow::io::BufferOutputStream::Create(), "sink");
    const auto target = take(arrow::ipc::internal::MakePayloadStreamWriter(sink.get(), options), "stream");
    check(target->Start(), "stream");
    std::vector<arrow::ipc::IpcPayload> messages(4);
    check(arrow::ipc::GetSchemaPayload(*described, options, fields, &messages[0]), "schema");
    check(arrow::ipc::GetDictionaryPayload(0, false, dictionary, options, &messages[1]), "dictionary");
    check(arrow::ipc::GetDictionaryPayload(0, true, more, options, &messages[2]), "delta");
    check(arrow::ipc::GetRecordBatchPayload(*batch, options, &messages[3]), "batch");
    for (const auto& each : messages) {
      check(target->WritePayload(each), "message");
    }
    check(target->Close(), "stream");
    return take(sink->Finish(), "sink")->ToString();
  }
  static std::vector<std::shared_ptr<context>> homes() {
    return {context::create(make_host_backend()), context::create(sim::device::create({.seed = 5}))};
  }
  static table read_joined(const std::string& bytes, const std::shared_ptr<context>& into) {
    return reader::open(std::as_bytes(std::span(bytes)), nullptr,
                        {.copy = copy_policy::always, .combine_chunks = true})
        ->read_all(into);
  }
};

TEST_F(grown_dictionaries, are_read_up_to_the_limit_of_their_offsets) {
  constexpr std::int16_t most = std::numeric_limits<std::int16_t>::max();
  const std::string bytes = grown_by(20'000, most - 20'000, {0, 19'999, 20'000, most - 1});
  for (const auto& into : homes()) {
    const table seen = read_joined(bytes, into);
    EXPECT_EQ(seen.batches()[0].columns[0].dictionary()->length(), most);
    EXPECT_EQ(support::cells(seen, 0), (std::vector<support::cell>{"1:\1", "1:\1", "1:\2", "1:\2"}));
  }
}

TEST_F(grown_dictionaries, contain_for_each_batch_the_deltas_before_it) {
  const auto all = support::strings({"alpha", "beta", "gamma", "delta"});
  const auto begin = std::make_shared<support::plain_array>(*all);
  begin->length = 2;
  const std::vector<std::int32_t> marked{0, 1, 1, 0, 1, 1, 0};
  const auto first = support::indices(marked, begin);
  const table source = support::table_of(ctx(), {{{"words", first->type, true, {}}}, {}},
                                         {{first}, {support::indices({3, 2, 0}, all)}});
  std::string bytes = write_bytes(source, {.format = container::stream, .dictionary_deltas = true});
  const std::string_view text(reinterpret_cast<const char*>(marked.data()), marked.size() * 4);
  const auto at = bytes.find(text);
  ASSERT_NE(at, std::string::npos);
  for (const auto& into : homes()) {
    EXPECT_EQ(read_joined(bytes, into).rows(), 10);
    const table apart = reader::open(std::as_bytes(std::span(bytes)), nullptr,
                                     {.copy = copy_policy::always, .combine_chunks = false})
                            ->read_all(into);
    EXPECT_EQ(apart.batches()[0].columns[0].dictionary()->length(), 2);
    EXPECT_EQ(apart.batches()[1].columns[0].dictionary()->length(), 4);
  }
  bytes[at + 4 * sizeof(std::int32_t)] = 3;
  for (const auto& into : homes()) {
    EXPECT_ERROR(read_joined(bytes, into), format, "bytes: batch 0: column 'words'",
                 "index 3 at row 4 is not in the dictionary, which has 2 entries");
  }
}

/// Makes a column of indices into a dictionary.
column rows_of(const column& dictionary, const std::vector<std::int64_t>& numbers) {
  const host_values values = values_of("indices", std::span<const std::int64_t>(numbers));
  const table there = table_of_values(dictionary.ctx(), std::span(&values, 1), "test");
  const auto buffers = there.batches().front().columns.front().buffers();
  column::parts made;
  made.type = data_type::dictionary(data_type(type_id::int64), dictionary.type());
  made.length = std::ssize(numbers);
  made.null_count = 0;
  made.buffers.append(buffers.begin(), buffers.end());
  made.dictionary = std::make_shared<const column>(dictionary);
  return column::make(dictionary.ctx(), std::move(made));
}

TEST_F(grown_dictionaries, of_any_type_are_equal_in_views_and_copies) {
  std::vector<data_type> types = support::carried_types();
  std::erase_if(types, [](const data_type& type) {
    return type.value_type() != nullptr || !type.extension_name().empty();
  });
  const table values = support::random_table(ctx(), types, {.batch_rows = {60}, .seed = 3});
  for (const auto& [name, part] : {std::pair("whole", values), std::pair("slice", values.slice(3, 50))}) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      const column& all = part.batches().front().columns[i];
      const std::vector<batch> batches{{3, {rows_of(all.slice(0, 25), {24, 0, 7})}},
                                       {4, {rows_of(all.slice(0, 26), {25, 24, 0, 9})}},
                                       {5, {rows_of(all, {all.length() - 1, 30, 25, 24, 0})}}};
      const table source =
          table::make(ctx(), {{{"x", batches.front().columns.front().type(), true, {}}}, {}}, batches);
      const std::string bytes = write_bytes(source, {.format = container::stream, .dictionary_deltas = true});
      const auto label = concat(types[i].name(), ", ", name);
      for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
        const table seen =
            reader::open(std::as_bytes(std::span(bytes)), nullptr, {.copy = copy, .combine_chunks = false})
                ->read_all(ctx());
        EXPECT_TRUE(support::same_contents(seen, source)) << label;
      }
    }
  }
}

TEST_F(grown_dictionaries, of_lists_may_begin_behind_the_first_value_of_a_part) {
  const auto lists = [](const std::vector<std::vector<std::int8_t>>& of) {
    arrow::ListBuilder made(arrow::default_memory_pool(), std::make_shared<arrow::Int8Builder>());
    for (const auto& values : of) {
      check(made.Append(), "list");
      check(static_cast<arrow::Int8Builder*>(made.value_builder())->AppendValues(values), "values");
    }
    return take(made.Finish(), "lists");
  };
  const std::vector<std::int32_t> rows{0, 1, 2, 3};
  const std::string expected = grown(lists({{1, 2}, {3}}), lists({{5, 6}, {7}}), rows);
  std::string bytes = grown(lists({{1, 2}, {3}}), lists({{4, 5, 6}, {7}}), rows);
  const std::array<std::int32_t, 3> offsets{0, 3, 4};
  const auto at = bytes.find(std::string_view(reinterpret_cast<const char*>(offsets.data()), sizeof offsets));
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 1;
  for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
    const auto read = [&](const std::string& of) {
      return reader::open(std::as_bytes(std::span(of)), nullptr, {.copy = copy, .combine_chunks = false})
          ->read_all(ctx());
    };
    EXPECT_TRUE(support::same_contents(read(bytes), read(expected)));
  }
}

TEST_F(grown_dictionaries, beyond_the_limit_are_refused_and_freed) {
  const std::string bytes = grown_by(20'000, 20'000, {0, 39'999});
  for (const auto& into : homes()) {
    EXPECT_ERROR(read_joined(bytes, into), format, "bytes: batch 0",
                 "the parts of its dictionary have 40000 values together");
    EXPECT_TRUE(into->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(into->reports().statistics().ledger.buffers, 0U);
    EXPECT_EQ(into->reports().statistics().budget.current, 0U);
  }
}

} // namespace
} // namespace saeta::ipc
