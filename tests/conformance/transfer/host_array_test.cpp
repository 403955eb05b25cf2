// Uploads and downloads of host arrays: which bytes are transferred, and with how many transfers.
#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/device/join.hpp"
#include "saeta/transfer/column_window.hpp"
#include "saeta/transfer/download.hpp"
#include "saeta/transfer/upload.hpp"
#include "support/ring_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

namespace saeta::conformance {
namespace {

template <class T>
std::span<const std::byte> bytes_in(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
std::vector<T> values_in(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// Strings of three characters, "000", "001", ..., in memory of the test.
template <class Offset>
struct texts {
  explicit texts(std::size_t count) : offsets(count + 1) {
    for (std::size_t i = 0; i <= count; ++i) {
      offsets[i] = static_cast<Offset>(3 * i);
    }
    for (std::size_t i = 0; i < count; ++i) {
      letters += std::to_string(1000 + i).substr(1);
    }
  }
  [[nodiscard]] host_array rows(std::int64_t offset, std::int64_t length) const {
    host_array made;
    made.type = data_type(sizeof(Offset) == 4 ? type_id::string : type_id::large_string);
    made.length = length;
    made.offset = offset;
    made.null_count = 0;
    made.buffers = {{}, bytes_in(offsets), std::as_bytes(std::span(letters))};
    return made;
  }
  std::vector<Offset> offsets;
  std::string letters;
};

class host_arrays : public context_test {
protected:
  [[nodiscard]] batch send(const std::vector<host_array>& arrays) {
    return upload(ctx(), {arrays.front().length, arrays, nullptr}, dictionaries_, {"sent", {}, {}});
  }
  [[nodiscard]] traffic inward() const {
    const counter_values now = ctx()->copies().read_counters();
    return ctx()->on_host() ? now.host_to_host : now.host_to_device;
  }
  template <class Offset>
  void expect_text(const host_array& row, std::int64_t at, const std::string& expected) const {
    const auto offsets = values_in<Offset>(row.buffers[1]);
    const auto first = static_cast<std::size_t>(offsets[static_cast<std::size_t>(row.offset + at)]);
    const auto last = static_cast<std::size_t>(offsets[static_cast<std::size_t>(row.offset + at + 1)]);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(row.buffers[2].data()) + first, last - first),
              expected);
  }
  template <class Offset>
  void move_the_middle() {
    const texts<Offset> source(1000);
    ctx()->copies().reset_counters();
    const batch sent = send({source.rows(500, 100)});
    // 101 offsets and the data of 100 rows, each aligned to 64 bytes.
    const std::size_t offset_bytes = 101 * sizeof(Offset);
    EXPECT_EQ(inward(), (traffic{1, 1, (offset_bytes + 63) / 64 * 64 + (100 * 3 + 63) / 64 * 64}));
    const column& strings = sent.columns[0];
    EXPECT_EQ(strings.offset(), 0);
    EXPECT_EQ(strings.offsets().size(), offset_bytes);
    EXPECT_EQ(strings.bytes().size(), 100U * 3U);
    ctx()->copies().reset_counters();
    const host_batch whole = download(ctx(), sent);
    EXPECT_EQ(whole.rows, 100);
    const host_array& back = whole.arrays[0];
    EXPECT_EQ(back.length, 100);
    EXPECT_EQ(back.null_count, 0);
    EXPECT_EQ(values_in<Offset>(back.buffers[1]).front(), 0);
    expect_text<Offset>(back, 0, "500");
    expect_text<Offset>(back, 99, "599");
    EXPECT_EQ(ctx()->copies().read_counters().scalars, traffic{}) << "all bytes are needed";
    EXPECT_EQ(ctx()->copies().read_counters().host_to_host, traffic{}) << "on the host it is a view";
    ctx()->copies().reset_counters();
    const host_batch part = download(ctx(), {10, {strings.slice(60, 10)}});
    const counter_values now = ctx()->copies().read_counters();
    expect_text<Offset>(part.arrays[0], 0, "560");
    expect_text<Offset>(part.arrays[0], 9, "569");
    if (!ctx()->on_host()) {
      EXPECT_EQ(now.scalars, (traffic{2, 2, 2 * sizeof(value_request) + 2 * sizeof(std::int64_t)}))
          << "first and last offsets: the positions, and the values read";
      EXPECT_EQ(part.arrays[0].offset, 0);
      EXPECT_EQ(part.arrays[0].buffers[1].size(), 11 * sizeof(Offset));
      EXPECT_EQ(part.arrays[0].buffers[2].size(), 30U);
      EXPECT_EQ(values_in<Offset>(part.arrays[0].buffers[1]).front(), 0);
      EXPECT_EQ(now.device_to_host.transfers, 1U);
      const std::uintptr_t first_offset = strings.offsets().address() + 60 * sizeof(Offset);
      const std::uintptr_t first_letter = strings.bytes().address() + 60 * 3;
      EXPECT_EQ(now.device_to_host.bytes, std::max(first_offset + 11 * sizeof(Offset), first_letter + 30) -
                                              std::min(first_offset, first_letter))
          << "with the gap between them";
    }
  }

  dictionary_cache dictionaries_;
};

TEST_P(host_arrays, of_strings_transfer_only_their_rows_and_begin_at_offset_0) {
  move_the_middle<std::int32_t>();
  move_the_middle<std::int64_t>();
}

TEST_P(host_arrays, are_downloaded_into_pooled_memory_charged_to_the_host) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host views columns without a copy";
  }
  const texts<std::int32_t> source(100'000);
  const batch sent = send({source.rows(0, 100'000)});
  const auto charged = [&] { return ctx()->pinned_budget()->statistics().current; };
  const std::byte* address = nullptr;
  for (int round = 0; round < 3; ++round) {
    std::optional<host_batch> there = download(ctx(), sent); // allocates the chunks of the ring, which stay
    const std::byte* const now = there->arrays[0].buffers[1].data();
    EXPECT_TRUE(address == nullptr || now == address) << "fresh memory in round " << round;
    address = now;
    const std::uint64_t with_it = charged();
    there.reset();
    EXPECT_GE(with_it - charged(), 700'000U);
  }
}

TEST_P(host_arrays, are_in_the_ledger_while_they_live_even_after_their_context) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host views columns without a copy";
  }
  context_options options = support::ring_options(1, 4096);
  options.pinned_budget = budget::create("host");
  options.host_cache = 1 << 20;
  auto other = new_context(options);
  const texts<std::int32_t> source(1000);
  dictionary_cache known;
  std::optional<batch> sent = upload(other, {1000, {source.rows(0, 1000)}, nullptr}, known, {"sent", {}, {}});
  std::optional<host_batch> there = download(other, *sent);
  const auto downloaded = [&] {
    for (const auto& [name, bytes] : other->reports().live_by_tag()) {
      if (name == "download") {
        return bytes;
      }
    }
    return std::uint64_t{0};
  };
  EXPECT_GE(downloaded(), 7000U);
  EXPECT_GE(other->reports().statistics().host_held, downloaded());
  there.reset();
  EXPECT_EQ(downloaded(), 0U);
  EXPECT_GE(other->reports().statistics().host_held, 7000U) << "kept for the next";
  EXPECT_GE(other->trim(), 7000U);
  EXPECT_EQ(other->reports().statistics().host_held, 0U);

  options.pinned_budget->set_limit(options.pinned_budget->statistics().current + 100);
  try {
    static_cast<void>(download(other, *sent));
    ADD_FAILURE() << "there is no room";
  } catch (const error& e) {
    ASSERT_NE(e.refusal(), nullptr) << e.what();
    EXPECT_EQ(e.refusal()->layer, "host");
  }
  options.pinned_budget->set_limit(budget::unlimited);
  there = download(other, *sent);
  sent.reset();
  known = {};
  other.reset();
  expect_text<std::int32_t>(there->arrays[0], 999, "999");
  there.reset();
  EXPECT_EQ(options.pinned_budget->statistics().current, 0U);
}

TEST_P(host_arrays, wait_for_free_bytes_in_the_hosts_budget) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host views columns without a copy";
  }
  context_options options = support::ring_options(1, 4096);
  options.pinned_budget = budget::create("host");
  options.pressure.wait = std::chrono::seconds(60);
  const auto other = new_context(options);
  const texts<std::int32_t> source(1000);
  dictionary_cache known;
  const batch sent = upload(other, {1000, {source.rows(0, 1000)}, nullptr}, known, {"sent", {}, {}});
  std::optional<host_batch> first = download(other, sent);
  options.pinned_budget->set_limit(options.pinned_budget->statistics().current + 100);
  std::jthread leaving([&] {
    while (options.pinned_budget->waiting() == 0) {
      std::this_thread::yield();
    }
    first.reset();
  });
  const host_batch second = download(other, sent);
  expect_text<std::int32_t>(second.arrays[0], 5, "005");
}

TEST_P(host_arrays, of_strings_are_trimmed_only_if_that_saves_64_bytes_of_offsets) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host views columns without a copy";
  }
  const texts<std::int32_t> source(100);
  const column all = send({source.rows(0, 100)}).columns[0];
  ASSERT_EQ(all.offsets().size(), 404U);
  for (const auto& [rows, reads] :
       {std::pair(85, 0U), std::pair(84, 2U)}) { // 60 and 64 fewer bytes of offsets
    ctx()->copies().reset_counters();
    const host_batch part = download(ctx(), {rows, {all.slice(0, rows)}});
    EXPECT_EQ(ctx()->copies().read_counters().scalars.calls, reads) << rows;
    EXPECT_EQ(part.arrays[0].buffers[2].size(), static_cast<std::size_t>(reads == 0 ? 300 : rows * 3));
    expect_text<std::int32_t>(part.arrays[0], rows - 1, std::to_string(1000 + rows - 1).substr(1));
  }
}

