// Imports of arrow::Table, compared with imports of the same table's C stream: all buffers must be equal.
#include "conformance/bridge/bridge_test.hpp"
#include "saeta/bridge/table_import.hpp"
#include "saeta/compute/equals.hpp"
#include "saeta/interop/arrow/owned.hpp"

#include <arrow/extension/bool8.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace saeta::conformance {
namespace {

/// @param shared  whether both are views of the same memory
void expect_same(const column& ours, const column& theirs, bool shared) {
  SCOPED_TRACE(theirs.type().name());
  EXPECT_EQ(ours.type(), theirs.type());
  EXPECT_EQ(ours.length(), theirs.length());
  EXPECT_EQ(ours.offset(), theirs.offset());
  EXPECT_EQ(ours.known_null_count(), theirs.known_null_count());
  ASSERT_EQ(ours.buffers().size(), theirs.buffers().size());
  for (std::size_t i = 0; i < ours.buffers().size(); ++i) {
    EXPECT_EQ(ours.buffers()[i].present(), theirs.buffers()[i].present()) << "buffer " << i;
    EXPECT_EQ(ours.buffers()[i].size(), theirs.buffers()[i].size()) << "buffer " << i;
    if (shared) {
      EXPECT_EQ(ours.buffers()[i].address(), theirs.buffers()[i].address()) << "buffer " << i;
    }
  }
  ASSERT_EQ(ours.children().size(), theirs.children().size());
  for (std::size_t i = 0; i < ours.children().size(); ++i) {
    expect_same(ours.children()[i], theirs.children()[i], shared);
  }
  ASSERT_EQ(ours.dictionary() == nullptr, theirs.dictionary() == nullptr);
  if (ours.dictionary() != nullptr) {
    expect_same(*ours.dictionary(), *theirs.dictionary(), shared);
  }
}

/// Returns the number of batches.
std::size_t expect_same(const table& ours, const table& theirs, bool shared) {
  EXPECT_EQ(ours.fields(), theirs.fields());
  EXPECT_EQ(ours.rows(), theirs.rows());
  EXPECT_TRUE(equals(ours, theirs, true));
  EXPECT_EQ(ours.batches().size(), theirs.batches().size());
  if (ours.batches().size() != theirs.batches().size() || ours.column_count() != theirs.column_count()) {
    return 0;
  }
  for (std::size_t i = 0; i < ours.batches().size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(ours.batches()[i].rows, theirs.batches()[i].rows);
    for (std::size_t j = 0; j < ours.column_count(); ++j) {
      expect_same(ours.batches()[i].columns[j], theirs.batches()[i].columns[j], shared);
    }
  }
  return ours.batches().size();
}

class table_imports : public bridge_test {
protected:
  using table_ptr = std::shared_ptr<arrow::Table>;

  static std::shared_ptr<arrow::RecordBatchReader> reader_of(const table_ptr& source) {
    return std::make_shared<arrow::TableBatchReader>(source);
  }
  static std::shared_ptr<arrow::RecordBatchReader> reader_of(const batch_ptr& source) {
    return take(arrow::RecordBatchReader::Make({source}, source->schema()));
  }
  /// Returns the number of batches.
  template <class Rows>
  [[nodiscard]] std::size_t expect_as_streamed(const Rows& source) const {
    EXPECT_TRUE(saeta::on_cpu(*source));
    std::size_t batches = 0;
    for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
      import_options options;
      options.copy = copy;
      arrow_stream stream;
      check(arrow::ExportRecordBatchReader(reader_of(source), stream.out()));
      const table theirs = import_stream(ctx(), stream.get(), options);
      batches = expect_same(import_table(ctx(), source, options), theirs,
                            ctx()->on_host() && copy == copy_policy::when_needed);
    }
    return batches;
  }
  static table_ptr table_of(const std::vector<batch_ptr>& batches) {
    return take(arrow::Table::FromRecordBatches(batches));
  }
  /// Returns a batch of types with parameters, an extension type, metadata and a field that is not nullable.
  static batch_ptr described_types() {
    using namespace arrow;
    const array_ptr ints = array(Int64Builder(), 1, nullptr, 3, 4, 5);
    const array_ptr plain = array(Int64Builder(), 1, 2, 3, 4, 5);
    const auto stamps = [&](const std::string& zone) { // each with its own type object
      return take(ints->View(timestamp(TimeUnit::MICRO, zone)));
    };
    const auto noted = key_value_metadata({"key", "other"}, {"value", ""});
    const FieldVector fields{
        arrow::field("", timestamp(TimeUnit::MICRO, "UTC")),
        arrow::field("again", timestamp(TimeUnit::MICRO, "Asia/Tokyo")),
        arrow::field("again", duration(TimeUnit::SECOND)),
        arrow::field("required", int64(), false),
        arrow::field("noted", int64(), noted),
        arrow::field("bool8", extension::bool8()),
    };
    const auto bytes = array(Int8Builder(), 0, 1, nullptr, 1, 0);
    return RecordBatch::Make(arrow::schema(fields, noted), 5,
                             {stamps("UTC"), stamps("Asia/Tokyo"),
                              take(ints->View(duration(TimeUnit::SECOND))), plain, ints,
                              ExtensionType::WrapArray(extension::bool8(), bytes)});
  }
};

