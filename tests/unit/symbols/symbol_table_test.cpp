#include "saeta/base/text.hpp"
#include "saeta/symbols/symbol_table.hpp"
#include "support/child_process.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <set>
#include <thread>

#include <sys/mman.h>

namespace saeta {
namespace {

using support::error_of;

std::vector<std::string> numbered_names(std::size_t count, std::string_view prefix = "name ") {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    names.push_back(concat(prefix, i));
  }
  return names;
}

std::vector<symbol> intern(symbol_table& table, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::vector<symbol> found(names.size());
  table.intern(views, found);
  return found;
}

TEST(symbol_table, numbers_names_from_0_and_finds_them_again) {
  const auto table = symbol_table::make();
  EXPECT_EQ(table->size(), 0U);
  EXPECT_EQ(table->intern("Lyon"), 0U);
  EXPECT_EQ(table->intern("Bern"), 1U);
  EXPECT_EQ(table->intern("Lyon"), 0U);
  EXPECT_EQ(table->size(), 2U);
  EXPECT_EQ(table->name(0), "Lyon");
  EXPECT_EQ(table->name(1), "Bern");
}

TEST(symbol_table, find_does_not_add_names) {
  const auto table = symbol_table::make();
  EXPECT_EQ(table->find("Lyon"), std::nullopt);
  EXPECT_EQ(table->size(), 0U);
  const symbol lyon = table->intern("Lyon");
  EXPECT_EQ(table->find("Lyon"), lyon);
  EXPECT_EQ(table->find("Lyo"), std::nullopt);
  EXPECT_EQ(table->size(), 1U);
}

TEST(symbol_table, refuses_an_unknown_symbol_with_its_size) {
  const auto table = symbol_table::make();
  table->intern("Lyon");
  const error seen = error_of([&] { static_cast<void>(table->name(1)); });
  EXPECT_EQ(seen.code(), errc::out_of_range);
  EXPECT_EQ(seen.message(), "symbol 1 is not in the symbol table, which has 1 names");
  EXPECT_EQ(table->lookup(1), std::nullopt);
  EXPECT_EQ(table->lookup(0), "Lyon");
  EXPECT_EQ(table->lookup(0xFFFFFFFF), std::nullopt);
}

TEST(symbol_table, accepts_only_valid_utf8) {
  const auto table = symbol_table::make();
  const std::string zero("a\0b", 3);
  const symbol empty = table->intern("");
  const symbol with_zero = table->intern(zero);
  const symbol greek = table->intern("σύμβολο");
  EXPECT_EQ(table->name(empty), "");
  EXPECT_EQ(table->name(with_zero), zero);
  EXPECT_EQ(table->name(greek), "σύμβολο");
  EXPECT_EQ(table->find("a"), std::nullopt);
  const error seen = error_of([&] { table->intern("\xFF"); });
  EXPECT_EQ(seen.code(), errc::invalid_argument);
  EXPECT_NE(seen.message().find("is not UTF-8"), std::string::npos) << seen.message();
  EXPECT_EQ(table->size(), 3U);
}

TEST(symbol_table, interns_many_names_in_one_call) {
  const auto table = symbol_table::make();
  table->intern("name 7");
  const std::vector<std::string> names = numbered_names(5000);
  const std::vector<symbol> found = intern(*table, names);
  EXPECT_EQ(table->size(), 5000U);
  EXPECT_EQ(found[7], 0U);
  EXPECT_EQ(found[0], 1U);
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(table->name(found[i]), names[i]);
  }
  EXPECT_EQ(intern(*table, names), found);
  std::vector<symbol> too_few(1);
  const std::vector<std::string_view> two{"a", "b"};
  EXPECT_EQ(error_of([&] { table->intern(two, too_few); }).code(), errc::invalid_argument);
}

