// Whole reads whose pread calls fail or return fewer bytes, and files with broken frames. Errors name file,
// batch and column; no memory leaks.

#include "ipc_test.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/ipc/data_set.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "support/ring_options.hpp"
#include "unit/staging/pread_trap.hpp"

#include <cerrno>
#include <cstring>

namespace saeta::ipc {
namespace {

using support::pread_trap;
using support::same_contents;

class read_faults : public ipc_test {
protected:
  /// Returns a context of the host and one of a simulated device, with one reading thread, so that the order
  /// of reads is deterministic.
  static std::vector<std::shared_ptr<context>> homes() {
    const context_options options = support::ring_options(1, 4096);
    return {context::create(make_host_backend(), options),
            context::create(sim::device::create({.seed = 5}), options)};
  }
  [[nodiscard]] table original() const {
    return support::random_table(ctx(),
                                 {data_type(type_id::int64), data_type(type_id::string),
                                  data_type::nested("+l", {{"item", data_type(type_id::int16), true, {}}})},
                                 {.batch_rows = {600, 400}});
  }
  [[nodiscard]] table read_joined(const std::shared_ptr<context>& into) const {
    return reader::open(file("x"), {.copy = copy_policy::always, .combine_chunks = false})->read_all(into);
  }
  static void expect_nothing_left(const std::shared_ptr<context>& of) {
    EXPECT_TRUE(of->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(of->reports().statistics().ledger.buffers, 0U);
    EXPECT_EQ(of->reports().statistics().budget.current, 0U);
  }
  static constexpr std::array bodies{compression::none, compression::lz4, compression::zstd};
};

TEST_F(read_faults, any_failing_read_ends_the_whole_read) {
  const table source = original();
  for (const auto body : bodies) {
    write(source, file("x"), {.body = body});
    for (const auto& into : homes()) {
      std::size_t failures = 0;
      for (bool failed = true; failed; ++failures) {
        const pread_trap trap(
            [&](std::size_t number) { return pread_trap::verdict{number == failures ? EIO : 0}; });
        try {
          static_cast<void>(read_joined(into));
        } catch (const error& failure) {
          EXPECT_EQ(name_of(failure.code()), name_of(errc::io)) << failure.message();
          EXPECT_THAT(failure.message(), ::testing::HasSubstr("can't read"));
        }
        failed = trap.calls() > failures;
        expect_nothing_left(into);
      }
      EXPECT_GT(failures, 8U);
    }
  }
}

TEST_F(read_faults, short_and_interrupted_reads_are_continued) {
  const table source = original();
  for (const auto body : bodies) {
    write(source, file("x"), {.body = body});
    for (const auto& into : homes()) {
      const pread_trap trap([](std::size_t number) {
        return number % 3 == 0 ? pread_trap::verdict{EINTR} : pread_trap::verdict{0, 1 + number % 1000};
      });
      EXPECT_TRUE(same_contents(read_joined(into), source));
    }
  }
}

TEST_F(read_faults, a_file_truncated_while_it_is_read_is_an_error) {
  const table source = original();
  for (const auto body : bodies) {
    write(source, file("x"), {.body = body});
    for (const auto& into : homes()) {
      std::size_t ends = 0;
      for (bool reached = true; reached; ++ends) {
        const pread_trap trap([&](std::size_t number) {
          return number == ends ? pread_trap::verdict{0, 0} : pread_trap::verdict{};
        });
        try {
          static_cast<void>(read_joined(into));
        } catch (const error& failure) {
          EXPECT_EQ(name_of(failure.code()), name_of(errc::io)) << failure.message();
          EXPECT_THAT(failure.message(), ::testing::HasSubstr("the file was truncated"));
        }
        reached = trap.calls() > ends;
        expect_nothing_left(into);
      }
    }
  }
}

/// Each frame in turn is overwritten with invalid bytes.
TEST_F(read_faults, errors_of_broken_frames_name_batch_and_column) {
  constexpr std::size_t front = 16; // bytes of the frame's header and the beginning of its first block
  const table source = original();
  for (const auto body : {compression::lz4, compression::zstd}) {
    const std::uint32_t magic = body == compression::lz4 ? 0x184D2204 : 0xFD2FB528;
    const std::string begin(reinterpret_cast<const char*>(&magic), sizeof magic);
    const std::string bytes = write_bytes(source, {.body = body});
    std::size_t refused = 0;
    for (auto at = bytes.find(begin); at != std::string::npos; at = bytes.find(begin, at + 1)) {
      std::string broken = bytes;
      std::memset(broken.data() + at + front, 0xFF, 24);
      for (const auto& into : homes()) {
        try {
          const auto reading =
              reader::open(std::as_bytes(std::span(broken)), nullptr, {.copy = copy_policy::always});
          static_cast<void>(reading->read_all(into));
        } catch (const error& failure) {
          ++refused;
          EXPECT_EQ(name_of(failure.code()), name_of(errc::format)) << failure.message();
          EXPECT_THAT(failure.message(), ::testing::MatchesRegex("bytes: batch [01]: column '[012]:.*"));
        }
        expect_nothing_left(into);
      }
    }
    EXPECT_GE(refused, 8U); // not the bitmaps: any bits are valid there
  }
}

TEST_F(read_faults, a_buffer_whose_end_overflows_is_refused) {
  const table source = support::random_table(ctx(), {data_type(type_id::int64)}, {.batch_rows = {12'345}});
  const std::string good = write_bytes(source);
  const std::array<std::int64_t, 1> length{12'345 * 8};
  // The metadata entry of the values buffer: its offset in the body and its length.
  const auto at = good.find(std::string_view(reinterpret_cast<const char*>(length.data()), sizeof length));
  ASSERT_NE(at, std::string::npos);
  for (const std::array<std::int64_t, 2> place : {std::array<std::int64_t, 2>{8, INT64_MAX},
                                                  {INT64_MAX, 12'345 * 8},
                                                  {-8, 12'345 * 8},
                                                  {INT64_MIN, 0},
                                                  {16, INT64_MAX - 15}}) {
    std::string bad = good;
    std::memcpy(bad.data() + at - sizeof(std::int64_t), place.data(), sizeof place);
    for (const auto& into : homes()) {
      EXPECT_ERROR(
          reader::open(std::as_bytes(std::span(bad)), nullptr, {.copy = copy_policy::always})->read_all(into),
          format, "batch 0: column '0:int64': ", "buffer 1 has ");
      expect_nothing_left(into);
    }
  }
}

TEST_F(read_faults, a_batch_that_became_shorter_than_the_rows_read_of_it_is_an_error) {
  std::string bytes =
      write_bytes(support::random_table(ctx(), {data_type(type_id::int64)}, {.batch_rows = {10}}));
  std::vector<std::unique_ptr<reader>> readers;
  readers.push_back(reader::open(std::as_bytes(std::span(bytes)), nullptr, {.copy = copy_policy::always}));
  data_set source(std::move(readers));
  EXPECT_EQ(source.sizes().front().rows, 10);
  std::int32_t size = 0;
  std::memcpy(&size, bytes.data() + bytes.size() - 10, sizeof size);
  const auto footer = static_cast<std::size_t>(size);
  const auto all = std::as_bytes(std::span(bytes));
  const auto blocks = detail::read_footer(all.subspan(bytes.size() - 10 - footer, footer));
  const std::size_t flat = static_cast<std::size_t>(blocks.batches.front().offset) + detail::prefix_bytes;
  const auto batch = detail::flat_table::root(all.subspan(flat)).table(detail::message_table);
  bytes[flat + batch->place(detail::batch_length).value()] = 3;
  const std::vector<std::vector<batch_span>> windows{{{.batch = 0, .first_row = 5}}};
  const auto rows = source.scan_spans(ctx(), windows, 1);
  EXPECT_ERROR(rows->next(), format, "bytes: batch 0 from row 5 on",
               "a record batch of 3 rows, which had 5 before");
}

} // namespace
} // namespace saeta::ipc
