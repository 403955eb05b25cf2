// Streams that are read while they are being sent: which bytes are requested, and when.
#include "ipc_test.hpp"
#include "saeta/ipc/io/source.hpp"
#include "support/foreign_streams.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace saeta::ipc {
namespace {

using support::same_contents;
using ::testing::HasSubstr;

const std::string end_mark("\xff\xff\xff\xff\0\0\0\0", 8);

/// The sending end of a connection.
class sender {
public:
  explicit sender(std::string bytes, std::size_t at_once = 1000)
      : bytes_(std::move(bytes)), sent_(bytes_.size()), at_once_(at_once) {}

  /// Makes `bytes` bytes available. A request for more fails the test.
  void send_up_to(std::size_t bytes) { sent_ = bytes; }
  /// Lets the call after `calls` more calls be interrupted once.
  void interrupt_after(std::size_t calls) { calls_left_ = calls; }
  [[nodiscard]] std::size_t taken() const { return taken_; }

  [[nodiscard]] std::function<std::size_t(std::span<std::byte>)> calls() {
    return [this](std::span<std::byte> target) {
      EXPECT_FALSE(target.empty());
      if (calls_left_-- == 0) {
        throw std::runtime_error("interrupted");
      }
      const std::size_t part = std::min({target.size(), at_once_, bytes_.size() - taken_});
      EXPECT_LE(taken_ + target.size(), sent_) << "a real connection would block";
      std::memcpy(target.data(), bytes_.data() + taken_, part);
      taken_ += part;
      return part;
    };
  }
  [[nodiscard]] std::unique_ptr<reader> open(read_options options = {}) {
    return reader::open("wire", calls(), std::move(options));
  }

private:
  std::string bytes_;
  std::size_t sent_;
  std::size_t at_once_;
  std::size_t taken_ = 0;
  std::size_t calls_left_ = std::numeric_limits<std::size_t>::max();
};

class live_stream : public ipc_test {
protected:
  [[nodiscard]] std::string stream_of(const table& rows, compression body = compression::none) const {
    return write_bytes(rows, {container::stream, body});
  }
  /// Returns the offset of the end of each batch in the stream of a table.
  [[nodiscard]] std::vector<std::size_t> ends_of(const table& rows) const {
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i <= rows.batches().size(); ++i) {
      const auto first = rows.batches().begin();
      const auto some = table::make(ctx(), rows.fields(), {first, first + static_cast<std::ptrdiff_t>(i)});
      ends.push_back(stream_of(some).size() - end_mark.size());
    }
    return ends;
  }
  [[nodiscard]] table plain() const {
    return support::random_table(
        ctx(), {data_type(type_id::int32), data_type(type_id::string), data_type(type_id::boolean)},
        {.batch_rows = {5, 0, 300, 2}});
  }
};

TEST_F(live_stream, returns_each_batch_as_soon_as_its_last_byte_has_arrived) {
  const table original = plain();
  const auto ends = ends_of(original);
  sender wire(stream_of(original) + "the next message of somebody");
  wire.send_up_to(ends[0]);
  const auto reading = wire.open();
  EXPECT_TRUE(reading->live());
  EXPECT_EQ(reading->batch_count(), -1);
  EXPECT_EQ(wire.taken(), ends[0]) << "the schema alone";
  for (std::size_t i = 1; i < ends.size(); ++i) {
    wire.send_up_to(ends[i]);
    const auto rows = reading->next(ctx());
    ASSERT_TRUE(rows);
    EXPECT_TRUE(same_contents(table::make(ctx(), original.fields(), {*rows}),
                              table::make(ctx(), original.fields(), {original.batches()[i - 1]})));
    EXPECT_EQ(wire.taken(), ends[i]);
  }
  wire.send_up_to(ends.back() + end_mark.size());
  EXPECT_FALSE(reading->next(ctx()));
  EXPECT_FALSE(reading->next(ctx())) << "and asks for nothing behind the end";
  EXPECT_EQ(wire.taken(), ends.back() + end_mark.size());
}