TEST_P(host_arrays, of_several_batches_take_one_transfer_into_one_allocation) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host views columns without a copy";
  }
  const texts<std::int32_t> source(1000);
  const column all = send({source.rows(0, 1000)}).columns[0];
  std::vector<batch> parts;
  for (std::int64_t first = 0; first < 1000; first += 100) { // slices, so that offsets must be read
    parts.push_back({100, {all.slice(first, 100), all.slice(first, 50)}});
  }
  parts.push_back({0, {all.slice(7, 0), all.slice(7, 0)}});
  ctx()->copies().reset_counters();
  const std::vector<host_batch> there = download(ctx(), parts);
  const counter_values now = ctx()->copies().read_counters();
  EXPECT_EQ(now.device_to_host.transfers, 1U);
  EXPECT_EQ(now.scalars.transfers, 2U)
      << "one upload of positions and one download, for any number of slices";
  ASSERT_EQ(there.size(), 11U);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(there[i].keepalive, there[0].keepalive);
    expect_text<std::int32_t>(there[i].arrays[0], 99, std::to_string(1000 + 100 * i + 99).substr(1));
    expect_text<std::int32_t>(there[i].arrays[1], 0, std::to_string(1000 + 100 * i).substr(1));
  }
  EXPECT_EQ(there[10].rows, 0);
  EXPECT_TRUE(download(ctx(), std::span<const batch>()).empty());
}

