#include "saeta/base/node_arena.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <vector>

namespace saeta {
namespace {

struct counted {
  explicit counted(int& alive, int of = 0) : alive_(&alive), number(of) { ++*alive_; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { --*alive_; }

  int* alive_;
  int number;
};

std::shared_ptr<counted> make(const node_arena& from, int& alive, int number) {
  return std::allocate_shared<counted>(node_allocator<counted>(from), alive, number);
}

TEST(node_arenas, nodes_lie_side_by_side) {
  int alive = 0;
  const node_arena arena(3);
  const auto first = make(arena, alive, 1);
  const auto second = make(arena, alive, 2);
  const auto third = make(arena, alive, 3);
  const auto address = [](const auto& of) { return reinterpret_cast<std::uintptr_t>(of.get()); };
  EXPECT_EQ(address(second) - address(first), address(third) - address(second));
  EXPECT_LT(address(second) - address(first), sizeof(counted) + 64);
}

TEST(node_arenas, each_object_ends_with_its_own_owners_and_the_last_outlives_the_arena) {
  int alive = 0;
  std::optional<node_arena> arena(std::in_place, std::size_t{2});
  auto first = make(*arena, alive, 1);
  const std::weak_ptr<counted> watched = first;
  const auto second = make(*arena, alive, 2);
  EXPECT_EQ(alive, 2);
  arena.reset();
  first.reset();
  EXPECT_EQ(alive, 1);
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(second->number, 2);
}

TEST(node_arenas, many_nodes_lie_in_huge_pages_as_long_as_one_is_used) {
  constexpr std::size_t count = 40'000; // of at least 32 bytes each
  int alive = 0;
  std::shared_ptr<counted> last;
  {
    const node_arena arena(count);
    const auto first = make(arena, alive, 1);
    EXPECT_LT(reinterpret_cast<std::uintptr_t>(first.get()) % huge_page_bytes, 64U);
    for (std::size_t i = 1; i < count; ++i) {
      last = make(arena, alive, static_cast<int>(i));
    }
  }
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(last->number, static_cast<int>(count - 1));
}

TEST(node_arenas, one_that_gives_nothing_needs_no_memory) { EXPECT_NO_THROW(node_arena(0)); }

TEST(node_arenas, one_gives_no_more_than_it_was_made_for) {
  int alive = 0;
  const node_arena arena(1);
  const auto only = make(arena, alive, 1);
  EXPECT_THROW(static_cast<void>(make(arena, alive, 2)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(make(node_arena(0), alive, 1)), std::bad_alloc);
  EXPECT_EQ(alive, 1);
}

TEST(node_arenas, an_object_that_throws_leaves_its_node) {
  struct failing {
    failing() { throw 1; }
  };
  const node_arena arena(1);
  EXPECT_THROW((void)std::allocate_shared<failing>(node_allocator<failing>(arena)), int);
}

TEST(node_arenas, nodes_end_on_any_thread) {
  constexpr int count = 1000;
  std::vector<std::shared_ptr<std::vector<int>>> made;
  {
    const node_arena arena(count);
    for (int i = 0; i < count; ++i) {
      made.push_back(std::allocate_shared<std::vector<int>>(node_allocator<std::vector<int>>(arena), 1, i));
    }
  }
  std::vector<std::thread> threads;
  for (std::size_t from = 0; from < 4; ++from) {
    threads.emplace_back([&made, from] {
      for (std::size_t i = from; i < made.size(); i += 4) {
        EXPECT_EQ(made[i]->front(), static_cast<int>(i));
        made[i].reset();
      }
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
}

} // namespace
} // namespace saeta
