#include "saeta/base/process.hpp"

#include <gtest/gtest.h>

#include <memory>

#include <sys/wait.h>
#include <unistd.h>

namespace saeta {
namespace {

/// Forks and runs `holds` in the child. Returns its result.
template <class Check>
bool in_a_child(Check holds) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(holds() ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

TEST(process, a_forked_child_is_a_new_generation) {
  const std::uint64_t here = fork_generation();
  EXPECT_TRUE(in_a_child([&] { return fork_generation() == here + 1; }));
  EXPECT_TRUE(in_a_child([&] { return in_a_child([&] { return fork_generation() == here + 2; }); }));
  EXPECT_EQ(fork_generation(), here);
}

TEST(process, each_process_has_its_own_object) {
  static constinit per_process<int> number;
  number.get() = 7;
  EXPECT_EQ(number.get(), 7);
  EXPECT_TRUE(in_a_child([] {
    const bool fresh = number.get() == 0;
    number.get() = 8;
    return fresh && number.get() == 8;
  }));
  EXPECT_EQ(number.get(), 7);
}

TEST(process, an_object_is_deleted_only_in_the_process_that_made_it) {
  static int deleted;
  deleted = 0;
  struct counted {
    ~counted() { ++deleted; }
  };
  std::shared_ptr<counted> made(new counted, delete_in_own_process{});
  EXPECT_TRUE(in_a_child([&] {
    made.reset();
    return deleted == 0;
  }));
  made.reset();
  EXPECT_EQ(deleted, 1);
}

} // namespace
} // namespace saeta
