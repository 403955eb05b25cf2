#include "saeta/base/sanitizers.hpp"
#include "saeta/memory/detail/storage_allocator.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace saeta {
namespace {

/// Not of a storage's size, so each test has a thread, and a list, of its own.
struct object {
  std::array<char, 1024> bytes{};
  int* ended = nullptr;
  explicit object(int* counts = nullptr) : ended(counts) {}
  object(const object&) = delete;
  object& operator=(const object&) = delete;
  ~object() {
    if (ended != nullptr) {
      ++*ended;
    }
  }
};

std::shared_ptr<object> make(int* ended = nullptr) {
  return std::allocate_shared<object>(storage_allocator<object>(), ended);
}

void in_a_thread(const std::function<void()>& body) { std::thread(body).join(); }

std::size_t kept() {
  const spare_storages* const own = spare_storages::find();
  return own == nullptr ? 0 : own->count();
}

#ifdef SAETA_ADDRESS_SANITIZER

TEST(storage_allocator, keeps_nothing_where_uses_after_the_end_are_looked_for) {
  in_a_thread([] {
    make().reset();
    EXPECT_EQ(kept(), 0U);
  });
}

#else

TEST(storage_allocator, gives_the_memory_that_came_back_last_to_the_next_one) {
  in_a_thread([] {
    auto first = make();
    auto second = make();
    const object* const at_first = first.get();
    const object* const at_second = second.get();
    first.reset();
    EXPECT_EQ(kept(), 1U);
    second.reset();
    EXPECT_EQ(kept(), 2U);
    first = make();
    EXPECT_EQ(first.get(), at_second);
    second = make();
    EXPECT_EQ(second.get(), at_first);
    EXPECT_EQ(kept(), 0U);
    EXPECT_NE(make().get(), nullptr) << "of the C library";
  });
}

TEST(storage_allocator, keeps_no_more_than_it_says) {
  in_a_thread([] {
    std::vector<std::shared_ptr<object>> many;
    for (std::size_t i = 0; i < spare_storages::most + 10; ++i) {
      many.push_back(make());
    }
    many.clear();
    EXPECT_EQ(kept(), spare_storages::most);
    many.push_back(make());
    EXPECT_EQ(kept(), spare_storages::most - 1);
  });
}

TEST(storage_allocator, keeps_memory_on_the_thread_that_it_came_back_on) {
  in_a_thread([] {
    auto made = make();
    in_a_thread([&] {
      made.reset();
      EXPECT_EQ(kept(), 1U);
    });
    EXPECT_EQ(kept(), 0U);
  });
}

#endif

/// Dropped while its thread ends, after the list has gone.
TEST(storage_allocator, frees_what_comes_back_while_its_thread_ends) {
  int ended = 0;
  in_a_thread([&] {
    thread_local std::shared_ptr<object> last; // destroyed after the list, which is made later
    last = make(&ended);
    make(&ended).reset();
  });
  EXPECT_EQ(ended, 2);
}

TEST(storage_allocator, does_not_destroy_objects_of_a_parent) {
  int ended = 0;
  in_a_thread([&] {
    auto made = make(&ended);
    const pid_t child = ::fork();
    if (child == 0) {
      made.reset();
      ::_exit(ended);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  });
  EXPECT_EQ(ended, 1);
}

} // namespace
} // namespace saeta