TEST_P(host_arrays, of_a_slice_of_strings_transfer_only_their_bytes) {
  const texts<std::int64_t> source(9000);
  const column all = send({source.rows(0, 9000)}).columns[0];
  ctx()->copies().reset_counters();
  const host_batch part = download(ctx(), {10, {all.slice(4000, 10)}});
  expect_text<std::int64_t>(part.arrays[0], 9, "009");
  EXPECT_LT(ctx()->copies().read_counters().device_to_host.bytes, 8192U)
      << "with a gap of at most 4096 bytes";
}

TEST_P(host_arrays, of_a_slice_of_strings_have_their_data_right_after_the_offsets) {
  const texts<std::int32_t> narrow(1000);
  const texts<std::int64_t> wide(1000);
  const column all = send({narrow.rows(0, 1000)}).columns[0];
  const column all_wide = send({wide.rows(0, 1000)}).columns[0];
  for (int rows = 2; rows <= 32; ++rows) { // some have offsets that fill 64 bytes exactly
    const host_batch part = download(ctx(), {rows, {all.slice(500, rows), all_wide.slice(500, rows)}});
    for (const int row : {0, 1, rows - 1}) {
      expect_text<std::int32_t>(part.arrays[0], row, std::to_string(500 + row));
      expect_text<std::int64_t>(part.arrays[1], row, std::to_string(500 + row));
    }
  }
}

TEST_P(host_arrays, are_grouped_into_windows_of_bytes) {
  const texts<std::int32_t> source(100);
  const column each = send({source.rows(0, 100)}).columns[0];
  const std::vector<batch> batches(5, batch{100, {each}});
  const std::uint64_t bytes = each.byte_size();
  EXPECT_EQ(end_of_window(batches, 0, bytes), 1U);
  EXPECT_EQ(end_of_window(batches, 0, 1), 1U) << "at least one";
  EXPECT_EQ(end_of_window(batches, 1, 2 * bytes), 3U);
  EXPECT_EQ(end_of_window(batches, 1, 3 * bytes - 1), 3U);
  EXPECT_EQ(end_of_window(batches, 0, 100 * bytes), 5U);
  EXPECT_EQ(end_of_window(batches, 4, 1), 5U);
  EXPECT_EQ(end_of_window(batches, 5, 1), 5U);
}

