#include "saeta/observe/name_table.hpp"
#include "saeta/observe/tag.hpp"
#include "unit/observe/counted_new.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <type_traits>
#include <vector>

namespace saeta {
namespace {

TEST(name_table, the_number_of_names_is_bounded) {
  name_table names(100, 1 << 20);
  std::set<const std::string*> kept;
  for (int i = 0; i < 10'000; ++i) {
    kept.insert(names.keep("query " + std::to_string(i)));
  }
  EXPECT_EQ(kept.size(), 101U) << "and (other)";
  EXPECT_EQ(*names.keep("query 99"), "query 99");
  EXPECT_EQ(names.keep("query 99"), names.keep(std::string("query 99")))
      << "an existing name keeps its entry";
  EXPECT_EQ(*names.keep("query 100"), "(other)");
  EXPECT_EQ(names.keep("query 100"), names.keep("(other)"));
}

TEST(name_table, the_total_size_of_names_is_bounded) {
  name_table names(2, 100);
  const std::string large(90, 'x');
  EXPECT_EQ(*names.keep(large), large);
  EXPECT_EQ(*names.keep("eleven char"), "(other)");
  EXPECT_EQ(*names.keep("ten chars."), "ten chars.") << "a refused name does not count";
  EXPECT_EQ(*names.keep("y"), "(other)");
}

TEST(name_table, a_failed_allocation_adds_no_name) {
  const std::string_view long_name = "too long to be kept inside of a string object";
  name_table names(1, long_name.size());
  {
    const unit::failing_new fails(0);
    EXPECT_THROW(static_cast<void>(names.keep(long_name)), std::bad_alloc);
  }
  EXPECT_EQ(*names.keep(long_name), long_name);
}

TEST(name_table, racing_threads_do_not_exceed_the_bound) {
  name_table names(100, 1 << 20);
  std::vector<std::set<const std::string*>> kept(4);
  std::vector<std::jthread> threads;
  for (auto& mine : kept) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        mine.insert(names.keep("raced for " + std::to_string(i)));
      }
    });
  }
  threads.clear();
  std::set<const std::string*> all;
  for (const auto& mine : kept) {
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_LE(all.size(), 101U);
}

TEST(tag, is_a_pointer_without_reference_count) {
  EXPECT_EQ(sizeof(tag), sizeof(void*));
  EXPECT_TRUE(std::is_trivially_copyable_v<tag>);
}

} // namespace
} // namespace saeta
