// Schemas that are decoded from Arrow's metadata, compared with those of libarrow.

#include "ipc_test.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/message_source.hpp"
#include "saeta/symbols/symbols.hpp"
#include "support/golden_files.hpp"
#include "support/libarrow_schema.hpp"

#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>

#include <cstring>

namespace saeta::ipc::detail {
namespace {

using bridge::check;
using bridge::take;

using field_list = arrow::FieldVector;

std::shared_ptr<arrow::KeyValueMetadata>
metadata(const std::vector<std::pair<std::string, std::string>>& of) {
  auto made = std::make_shared<arrow::KeyValueMetadata>();
  for (const auto& [key, value] : of) {
    made->Append(key, value);
  }
  return made;
}

/// Writes a stream with a schema only.
std::string stream_of(const field_list& fields,
                      const std::shared_ptr<arrow::KeyValueMetadata>& of_schema = nullptr) {
  return take(arrow::ipc::SerializeSchema(*arrow::schema(fields, of_schema)), "schema")->ToString();
}

struct description {
  std::optional<schema> ours;        ///< nullopt if Saeta refuses the metadata or does not support a column
  std::optional<schema> of_libarrow; ///< nullopt if libarrow refuses the metadata
};

description describe(std::span<const std::byte> bytes) {
  description found;
  found.of_libarrow = support::schema_of_libarrow(bytes);
  message_source messages(source_of(bytes, nullptr), std::nullopt);
  const source_schema read = read_schema(messages.format(), messages.front());
  if (read.obstacles.empty()) {
    found.ours = read.fields;
  }
  return found;
}

description describe(std::string_view bytes) { return describe(std::as_bytes(std::span(bytes))); }

/// Returns the error of the metadata, or of the first unsupported column.
error refusal_of(std::string_view bytes) {
  return error_of([&] {
    message_source messages(source_of(std::as_bytes(std::span(bytes)), nullptr), std::nullopt);
    const source_schema read = read_schema(messages.format(), messages.front());
    for (const auto& [number, _] : read.obstacles) {
      read.require_supported(number);
    }
  });
}

/// Returns fields of all types, with all parameters that the metadata can have.
field_list fields_of_all_types() {
  field_list all;
  const auto add = [&](const std::shared_ptr<arrow::DataType>& type, bool nullable = true) {
    all.push_back(arrow::field(concat("c", all.size()), type, nullable));
  };
  for (const auto& type : {arrow::null(),
                           arrow::boolean(),
                           arrow::int8(),
                           arrow::uint8(),
                           arrow::int16(),
                           arrow::uint16(),
                           arrow::int32(),
                           arrow::uint32(),
                           arrow::int64(),
                           arrow::uint64(),
                           arrow::float16(),
                           arrow::float32(),
                           arrow::float64(),
                           arrow::utf8(),
                           arrow::large_utf8(),
                           arrow::utf8_view(),
                           arrow::binary(),
                           arrow::large_binary(),
                           arrow::binary_view(),
                           arrow::date32(),
                           arrow::date64(),
                           arrow::month_interval(),
                           arrow::day_time_interval(),
                           arrow::month_day_nano_interval(),
                           arrow::decimal32(9, 2),
                           arrow::decimal64(18, -3),
                           arrow::decimal128(38, 10),
                           arrow::decimal128(1, 0),
                           arrow::decimal256(76, 5),
                           arrow::fixed_size_binary(0),
                           arrow::fixed_size_binary(16)}) {
    add(type);
    add(type, false);
    add(arrow::list(type));
  }
  using arrow::TimeUnit;
  for (const auto unit : {TimeUnit::SECOND, TimeUnit::MILLI, TimeUnit::MICRO, TimeUnit::NANO}) {
    add(arrow::duration(unit));
    add(arrow::timestamp(unit));
    add(arrow::timestamp(unit, "Europe/Madrid"));
    add(unit <= TimeUnit::MILLI ? arrow::time32(unit) : arrow::time64(unit));
  }
  for (const auto& index : {arrow::int8(), arrow::uint8(), arrow::int16(), arrow::uint16(), arrow::int32(),
                            arrow::uint32(), arrow::int64(), arrow::uint64()}) {
    add(arrow::dictionary(index, arrow::utf8()));
    add(arrow::dictionary(index, arrow::list(arrow::field("named", arrow::decimal128(5, 2), false)), true));
  }
  const auto number = arrow::field("number", arrow::int32(), false);
  const auto word = arrow::field("word", arrow::dictionary(arrow::int16(), arrow::large_utf8()));
  add(arrow::large_list(number));
  add(arrow::list_view(number));
  add(arrow::large_list_view(word));
  add(arrow::fixed_size_list(number, 0));
  add(arrow::fixed_size_list(word, 3));
  add(arrow::struct_({}));
  add(arrow::struct_({number, word, arrow::field("inner", arrow::struct_({word}))}));
  add(arrow::map(arrow::utf8(), word));
  add(arrow::map(arrow::int64(), arrow::field("other", arrow::list(number), false), true));
  add(take(arrow::MapType::Make(arrow::field("rows", arrow::struct_({number, word}), false)), "map"));
  add(arrow::sparse_union({number, word}));
  add(arrow::dense_union({number, word}, {7, 100}));
  add(arrow::dense_union(field_list{}));
  add(arrow::run_end_encoded(arrow::int16(), arrow::utf8()));
  add(arrow::run_end_encoded(arrow::int64(), arrow::list(number)));
  return all;
}

TEST(schema_metadata, of_every_type_agrees_with_libarrow) {
  for (const auto& each : fields_of_all_types()) {
    const description found = describe(stream_of({each}));
    ASSERT_TRUE(found.ours && found.of_libarrow) << each->ToString();
    EXPECT_EQ(found.ours, found.of_libarrow) << each->ToString();
  }
  const description found = describe(stream_of(fields_of_all_types()));
  ASSERT_TRUE(found.ours.has_value());
  EXPECT_EQ(found.ours, found.of_libarrow);
}

TEST(schema_metadata, names_children_as_libarrow_does) {
  const auto noted = metadata({{"a", "1"}});
  const auto marked = metadata({{"ARROW:extension:name", "ours"}});
  const auto key = arrow::field("id", arrow::int8(), false, noted);
  const auto value = arrow::field("name", arrow::utf8(), false, marked);
  const auto entries = arrow::field("rows", arrow::struct_({key, value}), false, noted);
  const description found =
      describe(stream_of({arrow::field("a", take(arrow::MapType::Make(entries), "map"))}));
  ASSERT_TRUE(found.ours.has_value());
  EXPECT_EQ(found.ours, found.of_libarrow);
  EXPECT_EQ(found.ours->fields[0].type.children()[0].name, "entries");
}

TEST(schema_metadata, keeps_the_metadata_of_fields_and_of_the_schema_in_order) {
  const auto noted = metadata({{"b", "1"}, {"a", std::string("\0\xff", 2)}, {"b", ""}});
  const auto child = arrow::field("child", arrow::int8(), true, noted);
  const description found =
      describe(stream_of({arrow::field("a", arrow::list(child), true, noted), child}, noted));
  ASSERT_TRUE(found.ours.has_value());
  EXPECT_EQ(found.ours, found.of_libarrow);
  EXPECT_EQ(found.ours->metadata, found.ours->fields[0].metadata);
  EXPECT_EQ(found.ours->metadata.front(), std::pair(std::string("b"), std::string("1")));
}

TEST(schema_metadata, moves_extensions_into_types) {
  const auto marked = metadata({{"before", "x"},
                                {"ARROW:extension:name", "ours.point"},
                                {"ARROW:extension:metadata", std::string("{\0}", 3)},
                                {"after", "y"}});
  const auto child = arrow::field("child", arrow::int8(), true, marked);
  const description found = describe(
      stream_of({arrow::field("a", arrow::dictionary(arrow::int8(), arrow::utf8()), true, marked),
                 arrow::field("b", arrow::list(child)),
                 arrow::field("c", arrow::int8(), true, metadata({{"ARROW:extension:name", ""}})),
                 arrow::field("d", arrow::int8(), true, metadata({{"ARROW:extension:name", "bare"}}))}));
  ASSERT_TRUE(found.ours.has_value());
  EXPECT_EQ(found.ours, found.of_libarrow);
  EXPECT_EQ(found.ours->fields[0].type.extension_name(), "ours.point");
  EXPECT_EQ(found.ours->fields[0].metadata.size(), 2U);
}

TEST(schema_metadata, recognises_symbol_columns) {
  const auto marked = metadata(
      {{"xlog.symbol", "true"}, {"kept", "1"}, {"saeta.symbol_table", process_symbols()->identity()}});
  const auto of_no_table = metadata({{"xlog.symbol", "true"}});
  const auto column = arrow::field("a", arrow::uint32(), true, marked);
  const description found = describe(stream_of({column, arrow::field("b", arrow::list(column)),
                                                arrow::field("c", arrow::uint32(), true, of_no_table)}));
  ASSERT_TRUE(found.ours.has_value());
  EXPECT_EQ(found.ours, found.of_libarrow);
  EXPECT_TRUE(found.ours->fields[0].type.is_symbol());
  EXPECT_EQ(found.ours->fields[2].type, data_type(type_id::uint32));
  EXPECT_EQ(found.ours->fields[2].metadata, (metadata_list{{"xlog.symbol", "true"}}));
}

TEST(schema_metadata, keeps_the_names_of_extensions_known_to_libarrow) {
  const auto uuid = metadata({{"ARROW:extension:name", "arrow.uuid"}, {"ARROW:extension:metadata", ""}});
  const auto known = arrow::field("known", arrow::fixed_size_binary(16), true, uuid);
  for (const auto& each : {known, arrow::field("list", arrow::list(known))}) {
    const description found = describe(stream_of({each}));
    ASSERT_TRUE(found.ours.has_value());
    EXPECT_EQ(found.ours, found.of_libarrow);
  }
  const auto other = describe(stream_of({arrow::field("of another type", arrow::int8(), true, uuid)}));
  ASSERT_TRUE(other.ours.has_value());
  EXPECT_EQ(other.ours->fields[0].type.extension_name(), "arrow.uuid");
}

TEST(schema_metadata, reports_unsupported_columns) {
  const auto stamps = arrow::timestamp(arrow::TimeUnit::NANO, std::string("UTC\0", 4));
  const auto named = arrow::field(std::string("a\0b", 3), arrow::int8());
  EXPECT_ERROR(throw refusal_of(stream_of({named})), unsupported, "column 'a' has a zero byte in its name");
  for (const auto& type : {stamps, arrow::dictionary(arrow::int8(), stamps), arrow::list(named)}) {
    EXPECT_ERROR(throw refusal_of(stream_of({arrow::field("when", type)})), unsupported,
                 "column 'when' has a zero byte in its type");
  }
  const auto first = arrow::field("a", arrow::int8());
  const auto both = refusal_of(stream_of({first, arrow::field("b", stamps)}));
  EXPECT_THAT(both.message(), ::testing::StartsWith("column 'b'"));
  const std::string bytes = stream_of({first, named});
  message_source messages(source_of(std::as_bytes(std::span(bytes)), nullptr), std::nullopt);
  EXPECT_NO_THROW(read_schema(messages.format(), messages.front()).require_supported(0));
}

TEST(schema_metadata, of_names_that_are_not_utf8_is_refused_with_the_column) {
  EXPECT_ERROR(throw refusal_of(stream_of({arrow::field("a\xff", arrow::int8())})), format,
               R"(column 'a\xff': name is not UTF-8)");
  const auto inner = arrow::field("in\xff", arrow::int8());
  EXPECT_ERROR(throw refusal_of(stream_of({arrow::field("a", arrow::list(inner))})), format,
               R"(column 'a', child 'in\xff': name is not UTF-8)");
}

TEST(schema_metadata, of_types_with_too_many_levels_is_refused) {
  auto deep = arrow::int8();
  for (int level = 0; level <= data_type::max_depth; ++level) {
    EXPECT_TRUE(describe(stream_of({arrow::field("deep", deep)})).ours.has_value());
    deep = arrow::list(deep);
  }
  EXPECT_ERROR(throw refusal_of(stream_of({arrow::field("deep", deep)})), unsupported, "levels");
}

TEST(schema_metadata, of_integration_files_agrees_with_libarrow) {
  const auto files = support::golden_files();
  if (files.empty()) {
    GTEST_SKIP() << "no golden files: SAETA_SHARED_DATA names no folder that has them";
  }
  for (const auto& path : files) {
    const source whole = open_source(path);
    const description found = describe(whole->view());
    ASSERT_TRUE(found.ours.has_value()) << path;
    EXPECT_EQ(found.ours, found.of_libarrow) << path;
  }
}

/// Writes a file with a schema only.
std::string file_of(const field_list& fields) {
  const auto sink = take(arrow::io::BufferOutputStream::Create(), "sink");
  const auto writing = take(arrow::ipc::MakeFileWriter(sink, arrow::schema(fields)), "writer");
  check(writing->Close(), "file");
  return take(sink->Finish(), "file")->ToString();
}

std::string text_of(const schema& of) {
  std::string text;
  for (const field& each : of.fields) {
    text += concat(each.name, ": ", each.type.name(), each.nullable ? "" : " not null", "; ");
  }
  return text;
}

TEST(schema_metadata, with_any_byte_changed_agrees_with_libarrow) {
  std::size_t same = 0;
  for (const auto& each : fields_of_all_types()) {
    const std::string whole = file_of({each});
    std::int32_t footer = 0;
    std::memcpy(&footer, whole.data() + whole.size() - 10, sizeof footer);
    for (std::size_t at = whole.size() - 10 - static_cast<std::size_t>(footer); at < whole.size() - 10;
         ++at) {
      for (const unsigned changed : {0x01U, 0x04U, 0x80U, 0xFFU}) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(static_cast<unsigned char>(damaged[at]) ^ changed);
        description found;
        try {
          found = describe(damaged);
        } catch (const error& refused) {
          EXPECT_TRUE(refused.code() == errc::format || refused.code() == errc::unsupported)
              << refused.message();
        }
        if (found.ours) {
          ++same;
          ASSERT_TRUE(found.of_libarrow.has_value()) << each->ToString() << ", byte " << at;
          EXPECT_EQ(found.ours, found.of_libarrow)
              << each->ToString() << ", byte " << at << ": " << text_of(*found.ours) << " and "
              << text_of(*found.of_libarrow);
        }
      }
    }
  }
  EXPECT_GT(same, 1000U);
}

TEST(schema_metadata, of_a_footer_is_refused_where_it_leaves_the_footer) {
  const auto sink = take(arrow::io::BufferOutputStream::Create(), "sink");
  const auto columns = arrow::schema({arrow::field("x", arrow::int8())});
  const auto writer = take(arrow::ipc::MakeFileWriter(sink, columns, arrow::ipc::IpcWriteOptions::Defaults(),
                                                      metadata({{"key", "value"}})),
                           "writer");
  check(writer->Close(), "file");
  const std::string file = take(sink->Finish(), "file")->ToString();
  const message_source messages(source_of(std::as_bytes(std::span(file)), nullptr), std::nullopt);
  std::vector<std::byte> footer(messages.front().begin(), messages.front().end());
  EXPECT_NO_THROW(read_footer(footer));
  const auto place = flat_table::root(footer).place(footer_metadata);
  ASSERT_TRUE(place.has_value());
  const auto beyond = static_cast<std::uint32_t>(footer.size());
  std::memcpy(footer.data() + *place, &beyond, sizeof beyond);
  EXPECT_EQ(error_of([&] { static_cast<void>(read_footer(footer)); }).code(), errc::format);
}

} // namespace
} // namespace saeta::ipc::detail
