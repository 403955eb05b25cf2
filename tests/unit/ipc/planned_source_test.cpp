// Sources whose messages are found before they are read: positions, names and dictionaries.

#include "ipc_test.hpp"
#include "planned_bytes.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace saeta::ipc::detail {
namespace {

planned_message message_of(std::uint64_t begin, std::size_t order) {
  planned_message made;
  made.begin = made.dictionaries = begin;
  made.order = order;
  return made;
}

TEST(messages_before, of_a_stream_are_those_before_the_batch) {
  const std::vector<planned_message> values{message_of(0, 1), message_of(0, 3), message_of(640, 6)};
  EXPECT_EQ(messages_before(values, message_of(0, 0)), 0U);
  EXPECT_EQ(messages_before(values, message_of(0, 2)), 1U);
  EXPECT_EQ(messages_before(values, message_of(0, 4)), 2U);
  EXPECT_EQ(messages_before(values, message_of(640, 5)), 0U) << "its own source has not given any";
  EXPECT_EQ(messages_before(values, message_of(640, 7)), 3U);
  EXPECT_EQ(messages_before({}, message_of(0, 4)), 0U);
}

TEST(messages_before, of_a_file_are_all_of_its_source) {
  const auto of_file = [](std::uint64_t begin, std::size_t order) {
    planned_message made = message_of(begin, order);
    made.of_file = true;
    return made;
  };
  const std::vector<planned_message> values{message_of(0, 1), message_of(0, 3), message_of(640, 6)};
  EXPECT_EQ(messages_before(values, of_file(0, 0)), 2U);
  EXPECT_EQ(messages_before(values, of_file(0, 9)), 2U);
  EXPECT_EQ(messages_before(values, of_file(640, 5)), 3U);
  EXPECT_EQ(messages_before(values, of_file(320, 5)), 0U);
}

class planning : public ipc_test {
protected:
  [[nodiscard]] std::string numbers(std::vector<std::int64_t> rows,
                                    container format = container::file) const {
    return write_bytes(
        support::random_table(ctx(), {data_type(type_id::int64)}, {.batch_rows = std::move(rows)}), {format});
  }
};

TEST_F(planning, several_sources_lie_one_behind_the_other) {
  const planned_bytes first(numbers({10, 20}));
  const planned_bytes second(numbers({30}, container::stream));
  const planned_bytes third(numbers({40}));
  const std::vector<read_request> requests{first.request(), second.request(), third.request()};
  const auto planned = planned_source::find(requests);
  ASSERT_NE(planned, nullptr);
  const auto aligned = [](std::uint64_t bytes) { return (bytes + 63) / 64 * 64; };
  const std::uint64_t begin_of_second = aligned(first.bytes().size());
  const std::uint64_t begin_of_third = aligned(begin_of_second + second.bytes().size());
  EXPECT_EQ(planned->bytes().bytes, begin_of_third + third.bytes().size());
  const auto read = [&](std::uint64_t position, std::size_t bytes) {
    std::string target(bytes, '?');
    planned->bytes().read(position, std::as_writable_bytes(std::span(target)));
    return target;
  };
  EXPECT_EQ(read(0, 20), first.bytes().substr(0, 20));
  EXPECT_EQ(read(begin_of_second + 5, 20), second.bytes().substr(5, 20));
  EXPECT_EQ(read(begin_of_third, third.bytes().size()), third.bytes());
  const std::string across = read(first.bytes().size() - 8, begin_of_third + 8 - first.bytes().size() + 8);
  EXPECT_EQ(across.substr(0, 8), first.bytes().substr(first.bytes().size() - 8));
  EXPECT_EQ(across.substr(begin_of_second - first.bytes().size() + 8, second.bytes().size()), second.bytes());
  EXPECT_EQ(across.substr(across.size() - 8), third.bytes().substr(0, 8));
  EXPECT_ERROR(read(begin_of_third + third.bytes().size() - 1, 2), io, "bytes: can't read 2 bytes");

  ASSERT_EQ(planned->batches().size(), 4U);
  const std::vector<std::uint64_t> begins{0, 0, begin_of_second, begin_of_third};
  std::uint64_t body_bytes = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const planned_message& batch = planned->batches()[i];
    EXPECT_EQ(batch.begin, begins[i]);
    EXPECT_GT(batch.metadata, batch.begin);
    EXPECT_EQ(batch.body, batch.metadata + batch.metadata_bytes);
    EXPECT_EQ(batch.order, i < 2 ? i : i + 1) << "the schema of the stream counts";
    EXPECT_EQ(batch.of_file, i != 2);
    EXPECT_EQ(batch.number, i == 1 ? 1 : 0);
    body_bytes += batch.body_bytes;
  }
  EXPECT_EQ(planned->body_bytes(), body_bytes);
  EXPECT_EQ(planned->everything().spans.size(), 4U);
  EXPECT_FALSE(planned->fetches_ahead());
  const planned_message part = planned->message_of({1, 5, 7});
  EXPECT_EQ(part.first_row, 5);
  EXPECT_EQ(part.rows, 7);
  EXPECT_EQ(planned->label_of(part), "bytes: batch 1 from row 5 on");
  EXPECT_EQ(planned->label_of(planned->batches()[1]), "bytes: batch 1");
}

TEST_F(planning, streams_may_end_early_and_have_long_messages) {
  const std::string stream = numbers({10, 20}, container::stream);
  const planned_bytes whole(stream);
  read_request some = whole.request();
  some.batches = {1, 2};
  EXPECT_EQ(planned_source::find(std::span(&some, 1))->batches().size(), 1U);
  some.batches = {0, 3};
  EXPECT_ERROR(planned_source::find(std::span(&some, 1)), out_of_range,
               "bytes: batches [0, 3) of a stream that has 2 batches");
  const planned_bytes without_mark(stream.substr(0, stream.size() - 8));
  const read_request open_end = without_mark.request();
  EXPECT_EQ(planned_source::find(std::span(&open_end, 1))->batches().size(), 2U);
  const planned_bytes wide(write_bytes(
      support::random_table(ctx(), std::vector(300, data_type(type_id::int8)), {.batch_rows = {3, 4}}),
      {container::stream}));
  const read_request long_messages = wide.request();
  const auto planned = planned_source::find(std::span(&long_messages, 1));
  ASSERT_EQ(planned->batches().size(), 2U);
  EXPECT_GT(planned->batches()[0].metadata_bytes, 4096U);
  EXPECT_EQ(planned->batches()[1].metadata, planned->batches()[0].body + planned->batches()[0].body_bytes);
}

} // namespace
} // namespace saeta::ipc::detail