TEST_F(live_stream, ends_at_an_end_marker_of_either_version_or_a_closed_connection) {
  const std::string old = support::from_hex(support::legacy_stream_hex);
  const std::string mark(4, '\0');
  ASSERT_TRUE(old.ends_with(mark));
  sender marked(old + "more");
  marked.send_up_to(old.size());
  EXPECT_TRUE(same_contents(marked.open()->read_all(ctx()), read_bytes(old)));
  EXPECT_EQ(marked.taken(), old.size());
  sender without(old.substr(0, old.size() - mark.size()));
  without.send_up_to(std::numeric_limits<std::size_t>::max());
  EXPECT_TRUE(same_contents(without.open()->read_all(ctx()), read_bytes(old)));
}

TEST_F(live_stream, is_read_in_pieces_of_any_size) {
  const table original = every_type();
  for (const auto body : {compression::none, compression::lz4, compression::zstd}) {
    const std::string bytes = stream_of(original, body);
    for (const std::size_t at_once : {std::size_t{7}, std::size_t{4096}, bytes.size()}) {
      for (const auto copy : {copy_policy::when_needed, copy_policy::always}) {
        sender wire(bytes, at_once);
        EXPECT_TRUE(same_contents(wire.open({.copy = copy})->read_all(ctx()), original)) << at_once;
        EXPECT_EQ(wire.taken(), bytes.size());
      }
    }
  }
}

TEST_F(live_stream, cut_anywhere_is_an_error_with_the_offset) {
  const table original = plain();
  const std::string bytes = stream_of(original);
  auto ends = ends_of(original);
  for (std::size_t cut = 1; cut + end_mark.size() < bytes.size(); ++cut) {
    sender wire(bytes.substr(0, cut));
    wire.send_up_to(std::numeric_limits<std::size_t>::max());
    const auto whole = std::ranges::find(ends, cut);
    if (whole != ends.end()) {
      EXPECT_EQ(wire.open()->read_all(ctx()).batches().size(),
                static_cast<std::size_t>(whole - ends.begin()));
      continue;
    }
    const auto begin = std::ranges::lower_bound(ends, cut);
    const std::string offset = concat("the message at offset ", begin == ends.begin() ? 0 : *(begin - 1));
    const error cut_off = error_of([&] { static_cast<void>(wire.open()->read_all(ctx())); });
    EXPECT_EQ(cut_off.code(), errc::format) << cut << cut_off.message();
    EXPECT_THAT(cut_off.message(), cut < 4 ? HasSubstr("wire") : HasSubstr(offset)) << cut;
  }
}

TEST_F(live_stream, a_wrong_length_allocates_no_memory) {
  sender wire(std::string(std::size_t{3} << 20, 'x'));
  wire.send_up_to(std::numeric_limits<std::size_t>::max());
  const auto source = detail::live_source_of("wire", wire.calls());
  EXPECT_EQ(source->available(0, std::uint64_t{1} << 62), std::uint64_t{3} << 20);
  EXPECT_EQ(source->size(), std::uint64_t{3} << 20);

  std::string bytes = stream_of(plain());
  const std::int32_t enormous = std::numeric_limits<std::int32_t>::max();
  const std::size_t second = ends_of(plain())[0] + sizeof enormous;
  std::memcpy(bytes.data() + second, &enormous, sizeof enormous);
  sender lying(bytes);
  lying.send_up_to(std::numeric_limits<std::size_t>::max());
  EXPECT_ERROR(lying.open()->read_all(ctx()), format, "wire: batch 0", "2147483647 bytes of metadata");
}

