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

/// As Linux names it: 'R' runs, 'S' sleeps.
char state_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos ? '?' : text[name_end + 2];
}

TEST(foreign_call, returns_what_the_callee_returns_and_passes_its_exceptions_on) {
  int number = 7;
  int& same = foreign_call([&]() -> int& { return number; });
  EXPECT_EQ(&same, &number);
  EXPECT_THROW(foreign_call([] { throw std::runtime_error("theirs"); }), std::runtime_error);
}

/// Runs `work`, which must not come back, in a child that then sleeps.
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

TEST(foreign_call, stops_a_thread_that_the_callee_ends_while_an_exception_is_on_its_way) {
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
