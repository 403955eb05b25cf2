// Checks in a child of fork.
#pragma once

#include "support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <exception>

#include <sys/wait.h>
#include <unistd.h>

namespace saeta::support {

/// Whether a child may allocate if another thread allocated during the fork. libasan of GCC 12 does not lock
/// its allocator for a fork, so a child may find it locked for ever.
#ifdef SAETA_ADDRESS_SANITIZER
inline constexpr bool allocator_forks = false;
#else
inline constexpr bool allocator_forks = true;
#endif

/// Runs `checks` in a child of fork. The test fails if a check fails or the child does not end. The child
/// prints the failures.
template <class Checks>
void expect_in_a_child(const Checks& checks) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20); // where it waits for a thread of its parent
    try {
      checks();
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFSIGNALED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(status, 0) << "in a child of fork";
}

} // namespace saeta::support
