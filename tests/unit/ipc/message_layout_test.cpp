// Validation of record batch messages: nodes, buffers, variadic counts and body size.

#include "ipc_test.hpp"
#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/metadata_encoder.hpp"

#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace saeta::ipc::detail {
namespace {

constexpr std::int64_t int64_most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t whole_body = 4096;

/// Returns the metadata of a message, without its prefix.
std::vector<std::byte> message_of(const packed_rows& rows,
                                  std::optional<std::int64_t> dictionary = std::nullopt,
                                  std::int64_t body_bytes = whole_body) {
  std::vector<std::byte> made;
  append_batch_message(made, rows, {.dictionary = dictionary}, body_bytes);
  made.erase(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(prefix_bytes));
  return made;
}

packed_rows sound() {
  packed_rows made;
  made.rows = 9;
  made.nodes = {{9, 2}, {9, -1}};
  made.buffers = {{0, 2}, {8, 36}, {64, 2}, {128, 144}, {512, 100}, {1024, 7}};
  made.variadic_counts = {2};
  return made;
}

template <class Change>
error refusal(const Change& change) {
  packed_rows of = sound();
  change(of);
  return error_of([&] { static_cast<void>(read_layout(message_of(of))); });
}

TEST(message_layout, has_the_fields_of_the_message) {
  const std::vector<std::byte> message = message_of(sound());
  const batch_layout read = read_layout(message);
  EXPECT_EQ(read.version, version_5);
  EXPECT_EQ(read.rows, 9);
  EXPECT_EQ(read.body_bytes, whole_body);
  EXPECT_EQ(read.codec, body_codec::none);
  ASSERT_EQ(read.nodes.size(), 2U);
  EXPECT_EQ(read.nodes[1].null_count, -1);
  ASSERT_EQ(read.buffers.size(), 6U);
  EXPECT_EQ(read.buffers[3].offset, 128);
  EXPECT_EQ(read.buffers[3].length, 144);
  ASSERT_EQ(read.variadic_counts.size(), 1U);
  EXPECT_FALSE(read.dictionary.has_value());
  const std::vector<std::byte> values = message_of(sound(), 7);
  EXPECT_EQ(read_layout(values).dictionary, 7);
}

TEST(message_layout, refuses_contradictory_lengths_and_null_counts) {
  for (const field_node& wrong : std::vector<field_node>{
           {-1, 0}, {9, 10}, {9, -2}, {9, int64_most}, {std::numeric_limits<std::int64_t>::min(), -1}}) {
    const error seen = refusal([&](packed_rows& of) { of.nodes[1] = wrong; });
    EXPECT_EQ(seen.code(), errc::format);
    EXPECT_EQ(seen.message(), concat("field 1 has ", wrong.length, " rows and ", wrong.null_count, " nulls"));
  }
  EXPECT_THAT(refusal([](packed_rows& of) { of.rows = -1; }).message(), "a record batch of -1 rows");
}

TEST(message_layout, refuses_buffers_outside_of_the_body_or_unaligned) {
  for (const buffer_place& wrong : std::vector<buffer_place>{
           {-8, 8}, {0, -1}, {whole_body + 8, 8}, {whole_body - 8, 9}, {int64_most, 8}, {8, int64_most}}) {
    const error seen = refusal([&](packed_rows& of) { of.buffers[4] = wrong; });
    EXPECT_EQ(seen.code(), errc::format);
    EXPECT_EQ(seen.message(), concat("buffer 4 has ", wrong.length, " bytes at offset ", wrong.offset,
                                     " of a body of ", whole_body, " bytes"));
  }
  EXPECT_THAT(refusal([](packed_rows& of) { of.buffers[4].offset = 516; }).message(),
              "buffer 4 is at offset 516, which is not a multiple of 8");
  packed_rows empty = sound();
  empty.buffers[4] = {-3, 0};
  EXPECT_NO_THROW(static_cast<void>(read_layout(message_of(empty)))) << "nothing is read there";
}

TEST(message_layout, refuses_variadic_counts_beyond_the_buffers) {
  for (const std::vector<std::int64_t>& counts :
       std::vector<std::vector<std::int64_t>>{{-1}, {7}, {3, 4}, {int64_most, int64_most}}) {
    const error seen = refusal([&](packed_rows& of) { of.variadic_counts = counts; });
    EXPECT_EQ(seen.code(), errc::format);
    EXPECT_THAT(seen.message(), ::testing::HasSubstr("the batch has 6 buffers"));
  }
}

TEST(message_layout, refuses_a_body_of_negative_size) {
  EXPECT_ERROR(read_layout(message_of(sound(), std::nullopt, -8)), format, "its body has -8 bytes");
}

TEST(message_layout, requires_the_nodes_and_buffers_of_all_columns) {
  const schema columns{
      {{"a", data_type(type_id::int32), true, {}}, {"b", data_type(type_id::string_view), true, {}}}, {}};
  const std::vector<std::byte> flat = encode_schema(columns);
  dictionary_trees none;
  const std::vector<int> all{0, 1};
  const auto tree = make_tree(columns, all, read_header(flat).table, none, version_5);
  const auto refused = [&](const auto& change) {
    packed_rows of = sound();
    change(of);
    const std::vector<std::byte> message = message_of(of);
    return error_of([&] { read_layout(message).require_entries(tree); }).message();
  };
  EXPECT_EQ(refused([](packed_rows& of) { of.nodes.pop_back(); }), "1 field nodes, the schema needs 2");
  EXPECT_EQ(refused([](packed_rows& of) { of.variadic_counts.clear(); }),
            "0 counts of data buffers of views, the schema needs 1");
  EXPECT_EQ(refused([](packed_rows& of) { of.buffers.pop_back(); }), "5 buffers, the schema needs 6");
  packed_rows more = sound();
  more.nodes.push_back({1, 0});
  more.buffers.push_back({0, 8});
  const std::vector<std::byte> message = message_of(more);
  EXPECT_NO_THROW(read_layout(message).require_entries(tree));
}

TEST(message_layout, requires_enough_rows_in_children) {
  const field number{"number", data_type(type_id::int32), true, {}};
  for (const auto& [type, needed] :
       std::vector<std::pair<const char*, std::int64_t>>{{"+s", 9}, {"+w:2", 18}}) {
    const schema columns{{{"a", data_type::nested(type, std::vector<field>{number}), true, {}}}, {}};
    const std::vector<std::byte> flat = encode_schema(columns);
    dictionary_trees none;
    const std::vector<int> all{0};
    const auto tree = make_tree(columns, all, read_header(flat).table, none, version_5);
    packed_rows of = sound();
    of.variadic_counts.clear();
    of.nodes = {{9, 0}, {needed, 0}};
    const std::vector<std::byte> enough = message_of(of);
    EXPECT_NO_THROW(read_layout(enough).require_entries(tree));
    of.nodes[1].length = needed - 1;
    const std::vector<std::byte> short_of_one = message_of(of);
    EXPECT_ERROR(read_layout(short_of_one).require_entries(tree), format,
                 concat("column 'a', child 'number': ", needed - 1, " rows, its parent refers to ", needed));
  }
}

TEST(message_layout, refuses_messages_that_are_not_batches) {
  const auto changed = [](unsigned field, auto value) {
    std::vector<std::byte> message = message_of(sound());
    const auto at = flat_table::root(message).place(field);
    std::memcpy(message.data() + at.value(), &value, sizeof value);
    return error_of([&] { static_cast<void>(read_layout(message)); });
  };
  EXPECT_EQ(changed(message_header_type, std::uint8_t{4}).code(), errc::unsupported);
  EXPECT_EQ(changed(message_header_type, std::uint8_t{0}).code(), errc::format);
  EXPECT_EQ(changed(message_version, std::int16_t{2}).message(),
            "its metadata is of version 3, expected 4 or 5");
  EXPECT_EQ(changed(message_version, std::int16_t{5}).code(), errc::unsupported);
  EXPECT_ERROR(read_layout(encode_schema({})), format, "its message is a schema");
}

/// Truncated or changed metadata must be refused, or describe a batch that passes all checks.
TEST(message_layout, of_damaged_bytes_is_refused_or_consistent) {
  const std::vector<std::byte> whole = message_of(sound(), 7);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    try {
      static_cast<void>(read_layout(cut));
    } catch (const error& refused) {
      EXPECT_TRUE(refused.code() == errc::format || refused.code() == errc::unsupported);
    }
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned change : {0x01U, 0x04U, 0x10U, 0x80U, 0xFFU}) {
      std::vector<std::byte> damaged = whole;
      damaged[at] ^= static_cast<std::byte>(change);
      try {
        const batch_layout read = read_layout(damaged);
        for (std::size_t i = 0; i < read.buffers.size(); ++i) {
          const buffer_place each = read.buffers[i];
          EXPECT_TRUE(each.length == 0 || (each.offset >= 0 && each.length <= read.body_bytes - each.offset));
        }
      } catch (const error& refused) {
        EXPECT_TRUE(refused.code() == errc::format || refused.code() == errc::unsupported);
      }
    }
  }
}

} // namespace
} // namespace saeta::ipc::detail
