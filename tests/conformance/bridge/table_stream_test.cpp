// Our stream of a table's batches beside libarrow's: the same structs to the last field.
#include "conformance/bridge/bridge_test.hpp"
#include "saeta/bridge/table_stream.hpp"
#include "saeta/interop/arrow_owned.hpp"

#include <arrow/extension/bool8.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

namespace saeta::conformance {
namespace {

void expect_same_text(const char* ours, const char* theirs) {
  ASSERT_EQ(ours == nullptr, theirs == nullptr);
  if (ours != nullptr) {
    EXPECT_STREQ(ours, theirs);
  }
}

/// Bytes of encoded metadata.
std::string_view encoded(const char* metadata) {
  if (metadata == nullptr) {
    return {};
  }
  const auto number = [](const char* at) {
    std::int32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  const char* end = metadata + sizeof(std::int32_t);
  for (std::int32_t texts = 2 * number(metadata); texts > 0; --texts) {
    end += sizeof(std::int32_t) + static_cast<std::size_t>(number(end));
  }
  return {metadata, end};
}

void expect_same(const ArrowSchema& ours, const ArrowSchema& theirs) {
  SCOPED_TRACE(theirs.name == nullptr ? "" : theirs.name);
  expect_same_text(ours.format, theirs.format);
  expect_same_text(ours.name, theirs.name);
  EXPECT_EQ(encoded(ours.metadata), encoded(theirs.metadata));
  EXPECT_EQ(ours.flags, theirs.flags);
  EXPECT_NE(ours.release, nullptr);
  ASSERT_EQ(ours.n_children, theirs.n_children);
  for (std::int64_t i = 0; i < ours.n_children; ++i) {
    expect_same(*ours.children[i], *theirs.children[i]);
  }
  ASSERT_EQ(ours.dictionary == nullptr, theirs.dictionary == nullptr);
  if (ours.dictionary != nullptr) {
    expect_same(*ours.dictionary, *theirs.dictionary);
  }
}

void expect_same(const ArrowArray& ours, const ArrowArray& theirs, const ArrowSchema& of) {
  SCOPED_TRACE(of.name == nullptr ? "" : of.name);
  EXPECT_EQ(ours.length, theirs.length);
  EXPECT_EQ(ours.null_count, theirs.null_count);
  EXPECT_EQ(ours.offset, theirs.offset);
  EXPECT_NE(ours.release, nullptr);
  ASSERT_EQ(ours.n_buffers, theirs.n_buffers);
  const bool views = of.format[0] == 'v'; // whose last buffer, the sizes of the others, each exporter makes
  for (std::int64_t i = 0; i < ours.n_buffers - (views ? 1 : 0); ++i) {
    EXPECT_EQ(ours.buffers[i], theirs.buffers[i]) << "buffer " << i;
  }
  ASSERT_EQ(ours.n_children, theirs.n_children);
  for (std::int64_t i = 0; i < ours.n_children; ++i) {
    expect_same(*ours.children[i], *theirs.children[i], *of.children[i]);
  }
  ASSERT_EQ(ours.dictionary == nullptr, theirs.dictionary == nullptr);
  if (ours.dictionary != nullptr) {
    expect_same(*ours.dictionary, *theirs.dictionary, *of.dictionary);
  }
}

/// Both streams to their end. Returns how many arrays they had.
int expect_same(owned_stream ours, owned_stream theirs) {
  owned_schema our_fields;
  owned_schema their_fields;
  EXPECT_EQ(ours.get().get_schema(&ours.get(), our_fields.out()), 0);
  EXPECT_EQ(theirs.get().get_schema(&theirs.get(), their_fields.out()), 0);
  expect_same(our_fields.get(), their_fields.get());
  for (int count = 0;; ++count) {
    owned_array our_rows;
    owned_array their_rows;
    EXPECT_EQ(ours.get().get_next(&ours.get(), our_rows.out()), 0);
    EXPECT_EQ(theirs.get().get_next(&theirs.get(), their_rows.out()), 0);
    EXPECT_EQ(our_rows.empty(), their_rows.empty());
    if (our_rows.empty() || their_rows.empty()) {
      return count;
    }
    expect_same(our_rows.get(), their_rows.get(), their_fields.get());
  }
}

class table_streams : public bridge_test {
protected:
  using table_ptr = std::shared_ptr<arrow::Table>;

  static int expect_as_libarrow(const table_ptr& source) {
    owned_stream ours;
    owned_stream theirs;
    EXPECT_TRUE(stream_table(source, ours.get()));
    check(arrow::ExportRecordBatchReader(std::make_shared<arrow::TableBatchReader>(source), theirs.out()));
    return expect_same(std::move(ours), std::move(theirs));
  }
  static int expect_as_libarrow(const batch_ptr& source) {
    owned_stream ours;
    owned_stream theirs;
    EXPECT_TRUE(stream_batch(source, ours.get()));
    check(arrow::ExportRecordBatchReader(take(arrow::RecordBatchReader::Make({source}, source->schema())),
                                         theirs.out()));
    return expect_same(std::move(ours), std::move(theirs));
  }
  static table_ptr table_of(const std::vector<batch_ptr>& batches) {
    return take(arrow::Table::FromRecordBatches(batches));
  }
  /// Types with parameters, an extension, metadata and a field that allows no nulls.
  static batch_ptr described_types() {
    using namespace arrow;
    const array_ptr ints = array(Int64Builder(), 1, nullptr, 3, 4, 5);
    const array_ptr plain = array(Int64Builder(), 1, 2, 3, 4, 5);
    const auto stamps = [&](const std::string& zone) { // each with a type object of its own
      return take(ints->View(timestamp(TimeUnit::MICRO, zone)));
    };
    const auto noted = key_value_metadata({"key", "other"}, {"value", ""});
    const FieldVector fields{
        field("", timestamp(TimeUnit::MICRO, "UTC")),
        field("again", timestamp(TimeUnit::MICRO, "Asia/Tokyo")),
        field("again", duration(TimeUnit::SECOND)),
        field("required", int64(), false),
        field("noted", int64(), noted),
        field("bool8", extension::bool8()),
    };
    const auto bytes = array(Int8Builder(), 0, 1, nullptr, 1, 0);
    return RecordBatch::Make(schema(fields, noted), 5,
                             {stamps("UTC"), stamps("Asia/Tokyo"),
                              take(ints->View(duration(TimeUnit::SECOND))), plain, ints,
                              ExtensionType::WrapArray(extension::bool8(), bytes)});
  }
};

TEST_P(table_streams, are_those_of_libarrow_for_every_type) {
  for (const batch_ptr& rows : {all_types(), described_types()}) {
    EXPECT_EQ(expect_as_libarrow(table_of({rows})), 1);
    EXPECT_EQ(expect_as_libarrow(table_of({rows->Slice(1, 3)})), 1);
    EXPECT_EQ(expect_as_libarrow(table_of({rows, rows->Slice(2), rows->Slice(1, 1)})), 3);
    EXPECT_EQ(expect_as_libarrow(table_of({rows, rows})->Slice(3, 4)), 2);
    EXPECT_EQ(expect_as_libarrow(table_of({rows->Slice(0, 0)})), 0);
    EXPECT_EQ(expect_as_libarrow(rows), 1);
    EXPECT_EQ(expect_as_libarrow(rows->Slice(0, 0)), 1);
  }
}

TEST_P(table_streams, are_cut_where_a_column_begins_a_chunk) {
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
  EXPECT_EQ(expect_as_libarrow(arrow::Table::Make(fields, {chunks({6}), chunks({1, 4, 6})})), 3);
  EXPECT_EQ(expect_as_libarrow(arrow::Table::Make(fields, {chunks({2, 6}), chunks({4, 6})})), 3);
  EXPECT_GE(expect_as_libarrow(arrow::Table::Make(fields, {chunks({0, 2, 2, 6}), chunks({6})})), 2);
}

TEST_P(table_streams, have_the_rows_of_a_table_without_columns) {
  const std::vector<std::shared_ptr<arrow::ChunkedArray>> none;
  EXPECT_EQ(expect_as_libarrow(arrow::Table::Make(arrow::schema({}), none, 7)), 1);
}

TEST_P(table_streams, keep_a_batch_as_long_as_its_array) {
  batch_ptr rows = all_types();
  const std::weak_ptr<arrow::RecordBatch> watched = rows;
  owned_stream stream;
  ASSERT_TRUE(stream_batch(rows, stream.get()));
  rows = nullptr;
  owned_array seen;
  ASSERT_EQ(stream.get().get_next(&stream.get(), seen.out()), 0);
  stream.reset();
  EXPECT_FALSE(watched.expired());
  seen.reset();
  EXPECT_TRUE(watched.expired());
}

TEST_P(table_streams, are_not_made_of_memory_of_a_device) {
  const batch_ptr rows = all_types();
  const batch_ptr elsewhere = take(rows->CopyTo(manager()));
  const bool on_host = home()->on_host();
  owned_stream stream;
  EXPECT_EQ(stream_batch(elsewhere, stream.get()), on_host);
  stream.reset();
  EXPECT_EQ(stream_table(table_of({rows, elsewhere}), stream.get()), on_host);
  stream.reset();
  // One column of many, and below it a child of many.
  for (const char* const name : {"ints", "structs", "dictionary"}) {
    const int at = rows->schema()->GetFieldIndex(name);
    const table_ptr mixed = take(table_of({rows})->SetColumn(
        at, rows->schema()->field(at), std::make_shared<arrow::ChunkedArray>(elsewhere->column(at))));
    EXPECT_EQ(stream_table(mixed, stream.get()), on_host) << name;
    stream.reset();
  }
  const auto words = rows->GetColumnByName("dictionary")->data()->Copy();
  words->dictionary = elsewhere->GetColumnByName("dictionary")->data()->dictionary;
  const auto far_words = std::make_shared<arrow::ChunkedArray>(arrow::MakeArray(words));
  const auto fields = arrow::schema({arrow::field("words", words->type)});
  EXPECT_EQ(stream_table(arrow::Table::Make(fields, {far_words}), stream.get()), on_host);
}

SAETA_CONFORMANCE_SUITE(table_streams);

} // namespace
} // namespace saeta::conformance
