#include "saeta/base/foreign_call.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace saeta {
namespace {

/// Returns the state of a process in /proc: 'R' running, 'S' sleeping.
char state_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos ? '?' : text[name_end + 2];
}

TEST(foreign_call, passes_on_results_and_exceptions_of_the_callee) {
  int number = 7;
  int& same = foreign_call([&]() -> int& { return number; });
  EXPECT_EQ(&same, &number);
  EXPECT_THROW(foreign_call([] { throw std::runtime_error("theirs"); }), std::runtime_error);
}

/// Runs `work` in a forked child. It must not return; instead the thread must sleep for ever.
void expect_stopped(void (*work)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(1);
  }
  int status = 0;
  pid_t ended = 0;
  while (state_of(child) != 'S' && (ended = ::waitpid(child, &status, WNOHANG)) == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ended, 0) << "the call came back, status " << status;
  if (ended == 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
}

void end_in_a_foreign_call() {
  foreign_call([] { ::pthread_exit(nullptr); });
}

TEST(foreign_call, stops_a_thread_that_the_callee_ends) { expect_stopped(&end_in_a_foreign_call); }

TEST(foreign_call, stops_a_thread_that_the_callee_ends_in_a_handler) {
  expect_stopped([] {
    try {
      throw std::runtime_error("ours");
    } catch (const std::exception&) {
      end_in_a_foreign_call();
    }
  });
}

TEST(foreign_call, stops_a_thread_that_the_callee_ends_during_stack_unwinding) {
  expect_stopped([] {
    struct releases {
      ~releases() { end_in_a_foreign_call(); }
    };
    try {
      const releases made;
      throw std::runtime_error("ours");
    } catch (const std::exception&) {
    }
  });
}

} // namespace
} // namespace saeta