TEST_F(live_stream, a_batch_refused_by_the_budget_can_be_read_again) {
  for (const auto body : {compression::none, compression::lz4}) {
    for (const auto copy : {copy_policy::when_needed, copy_policy::always}) {
      const table original = every_type();
      const std::string bytes = stream_of(original, body);
      sender wire(bytes);
      const auto reading = wire.open({.copy = copy});
      std::vector<batch> read;
      for (std::size_t i = 0; i < original.batches().size(); ++i) {
        ctx()->memory_budget()->set_limit(ctx()->reports().statistics().budget.current + 64);
        const error refused = error_of([&] {
          if (auto rows = reading->next(ctx())) {
            read.push_back(std::move(*rows)); // a batch without rows needs no memory
            throw error(errc::budget_exceeded, "it had room");
          }
        });
        EXPECT_EQ(refused.code(), errc::budget_exceeded) << refused.message();
        ctx()->memory_budget()->set_limit(budget::unlimited);
        if (read.size() == i) {
          auto rows = reading->next(ctx());
          ASSERT_TRUE(rows);
          read.push_back(std::move(*rows));
        }
      }
      EXPECT_FALSE(reading->next(ctx()));
      EXPECT_TRUE(same_contents(table::make(ctx(), reading->fields(), std::move(read)), original));
    }
  }
}

TEST_F(live_stream, continues_after_an_interrupt) {
  const table original = every_type();
  const std::string bytes = stream_of(original);
  for (std::size_t calls = 0; calls < 40; ++calls) {
    sender wire(bytes, 1 + bytes.size() / 20);
    std::unique_ptr<reader> reading;
    try {
      reading = wire.open();
    } catch (const std::exception&) {
      ADD_FAILURE();
    }
    wire.interrupt_after(calls);
    std::vector<batch> read;
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        while (auto rows = reading->next(ctx())) {
          read.push_back(std::move(*rows));
        }
        break;
      } catch (const std::runtime_error& interrupted) {
        EXPECT_STREQ(interrupted.what(), "interrupted");
      }
    }
    EXPECT_TRUE(same_contents(table::make(ctx(), reading->fields(), std::move(read)), original)) << calls;
  }
}

TEST_F(live_stream, reads_no_bytes_after_the_requested_batches) {
  const table original = plain();
  const auto ends = ends_of(original);
  sender wire(stream_of(original));
  wire.send_up_to(ends[3]);
  const table seen = wire.open({.batches = {{2, 3}}})->read_all(ctx());
  EXPECT_TRUE(same_contents(seen, table::make(ctx(), original.fields(), {original.batches()[2]})));
  EXPECT_EQ(wire.taken(), ends[3]);
  sender short_one(stream_of(original));
  EXPECT_ERROR(short_one.open({.batches = {{3, 9}}})->read_all(ctx()), out_of_range, "[3, 9)", "has 4");
}

TEST_F(live_stream, drops_skipped_bytes) {
  const table original = plain();
  const std::string bytes = stream_of(original);
  sender wire(bytes);
  const auto source = detail::live_source_of("wire", wire.calls());
  EXPECT_EQ(source->available(0, 4), 4U);
  EXPECT_EQ(source->available(4, bytes.size() - 8, false), bytes.size() - 8);
  EXPECT_EQ(source->available(bytes.size() - 4, 4), 4U);
  std::array<std::byte, 4> last{};
  source->read_at(bytes.size() - 4, last);
  EXPECT_EQ(std::memcmp(last.data(), bytes.data() + bytes.size() - 4, 4), 0);
  EXPECT_ERROR(source->read_at(4, last), io,
               "4 bytes at offset 4 were not requested, or were already dropped");
  source->forget_before(bytes.size() - 4);
  EXPECT_ERROR(source->read_at(0, last), io,
               "4 bytes at offset 0 were not requested, or were already dropped");
  source->read_at(bytes.size() - 4, last);
}

TEST_F(live_stream, can_be_inspected_like_a_file) {
  const table original = every_type();
  const std::string bytes = stream_of(original);
  store(file("stored"), bytes);
  const file_summary stored = inspect(file("stored"));
  sender wire(bytes + "more");
  wire.send_up_to(bytes.size());
  const file_summary seen = inspect("wire", wire.calls());
  EXPECT_EQ(seen.format, container::stream);
  EXPECT_EQ(seen.bytes, bytes.size());
  EXPECT_EQ(seen.batch_rows, stored.batch_rows);
  EXPECT_EQ(seen.columns.size(), stored.columns.size());
  for (std::size_t i = 0; i < seen.columns.size(); ++i) {
    EXPECT_EQ(seen.columns[i].nulls, stored.columns[i].nulls);
    EXPECT_EQ(seen.columns[i].dictionary_values, stored.columns[i].dictionary_values);
  }
  EXPECT_EQ(inspect(std::as_bytes(std::span(bytes))).batch_rows, stored.batch_rows);
}