TEST_P(table_imports, equal_imports_of_a_stream_for_every_type) {
  for (const batch_ptr& rows : {all_types(), described_types()}) {
    EXPECT_EQ(expect_as_streamed(table_of({rows})), 1);
    EXPECT_EQ(expect_as_streamed(table_of({rows->Slice(1, 3)})), 1);
    EXPECT_EQ(expect_as_streamed(table_of({rows, rows->Slice(2), rows->Slice(1, 1)})), 3);
    EXPECT_EQ(expect_as_streamed(table_of({rows, rows})->Slice(3, 4)), 2);
    EXPECT_EQ(expect_as_streamed(table_of({rows->Slice(0, 0)})), 0);
    EXPECT_EQ(expect_as_streamed(rows), 1);
    EXPECT_EQ(expect_as_streamed(rows->Slice(0, 0)), 1);
  }
}

TEST_P(table_imports, have_a_batch_for_each_chunk_boundary) {
  const auto some = array(arrow::Int64Builder(), 1, nullptr, 3, 4, 5, 6);
  const auto chunks = [&](const std::vector<std::int64_t>& ends) {
    arrow::ArrayVector made;
    std::int64_t first = 0;
    for (const std::int64_t end : ends) {
      made.push_back(some->Slice(first, end - first));
      first = end;
    }
    return std::make_shared<arrow::ChunkedArray>(made);
  };
  const auto fields = arrow::schema({arrow::field("a", arrow::int64()), arrow::field("b", arrow::int64())});
  EXPECT_EQ(expect_as_streamed(arrow::Table::Make(fields, {chunks({6}), chunks({1, 4, 6})})), 3);
  EXPECT_EQ(expect_as_streamed(arrow::Table::Make(fields, {chunks({2, 6}), chunks({4, 6})})), 3);
  EXPECT_GE(expect_as_streamed(arrow::Table::Make(fields, {chunks({0, 2, 2, 6}), chunks({6})})), 2);
}

TEST_P(table_imports, import_a_shared_dictionary_once) {
  const batch_ptr rows = all_types();
  const auto words = rows->GetColumnByName("dictionary");
  const auto others = take(arrow::DictionaryArray::FromArrays(
      words->type(), array(arrow::Int32Builder(), 0, 0), array(arrow::StringBuilder(), "other")));
  const auto fields = arrow::schema({arrow::field("words", words->type())});
  const auto source = arrow::Table::Make(
      fields, {std::make_shared<arrow::ChunkedArray>(arrow::ArrayVector{words, words->Slice(1), others})});
  EXPECT_EQ(expect_as_streamed(source), 3);
  import_options options;
  options.copy = copy_policy::always;
  const table made = import_table(ctx(), source, options);
  const auto dictionary = [&](std::size_t batch) { return *made.batches()[batch].columns[0].dictionary(); };
  EXPECT_TRUE(same_memory(dictionary(0), dictionary(1)));
  EXPECT_FALSE(same_memory(dictionary(1), dictionary(2)));
}

