// What `unpack` refuses in the metadata of a packed table, and what it believes.

#include "ipc_test.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/metadata_encoder.hpp"
#include "saeta/ipc/packed.hpp"

#include <cstring>
#include <utility>

namespace saeta::ipc {
namespace {

using detail::append_batch_message;
using detail::batch_kind;

class unpacking : public ipc_test {
protected:
  static constexpr std::int64_t body_bytes = 64;
  static constexpr std::int64_t two = 2; // rows

  unpacking() : body_(buffer::allocate(ctx(), body_bytes, ctx()->work_stream(), "test")) {
    std::memset(reinterpret_cast<void*>(body_.address()), 0xFF, body_bytes);
  }
  void TearDown() override {
    body_ = {};
    ipc_test::TearDown();
  }
  static std::vector<std::byte> schema_of(const data_type& type) {
    std::vector<std::byte> made;
    detail::append_message(made, detail::encode_schema({{{"x", type, true, {}}}, {}}));
    return made;
  }
  /// Unpacks one batch with a column of int64.
  [[nodiscard]] table unpack_one(const packed_rows& rows, const batch_kind& kind = {},
                                 validation check = validation::full) const {
    return unpack_batches(schema_of(data_type(type_id::int64)), {{rows, kind}}, check);
  }
  [[nodiscard]] table unpack_batches(std::vector<std::byte> metadata,
                                     const std::vector<std::pair<packed_rows, batch_kind>>& batches,
                                     validation check = validation::full) const {
    for (const auto& [rows, kind] : batches) {
      append_batch_message(metadata, rows, kind, body_bytes);
    }
    detail::append_end_of_stream(metadata);
    return unpack(ctx(), metadata, body_, check);
  }
  static packed_rows rows_with(std::int64_t nulls, std::vector<packed_range> buffers,
                               std::int64_t rows = two) {
    return {.rows = rows, .nodes = {{two, nulls}}, .buffers = std::move(buffers)};
  }

  buffer body_;
  const packed_rows sound = rows_with(0, {{0, 0}, {0, 16}});
  const data_type words = data_type::dictionary(data_type(type_id::int32), data_type(type_id::int64));
};

TEST_F(unpacking, takes_a_sound_batch) {
  const table seen = unpack_one(sound);
  EXPECT_EQ(seen.rows(), 2);
  EXPECT_EQ(seen.pieces(0)[0].null_count(), 0);
}

TEST_F(unpacking, counts_nulls_where_values_are_checked) {
  const packed_rows claimed = rows_with(1, {{0, 1}, {0, 16}}); // all bits of the body are set
  EXPECT_EQ(unpack_one(claimed).pieces(0)[0].null_count(), 0);
  EXPECT_EQ(unpack_one(claimed, {}, validation::structure).pieces(0)[0].null_count(), 1);
  EXPECT_EQ(unpack_one(rows_with(0, {{0, 1}, {0, 16}})).pieces(0)[0].buffers()[0].size(), 0U);
  EXPECT_ERROR(unpack_one(rows_with(1, {{0, 0}, {0, 16}})), format,
               "packed table: batch 0: column 'x': 1 nulls in 2 rows without a validity");
}

TEST_F(unpacking, refuses_messages_of_another_form) {
  EXPECT_ERROR(unpack_one(sound, {.codec = detail::body_codec::lz4}), unsupported,
               "packed table: batch 0: its body is compressed");
  EXPECT_ERROR(unpack_one(rows_with(0, {{0, 0}, {0, 16}}, 3)), format, "column 'x': 2 rows in a batch of 3");
  EXPECT_ERROR(unpack_one(sound, {.dictionary = 7}), format, "dictionary 7 is not in the schema");
  std::vector<std::byte> metadata = schema_of(data_type(type_id::int64));
  const std::size_t schema_bytes = metadata.size();
  append_batch_message(metadata, sound, {}, body_bytes);
  detail::append_end_of_stream(metadata);
  const auto unpacked = [&](std::span<const std::byte> of) { return unpack(ctx(), of, body_); };
  const auto all = std::span(metadata);
  EXPECT_EQ(unpacked(all).rows(), 2);
  EXPECT_ERROR(unpacked(all.subspan(schema_bytes)), format, "does not begin with a schema");
  EXPECT_ERROR(unpacked(all.last(8)), format, "its metadata does not begin with a schema");
  for (const std::size_t bytes : {all.size() - 1, all.size() - 8, schema_bytes + 12, std::size_t{7}}) {
    EXPECT_ERROR(unpacked(all.first(bytes)), format, concat("its metadata of ", bytes, " bytes is truncated"),
                 "or is not an Arrow IPC stream");
  }
  const auto flat = all.subspan(schema_bytes + detail::prefix_bytes);
  const auto version = detail::flat_table::root(flat).place(detail::message_version);
  ASSERT_TRUE(version.has_value());
  flat[*version] = std::byte{3};
  EXPECT_ERROR(unpacked(all), unsupported, "packed table: batch 0: its metadata is not of version 5");
  metadata.push_back(std::byte{0});
  flat[*version] = std::byte{4};
  EXPECT_ERROR(unpacked(metadata), format,
               concat("its metadata of ", metadata.size(),
                      " bytes goes on after the end of the stream at byte ", metadata.size() - 1));
}

TEST_F(unpacking, needs_the_dictionaries_of_its_batches) {
  std::memset(reinterpret_cast<void*>(body_.address()), 0, body_bytes);
  const packed_rows rows = rows_with(0, {{0, 0}, {0, 8}});
  const auto with = [&](const std::vector<std::pair<packed_rows, batch_kind>>& batches, validation check) {
    return unpack_batches(schema_of(words), batches, check);
  };
  EXPECT_ERROR(
      with({{rows, {}}}, validation::structure), format,
      "packed table: batch 0: column 'x': no message before its batch has the dictionary of its 2 rows");
  EXPECT_ERROR(with({{rows, {}}}, validation::full), format, "packed table: batch 0: column 'x'", "index 0");
  const batch_kind values{.dictionary = 0};
  EXPECT_EQ(with({{sound, values}, {rows, {}}}, validation::full).pieces(0)[0].dictionary()->length(), 2);
  EXPECT_ERROR(with({{sound, values}, {sound, {.dictionary = 0, .is_delta = true}}}, validation::full),
               unsupported, "packed table: batch 0: dictionary 0 comes in parts");
  packed_rows none = rows_with(0, {{0, 0}, {0, 0}}, 0);
  none.nodes = {{0, 0}};
  EXPECT_EQ(with({{none, {}}}, validation::structure).pieces(0)[0].dictionary()->length(), 0);
}

} // namespace
} // namespace saeta::ipc
