#include "saeta/observe/tag.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace saeta {
namespace {

TEST(tag, equal_names_give_equal_tags) {
  const std::string text = "orders";
  EXPECT_EQ(tag("orders"), tag(text));
  EXPECT_EQ(tag("orders"), tag(std::string_view("orders and more").substr(0, 6)));
  EXPECT_EQ(&tag("orders").name(), &tag(text).name()) << "one copy of each name";
  EXPECT_FALSE(tag("orders") == tag("order"));
  EXPECT_FALSE(tag("orders") == tag());
}

TEST(tag, the_empty_name_gives_an_empty_tag) {
  EXPECT_TRUE(tag().empty());
  EXPECT_TRUE(tag("").empty());
  EXPECT_EQ(tag(""), tag());
  EXPECT_EQ(tag().name(), "");
}

TEST(tag, keeps_every_byte_of_a_name) {
  const std::string odd("a\0b\n\xFF", 5);
  EXPECT_EQ(tag(odd).name(), odd);
  EXPECT_FALSE(tag(odd) == tag("a"));
}

TEST(tag, outlives_the_text_that_it_was_made_from) {
  tag kept;
  {
    const std::string gone(100, 'x');
    kept = gone;
  }
  EXPECT_EQ(kept.name(), std::string(100, 'x'));
}

TEST(tag, is_the_same_for_racing_threads) {
  constexpr std::size_t names = 200;
  std::vector<std::vector<tag>> made(4);
  std::vector<std::thread> threads;
  for (auto& mine : made) {
    threads.emplace_back([&mine] {
      for (std::size_t i = 0; i < names; ++i) {
        mine.emplace_back("raced for " + std::to_string(i));
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (std::size_t i = 0; i < names; ++i) {
    for (const auto& mine : made) {
      EXPECT_EQ(&mine[i].name(), &made[0][i].name());
    }
  }
}

} // namespace
} // namespace saeta