TEST(symbol_table, keeps_the_addresses_of_a_million_names) {
  const auto table = symbol_table::make();
  const symbol first = table->intern("the first");
  const char* const there = table->name(first).data();
  const std::vector<std::string> names = numbered_names(1'000'000, "");
  const std::vector<symbol> found = intern(*table, names);
  EXPECT_EQ(table->size(), 1'000'001U);
  EXPECT_EQ(table->name(first).data(), there);
  for (const std::size_t i : {0UL, 1022UL, 1023UL, 1024UL, 65'535UL, 999'999UL}) {
    EXPECT_EQ(found[i], i + 1);
    EXPECT_EQ(table->find(names[i]), found[i]);
    EXPECT_EQ(table->name(found[i]), names[i]);
  }
  EXPECT_GT(table->byte_size(), 6'000'000U);
}

TEST(symbol_table, that_is_full_refuses_only_new_names) {
  const auto table = symbol_table::make(2);
  EXPECT_EQ(table->limit(), 2U);
  table->intern("a");
  table->intern("b");
  const error seen = error_of([&] { table->intern("c"); });
  EXPECT_EQ(seen.code(), errc::overflow);
  EXPECT_EQ(seen.message(), "the symbol table is full: it has 2 names, which is its limit, and 'c' is new");
  EXPECT_EQ(table->intern("b"), 1U);
  EXPECT_EQ(table->size(), 2U);
  EXPECT_EQ(symbol_table::make()->limit(), std::uint64_t{1} << 32);
  EXPECT_EQ(error_of([] { static_cast<void>(symbol_table::make((std::uint64_t{1} << 32) + 1)); }).code(),
            errc::invalid_argument);
}

TEST(symbol_table, that_becomes_full_keeps_the_names_before) {
  const auto table = symbol_table::make(3);
  EXPECT_EQ(error_of([&] { intern(*table, numbered_names(5)); }).code(), errc::overflow);
  EXPECT_EQ(table->size(), 3U);
  EXPECT_EQ(table->find("name 2"), 2U);
}

TEST(symbol_table, refuses_names_beyond_32_bit_offsets) {
  const auto table = symbol_table::make();
  const std::size_t bytes = symbol_table::longest_name + 1;
  void* const pages = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const std::string_view name(static_cast<const char*>(pages), bytes);
  const error seen = error_of([&] { table->intern(name); });
  EXPECT_EQ(seen.code(), errc::overflow);
  EXPECT_EQ(seen.message(), "the name of a symbol has 2147483648 bytes, at most 2147483647 are supported");
  EXPECT_EQ(table->size(), 0U);
  ::munmap(pages, bytes);
}

TEST(symbol_table, is_found_by_its_identity_while_it_lives) {
  auto table = symbol_table::make();
  const std::string identity = table->identity();
  EXPECT_EQ(symbol_table::of_identity(identity), table);
  EXPECT_NE(identity, symbol_table::make()->identity());
  EXPECT_EQ(symbol_table::of_identity(""), nullptr);
  EXPECT_EQ(symbol_table::of_identity(identity + "x"), nullptr);
  EXPECT_EQ(symbol_table::of_identity(identity + "0"), nullptr);
  EXPECT_EQ(symbol_table::of_identity("x" + identity), nullptr);
  table = nullptr;
  EXPECT_EQ(symbol_table::of_identity(identity), nullptr);
}

TEST(symbol_table, is_found_by_its_identity_for_any_number) {
  std::vector<std::shared_ptr<symbol_table>> made;
  for (std::uint64_t i = 0; i < 111; ++i) { // includes numbers of three digits
    made.push_back(symbol_table::make());
    EXPECT_EQ(made.back()->number(), made.front()->number() + i);
  }
  for (const auto& each : made) {
    EXPECT_EQ(symbol_table::of_identity(each->identity()), each) << each->number();
  }
}

TEST(symbol_table, of_the_process_is_unique) {
  EXPECT_EQ(process_symbols(), process_symbols());
  EXPECT_EQ(process_symbols()->number(), 0U);
  EXPECT_EQ(symbol_table::of_identity(process_symbols()->identity()), process_symbols());
  EXPECT_NE(symbol_table::make()->number(), 0U);
}