TEST_P(host_arrays, of_views_transfer_only_the_bytes_that_rows_refer_to) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host views columns without a copy";
  }
  // Strings of 20 bytes alternate between two buffers. Every tenth is inline, and a null row has an arbitrary
  // view.
  constexpr std::size_t rows = 8000;
  const auto text_of = [](std::size_t row) {
    const std::string number = std::to_string(100'000 + row);
    return row % 10 == 0 ? number : number + "--" + number + number;
  };
  std::vector<byte_view> views(rows);
  std::array<std::string, 2> letters;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::string text = text_of(i);
    std::memcpy(&views[i].prefix, text.data(), std::min<std::size_t>(text.size(), 12));
    views[i].length = static_cast<std::int32_t>(text.size());
    if (text.size() > 12) {
      views[i].buffer = static_cast<std::int32_t>(i % 2);
      views[i].offset = static_cast<std::int32_t>(letters[i % 2].size());
      letters[i % 2] += text;
    }
  }
  std::vector<std::uint8_t> valid(rows / 8, 0xFF);
  valid[4005 / 8] &= static_cast<std::uint8_t>(~(1U << (4005 % 8)));
  views[4005] = {77, 0, 1 << 30, -5};
  host_array made;
  made.type = data_type(type_id::string_view);
  made.length = rows;
  made.null_count = 1;
  made.buffers = {bytes_in(valid), bytes_in(views), std::as_bytes(std::span(letters[0])),
                  std::as_bytes(std::span(letters[1]))};
  const column all = send({made}).columns[0];
  for (const auto& [first, count] :
       {std::pair(4000, 20), std::pair(0, 1), std::pair(7990, 10), std::pair(1, 7999)}) {
    SCOPED_TRACE(::testing::Message() << first << " + " << count);
    const host_batch part = download(ctx(), {count, {all.slice(first, count)}});
    const host_batch twice = download(ctx(), {count, {all.slice(first, count), all.slice(first, count)}});
    EXPECT_EQ(values_in<std::uint8_t>(twice.arrays[1].buffers[1]),
              values_in<std::uint8_t>(part.arrays[0].buffers[1]));
    const host_array& seen = part.arrays[0];
    const auto shown = values_in<byte_view>(seen.buffers[1]);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto row = static_cast<std::size_t>(first + i);
      const byte_view& view = shown[static_cast<std::size_t>(seen.offset + i)];
      if (row == 4005) {
        EXPECT_EQ(view.offset, -5) << "values under a null are unchanged";
        continue;
      }
      const auto* const bytes = view.length <= byte_view::inlined
                                    ? reinterpret_cast<const char*>(&view.prefix)
                                    : reinterpret_cast<const char*>(
                                          seen.buffers[2 + static_cast<std::size_t>(view.buffer)].data()) +
                                          view.offset;
      ASSERT_EQ(std::string(bytes, static_cast<std::size_t>(view.length)), text_of(row));
    }
    ctx()->copies().reset_counters();
    static_cast<void>(download(ctx(), {count, {all.slice(first, count)}}));
    const traffic moved = ctx()->copies().read_counters().device_to_host;
    if (count < 4000) {
      EXPECT_EQ(moved.transfers, 2U) << "the views, then what they name";
      EXPECT_LT(moved.bytes, 16'000U);
      EXPECT_LE(seen.buffers[2].size() + seen.buffers[3].size(), static_cast<std::size_t>(count + 8) * 20);
    } else {
      EXPECT_EQ(moved.transfers, 1U);
      EXPECT_EQ(seen.buffers[2].size(), letters[0].size());
    }
  }
}

TEST_P(host_arrays, of_overlapping_rows_are_complete) {
  const auto expect_rows = [&](const host_batch& seen) {
    for (std::int64_t i = 0; i < 100; ++i) {
      expect_text<std::int32_t>(seen.arrays[0], i, std::to_string(1500 + i).substr(1));
      expect_text<std::int32_t>(seen.arrays[1], i, std::to_string(1516 + i).substr(1));
      expect_text<std::int32_t>(seen.arrays[2], i, std::to_string(1500 + i).substr(1));
    }
  };
  const texts<std::int32_t> source(1000);
  const column all = send({source.rows(0, 1000)}).columns[0];
  expect_rows(download(ctx(), {100, {all.slice(500, 100), all.slice(516, 100), all.slice(500, 100)}}));
  const batch sent = send({source.rows(500, 100), source.rows(516, 100), source.rows(500, 100)});
  ctx()->synchronize(ctx()->work_stream());
  expect_rows(download(ctx(), sent));
}

