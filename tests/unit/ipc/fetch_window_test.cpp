#include "saeta/base/error.hpp"
#include "saeta/ipc/io/fetch_window.hpp"
#include "saeta/ipc/io/source.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t large_budget = std::uint64_t{1} << 40;

/// Messages of one size, one behind the other, and what was fetched of them.
struct store {
  std::size_t count = 100;
  std::uint64_t bytes = 32 * mib;
  std::vector<byte_range> fetched = {};
  std::shared_ptr<std::size_t> held = std::make_shared<std::size_t>(0);
  std::vector<std::size_t> asked = {}; ///< messages whose ranges were asked for

  fetch_window::messages whole() {
    return {.count = count,
            .at =
                [this](std::size_t number) {
                  return fetch_window::message{{number * bytes, bytes}, 1000};
                },
            .ranges = nullptr,
            .fetch =
                [this](std::span<const byte_range> ranges) {
                  fetched.insert(fetched.end(), ranges.begin(), ranges.end());
                  ++*held;
                  return std::shared_ptr<void>(this, [number = held](void*) { --*number; });
                }};
  }
  fetch_window::messages columns() {
    fetch_window::messages all = whole();
    all.ranges = [this](std::size_t number) {
      asked.push_back(number);
      return std::vector<byte_range>{{number * bytes + 5000, 100}};
    };
    return all;
  }
};

TEST(fetch_window, fetches_messages_ahead_up_to_a_number_of_bytes) {
  store from;
  fetch_window window(from.whole(), large_budget);
  window.go_on(0);
  EXPECT_EQ(window.bytes(), 512 * mib);
  EXPECT_EQ(from.fetched.size(), 16U);
  EXPECT_EQ(from.fetched.back().offset, 15 * from.bytes);
  window.go_on(0);
  EXPECT_EQ(from.fetched.size(), 16U) << "nothing was read meanwhile";
}

TEST(fetch_window, drops_messages_that_were_read_and_fetches_as_many_more) {
  store from;
  fetch_window window(from.whole(), large_budget);
  window.go_on(0);
  const std::size_t before = *from.held;
  window.go_on(3);
  EXPECT_EQ(from.fetched.size(), 19U);
  EXPECT_EQ(*from.held, before);
  window.go_on(from.count);
  EXPECT_EQ(*from.held, 0U);
  EXPECT_EQ(window.bytes(), 0U);
}

TEST(fetch_window, fetches_at_most_half_of_a_budget_but_always_something) {
  store from{.bytes = mib};
  fetch_window small(from.whole(), 100 * mib);
  small.go_on(0);
  EXPECT_LE(small.bytes(), 66 * mib);
  fetch_window least(from.whole(), 0);
  least.go_on(0);
  EXPECT_EQ(least.bytes(), 16 * mib);
}