TEST(symbol_table_threads, give_each_name_one_symbol) {
  constexpr std::size_t threads = 8;
  const auto table = symbol_table::make();
  const std::vector<std::string> names = numbered_names(4000);
  std::vector<std::vector<symbol>> found(threads);
  std::barrier begin(threads);
  {
    std::vector<std::jthread> running;
    for (std::size_t t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        std::vector<std::string> order = names;
        std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(t * 500), order.end());
        begin.arrive_and_wait();
        if (t % 2 == 0) {
          found[t] = intern(*table, order);
        } else {
          for (const std::string& name : order) {
            found[t].push_back(table->intern(name));
          }
        }
        std::rotate(found[t].begin(), found[t].end() - static_cast<std::ptrdiff_t>(t * 500), found[t].end());
      });
    }
  }
  EXPECT_EQ(table->size(), names.size());
  EXPECT_EQ(std::set<symbol>(found[0].begin(), found[0].end()).size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(table->name(found[0][i]), names[i]);
  }
  for (const auto& each : found) {
    EXPECT_EQ(each, found[0]);
  }
}

TEST(symbol_table_threads, can_read_symbols_while_names_are_added) {
  const auto table = symbol_table::make();
  const std::vector<std::string> names = numbered_names(50'000, "");
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> readers;
    for (int t = 0; t < 3; ++t) {
      readers.emplace_back([&] {
        for (bool last = false; !last;) {
          last = done;
          const std::uint64_t size = table->size();
          for (std::uint64_t i = size > 100 ? size - 100 : 0; i < size; ++i) {
            const bool name = table->name(static_cast<symbol>(i)) == names[i];
            const bool found = table->find(names[i]) == static_cast<symbol>(i);
            wrong += name && found ? 0 : 1;
          }
        }
      });
    }
    for (const std::string& name : names) {
      table->intern(name);
    }
    done = true;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(symbol_table_threads, can_read_a_name_as_soon_as_it_is_found) {
  const auto table = symbol_table::make();
  const std::vector<std::string> names = numbered_names(50'000, "");
  std::atomic<int> wrong{0};
  {
    const std::jthread reader([&] {
      for (const std::string& name : names) {
        std::optional<symbol> found;
        while (!(found = table->find(name))) {
        }
        wrong += table->lookup(*found) == name ? 0 : 1;
      }
    });
    for (const std::string& name : names) {
      table->intern(name);
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(symbol_table_fork, keeps_the_names_in_a_child_which_can_add_more) {
  if (!support::allocator_forks) {
    GTEST_SKIP() << "the other thread allocates all the time";
  }
  const auto table = symbol_table::make();
  table->intern("parent");
  std::atomic<bool> stop{false};
  std::jthread adding([&] {
    for (std::size_t i = 0; !stop; ++i) {
      table->intern(concat("other ", i));
    }
  });
  for (int child = 0; child < 20; ++child) {
    support::expect_in_a_child([&] {
      const std::uint64_t size = table->size();
      EXPECT_EQ(table->name(0), "parent");
      EXPECT_EQ(table->find("parent"), 0U);
      // Checks only a thousand names: the longer a child takes, the more names the next child has.
      for (std::uint64_t i = 0; i < size; i += size / 1000 + 1) {
        EXPECT_EQ(table->find(table->name(static_cast<symbol>(i))), static_cast<symbol>(i));
      }
      EXPECT_EQ(table->find(table->name(static_cast<symbol>(size - 1))), static_cast<symbol>(size - 1));
      EXPECT_EQ(table->intern("child"), size);
      EXPECT_EQ(symbol_table::make()->intern("own"), 0U);
      EXPECT_EQ(symbol_table::of_identity(table->identity()), table);
    });
  }
  stop = true;
}

TEST(symbol_table_fork, has_another_identity_in_a_child) {
  const auto table = symbol_table::make();
  const std::string identity = table->identity();
  support::expect_in_a_child([&] { EXPECT_EQ(symbol_table::of_identity(identity), nullptr); });
  EXPECT_EQ(symbol_table::of_identity(identity), table);
}

} // namespace
} // namespace saeta