TEST_P(host_arrays, without_rows_transfer_nothing) {
  const texts<std::int32_t> source(10);
  ctx()->copies().reset_counters();
  const batch sent = send({source.rows(5, 0)});
  EXPECT_EQ(inward(), traffic{});
  EXPECT_EQ(ctx()->copies().read_counters().allocations, 0U);
  const host_batch back = download(ctx(), sent);
  EXPECT_EQ(back.arrays[0].length, 0);
  EXPECT_EQ(ctx()->copies().read_counters().device_to_host.bytes, 0U);
  EXPECT_EQ(ctx()->copies().read_counters().scalars, traffic{});
}

TEST_P(host_arrays, upload_each_dictionary_once_and_forget_those_of_a_failed_batch) {
  const texts<std::int32_t> words(100);
  const texts<std::int32_t> others(50);
  constexpr std::int64_t rows = 970; // 1024 bytes after alignment to 64, at any offset
  const std::vector<std::int8_t> codes(rows, 7);
  const auto coded = [&](const texts<std::int32_t>& from, std::int64_t count) {
    host_array made;
    made.type = data_type::dictionary(data_type(type_id::int8), data_type(type_id::string));
    made.length = rows;
    made.null_count = 0;
    made.buffers = {{}, bytes_in(codes)};
    made.dictionary = std::make_shared<const host_array>(from.rows(0, count));
    return made;
  };
  const std::vector<host_array> arrays{coded(words, 100), coded(words, 100), coded(others, 50)};
  {
    const auto tight = watch(ctx()->with_budget("tight", 1500)); // only the dictionaries fit
    EXPECT_THROW(static_cast<void>(upload(tight, {rows, arrays, nullptr}, dictionaries_, {"sent", {}, {}})),
                 error);
    EXPECT_EQ(tight->reports().statistics().budget.current, 0U);
    EXPECT_EQ(dictionaries_.find(*arrays[0].dictionary), nullptr);
  }
  ctx()->copies().reset_counters();
  const batch sent = send(arrays);
  EXPECT_EQ(inward().transfers, 2U);
  // 448 + 320 bytes for the first dictionary, 256 + 192 for the second one, and the indices once.
  EXPECT_EQ(inward().bytes, 448U + 320U + 256U + 192U + 1024U);
  EXPECT_EQ(sent.columns[0].dictionary(), sent.columns[1].dictionary());
  EXPECT_NE(sent.columns[0].dictionary(), sent.columns[2].dictionary());
  ctx()->copies().reset_counters();
  const batch again = send({arrays[2], coded(words, 99)});
  EXPECT_EQ(inward().transfers, 2U) << "one dictionary is known, the other has another length";
  EXPECT_EQ(again.columns[0].dictionary(), sent.columns[2].dictionary());
  const host_batch back = download(ctx(), again);
  ASSERT_NE(back.arrays[1].dictionary, nullptr);
  expect_text<std::int32_t>(*back.arrays[1].dictionary, 7, "007");
}

TEST_P(host_arrays, are_views_only_on_the_host) {
  const texts<std::int32_t> source(100);
  const auto keepalive = std::make_shared<int>();
  const host_batch lent{10, {source.rows(20, 10)}, keepalive};
  if (!ctx()->on_host()) {
    try {
      static_cast<void>(adopt(ctx(), lent, dictionaries_, {.tag = "lent"}));
      FAIL() << "host memory on a device";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::invalid_argument);
    }
    return;
  }
  {
    const batch viewed = adopt(ctx(), lent, dictionaries_, {.tag = "lent"});
    EXPECT_EQ(keepalive.use_count(), 4) << "the test's, the batch's, and one for each of two ranges";
    const column& strings = viewed.columns[0];
    EXPECT_EQ(strings.offset(), 20);
    EXPECT_EQ(strings.offsets().address(), reinterpret_cast<std::uintptr_t>(source.offsets.data()));
    EXPECT_EQ(strings.bytes().address(), reinterpret_cast<std::uintptr_t>(source.letters.data()));
    EXPECT_FALSE(strings.validity().present());
    EXPECT_FALSE(strings.bytes().owner()->writable());
    EXPECT_EQ(ctx()->copies().read_counters().imports, 2U);
    const host_batch back = download(ctx(), viewed);
    expect_text<std::int32_t>(back.arrays[0], 3, "023");
  }
  EXPECT_EQ(keepalive.use_count(), 2);
}

SAETA_CONFORMANCE_SUITE(host_arrays);

} // namespace
} // namespace saeta::conformance