/// libarrow before 25 casts short texts to such arrays, and ends the process to export them.
TEST_P(table_imports, take_views_with_a_null_buffer_of_bytes) {
  const array_ptr texts = array(arrow::StringViewBuilder(), "Lyon", nullptr, "Bern");
  const std::shared_ptr<arrow::ArrayData> odd = texts->data()->Copy();
  odd->buffers = {odd->buffers[0], odd->buffers[1], nullptr};
  const auto in_list = [](const std::shared_ptr<arrow::ArrayData>& child) {
    return arrow::MakeArray(arrow::ArrayData::Make(
        arrow::list(child->type), 1, {nullptr, arrow::Buffer::FromVector(std::vector<std::int32_t>{0, 3})},
        {child}, 0));
  };
  for (const auto& [given, plain] :
       {std::pair(arrow::MakeArray(odd), texts), std::pair(in_list(odd), in_list(texts->data()))}) {
    const auto fields = arrow::schema({arrow::field("x", plain->type())});
    EXPECT_TRUE(equals(import_table(ctx(), arrow::Table::Make(fields, {given}), {}),
                       import_table(ctx(), arrow::Table::Make(fields, {plain}), {})));
  }
}

TEST_P(table_imports, keep_the_row_count_of_a_table_without_columns) {
  const std::vector<std::shared_ptr<arrow::ChunkedArray>> none;
  EXPECT_EQ(expect_as_streamed(arrow::Table::Make(arrow::schema({}), none, 7)), 1);
}

TEST_P(table_imports, keep_a_batch_alive_while_columns_use_it) {
  for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
    batch_ptr rows = all_types();
    const std::weak_ptr<arrow::RecordBatch> watched = rows;
    import_options options;
    options.copy = copy;
    std::optional<table> made = import_table(ctx(), rows, options);
    rows = nullptr;
    EXPECT_EQ(watched.expired(), !ctx()->on_host() || copy == copy_policy::always);
    made.reset();
    ctx()->synchronize(ctx()->work_stream());
    EXPECT_TRUE(watched.expired());
  }
}

TEST_P(table_imports, release_a_refused_batch) {
  using namespace arrow;
  const auto falling = Buffer::FromString(std::string("\0\0\0\0\3\0\0\0\1\0\0\0", 12));
  const auto words = MakeArray(ArrayData::Make(utf8(), 2, {nullptr, falling, Buffer::FromString("abc")}));
  const array_ptr short_one = array(Int64Builder(), 1);
  const array_ptr two = array(Int64Builder(), 1, 2);
  const auto of_two = [&](const std::string& name, const array_ptr& second) {
    return RecordBatch::Make(arrow::schema({arrow::field("a", int64()), arrow::field(name, second->type())}),
                             2, {two, second});
  };
  const std::vector<std::pair<batch_ptr, std::string>> refused{
      {of_two("b", words), "column 'b': offsets decrease from 3 to 1 at row 1"},
      {of_two("b", short_one), "column 'b': length is 1"},
      {of_two("\xff", two), "name is not UTF-8"},
  };
  for (const auto& [rows, why] : refused) {
    const auto users = rows.use_count();
    try {
      static_cast<void>(import_table(ctx(), rows, {}));
      FAIL() << why;
    } catch (const error& found) {
      EXPECT_EQ(found.code(), errc::format);
      EXPECT_NE(found.message().find(why), std::string::npos) << found.message();
    }
    EXPECT_EQ(rows.use_count(), users);
  }
}

TEST_P(table_imports, refuse_device_memory) {
  const batch_ptr rows = all_types();
  const batch_ptr elsewhere = take(rows->CopyTo(manager()));
  const bool on_host = ctx()->on_host();
  EXPECT_EQ(saeta::on_cpu(*elsewhere), on_host);
  EXPECT_EQ(saeta::on_cpu(*table_of({rows, elsewhere})), on_host);
  // Device memory in one of many columns, and in one of many children.
  for (const char* const name : {"ints", "structs", "dictionary"}) {
    const int at = rows->schema()->GetFieldIndex(name);
    const table_ptr mixed = take(table_of({rows})->SetColumn(
        at, rows->schema()->field(at), std::make_shared<arrow::ChunkedArray>(elsewhere->column(at))));
    EXPECT_EQ(saeta::on_cpu(*mixed), on_host) << name;
  }
  const auto words = rows->GetColumnByName("dictionary")->data()->Copy();
  words->dictionary = elsewhere->GetColumnByName("dictionary")->data()->dictionary;
  const auto far_words = std::make_shared<arrow::ChunkedArray>(arrow::MakeArray(words));
  const auto fields = arrow::schema({arrow::field("words", words->type)});
  EXPECT_EQ(saeta::on_cpu(*arrow::Table::Make(fields, {far_words})), on_host);
}

SAETA_CONFORMANCE_SUITE(table_imports);

} // namespace
} // namespace saeta::conformance