TEST_F(live_stream, of_another_format_is_refused_after_four_bytes) {
  for (const auto& [text, name] : std::vector<std::pair<std::string, std::string>>{
           {write_bytes(plain()), "an Arrow file has its footer at the end"},
           {"PAR1....", "Parquet"},
           {"id,name\n", "text, such as CSV"},
           {"\x1f\x8b\x08\x04", "gzip"},
           {std::string("\x28\xb5\x2f\xfd", 4), "Zstandard"}}) {
    sender wire(text);
    wire.send_up_to(4);
    EXPECT_ERROR(wire.open(), format, "wire: ", name);
    EXPECT_EQ(wire.taken(), 4U);
  }
  sender nothing("");
  nothing.send_up_to(4);
  EXPECT_ERROR(nothing.open(), format, "it is empty");
}

TEST(live_source, has_the_bytes_that_were_requested_until_they_are_forgotten) {
  std::string bytes(3 << 20, ' ');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i % 251);
  }
  std::size_t taken = 0;
  std::size_t calls_at_end = 0;
  std::vector<std::size_t> asked;
  const detail::source from = detail::live_source_of("wire", [&](std::span<std::byte> target) {
    asked.push_back(target.size());
    const std::size_t some = std::min(target.size(), bytes.size() - taken);
    std::memcpy(target.data(), bytes.data() + taken, some);
    taken += some;
    calls_at_end += some == 0 ? 1U : 0U;
    return some;
  });
  const auto expect_bytes = [&](std::uint64_t offset, std::size_t size) {
    std::string seen(size, '?');
    from->read_at(offset, std::as_writable_bytes(std::span(seen)));
    EXPECT_TRUE(seen == bytes.substr(offset, size)) << offset;
  };
  const auto expect_none = [&](std::uint64_t offset, std::size_t size) {
    std::string seen(size, '?');
    EXPECT_ERROR(
        from->read_at(offset, std::as_writable_bytes(std::span(seen))), io,
        concat("wire: ", size, " bytes at offset ", offset, " were not requested, or were already dropped"));
  };
  EXPECT_EQ(from->available(0, 8), 8U);
  EXPECT_EQ(taken, 8U) << "and no more";
  EXPECT_EQ(from->available(0, 20), 20U) << "the same part grows";
  EXPECT_EQ(from->available(20, 10), 10U);
  EXPECT_EQ(from->available(22, 5), 5U) << "they came already";
  EXPECT_EQ(taken, 30U);
  expect_bytes(0, 20);
  expect_bytes(3, 17);
  expect_bytes(20, 10);
  expect_none(15, 10);
  expect_none(29, 2);
  expect_none(30, 1);
  from->read_at(1 << 30, {});
  from->forget_before(20);
  expect_none(0, 20);
  expect_bytes(20, 10);
  EXPECT_EQ(from->available(30, 100'000, false), 100'000U);
  EXPECT_EQ(from->size(), 100'030U);
  expect_none(30, 1);
  asked.clear();
  EXPECT_EQ(from->available(100'030, 2'500'000), 2'500'000U);
  EXPECT_THAT(asked, ::testing::ElementsAre(1 << 20, 1 << 20, 2'500'000 - (2 << 20))) << "a MiB at a time";
  expect_bytes(100'030, 2'500'000);
  EXPECT_EQ(from->available(2'600'030, 10'000'000), bytes.size() - 2'600'030);
  EXPECT_EQ(calls_at_end, 1U);
  EXPECT_EQ(from->available(bytes.size(), 10, false), 0U);
  EXPECT_EQ(from->available(bytes.size(), 10), 0U);
  EXPECT_EQ(calls_at_end, 1U) << "the end is final";
}

} // namespace
} // namespace saeta::ipc