TEST(fetch_window, fetches_small_messages_together) {
  store from{.count = 1000, .bytes = 10'000};
  fetch_window window(from.whole(), large_budget);
  window.go_on(0);
  EXPECT_EQ(from.fetched.size(), 1000U);
  EXPECT_EQ(*from.held, 1U);
}

TEST(fetch_window, fetches_bodies_into_memory_that_is_taken_once) {
  store from{.count = 4};
  fetch_window::messages all = from.whole();
  std::vector<std::uint64_t> held;
  all.memory = [&](std::uint64_t bytes, std::uint64_t before) {
    EXPECT_EQ(bytes, from.bytes - 1000);
    held.push_back(before);
    return held.size() == 2 ? nullptr : std::make_shared<std::byte>();
  };
  fetch_window window(std::move(all), large_budget);
  window.go_on(0);
  EXPECT_EQ(held, (std::vector<std::uint64_t>{0, from.bytes, 2 * from.bytes, 3 * from.bytes}));
  ASSERT_EQ(from.fetched.size(), 7U) << "metadata and body each, but for the message without memory";
  EXPECT_EQ(from.fetched[0].bytes, 1000U);
  EXPECT_EQ(from.fetched[0].memory, nullptr);
  EXPECT_EQ(from.fetched[2].bytes, from.bytes);
  EXPECT_EQ(window.take(0, 1000, from.bytes - 1000), from.fetched[1].memory);
  EXPECT_EQ(window.take(0, 1000, from.bytes - 1000), nullptr);
  EXPECT_EQ(window.take(1, from.bytes + 1000, from.bytes - 1000), nullptr);
  EXPECT_EQ(window.take(2, 2 * from.bytes + 1000, 5), nullptr) << "the message has another body";
  const std::weak_ptr<std::byte> last = from.fetched.back().memory;
  from.fetched.clear();
  window.go_on(from.count);
  EXPECT_TRUE(last.expired());
}

TEST(fetch_window, asks_for_no_memory_for_messages_without_a_body) {
  store from{.count = 4, .bytes = 1000}; // as many as its metadata
  fetch_window::messages all = from.whole();
  all.memory = [](std::uint64_t bytes, std::uint64_t) {
    ADD_FAILURE() << bytes << " bytes";
    return std::make_shared<std::byte>();
  };
  fetch_window window(std::move(all), large_budget);
  window.go_on(0);
  EXPECT_EQ(from.fetched.size(), 4U);
}

TEST(fetch_window, asks_for_the_layout_of_messages_of_the_same_sizes_once) {
  store from;
  fetch_window window(from.columns(), large_budget);
  window.go_on(0);
  EXPECT_EQ(from.asked, std::vector<std::size_t>{0});
  const auto columns =
      std::ranges::count_if(from.fetched, [](const byte_range& each) { return each.bytes == 100; });
  EXPECT_EQ(columns, 100);
  EXPECT_EQ(from.fetched.back().offset, 99 * from.bytes + 5000);
  store differing;
  fetch_window::messages all = differing.columns();
  all.alike = false;
  fetch_window each(std::move(all), large_budget);
  each.go_on(0);
  EXPECT_EQ(differing.asked.size(), 100U);
}

TEST(fetch_window, leaves_a_broken_message_to_who_reads_it) {
  store from;
  fetch_window::messages all = from.columns();
  all.ranges = [](std::size_t) -> std::vector<byte_range> { throw error(errc::format, "broken"); };
  fetch_window window(std::move(all), large_budget);
  EXPECT_NO_THROW(window.go_on(0));
  EXPECT_NO_THROW(window.go_on(1));
  all = from.columns();
  all.ranges = [](std::size_t) -> std::vector<byte_range> { throw error(errc::closed, "closed"); };
  fetch_window closed(std::move(all), large_budget);
  EXPECT_THROW(closed.go_on(0), error);
}

TEST(fetch_window, a_source_that_fetches_ahead_gets_large_ranges_as_a_whole) {
  std::vector<std::size_t> sizes;
  const auto read = [&](std::uint64_t, std::span<std::byte> target) { sizes.push_back(target.size()); };
  const auto fetch = [](std::span<const byte_range>) { return std::shared_ptr<void>(); };
  const source from = ::saeta::ipc::detail::source_of("a store", 64 * mib, read, fetch);
  EXPECT_TRUE(from->fetches_ahead());
  std::vector<std::byte> target(32 * mib);
  from->read_at(0, target);
  EXPECT_EQ(sizes, std::vector<std::size_t>{32 * mib});
  EXPECT_FALSE(::saeta::ipc::detail::source_of("a function", 64 * mib, read)->fetches_ahead());
}

TEST(fetch_window, a_source_that_does_not_is_read_by_several_requests_at_once) {
  std::mutex noting;
  std::vector<std::pair<std::uint64_t, std::size_t>> pieces;
  const auto read = [&](std::uint64_t offset, std::span<std::byte> target) {
    std::ranges::fill(target, static_cast<std::byte>(offset / mib));
    const std::lock_guard lock(noting);
    pieces.emplace_back(offset, target.size());
  };
  const source from = ::saeta::ipc::detail::source_of("a function", 64 * mib, read);
  std::vector<std::byte> target(9 * mib);
  from->read_at(2 * mib, target);
  std::ranges::sort(pieces);
  EXPECT_EQ(pieces, (std::vector<std::pair<std::uint64_t, std::size_t>>{
                        {2 * mib, 4 * mib}, {6 * mib, 4 * mib}, {10 * mib, mib}}));
  EXPECT_EQ(target[4 * mib - 1], std::byte{2});
  EXPECT_EQ(target[4 * mib], std::byte{6});
  EXPECT_EQ(target.back(), std::byte{10});
  from->read_at(0, {});
  EXPECT_EQ(pieces.size(), 3U) << "no bytes are no request";
  EXPECT_EQ(from->fetch_ahead(std::vector<byte_range>{{0, 1}}), nullptr);
}

} // namespace
} // namespace saeta::ipc::detail
