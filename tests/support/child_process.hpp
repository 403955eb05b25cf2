// Runs checks in a forked child process.
#pragma once

#include "support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <exception>

#include <sys/wait.h>
#include <unistd.h>

namespace saeta::support {

/// Whether a forked child can allocate although another thread allocated during the fork. The libasan of GCC
/// 12 does not lock its allocator around fork, so the child may deadlock in it.
#ifdef SAETA_ADDRESS_SANITIZER
inline constexpr bool allocator_forks = false;
#else
inline constexpr bool allocator_forks = true;
#endif

/// Forks and runs `checks` in the child, which prints failures. The test fails if a check fails or if the
/// child does not end.
template <class Checks>
void expect_in_a_child(const Checks& checks) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20); // kills a child that waits for a thread of its parent
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
