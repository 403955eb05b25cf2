#include "saeta/base/foreign_call.hpp"
#include "saeta/base/sanitizers.hpp"

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

TEST(foreign_call, stops_a_thread_that_the_callee_ends) {
#ifdef SAETA_ADDRESS_SANITIZER
  GTEST_SKIP()
      << "the undefined-behaviour sanitizer takes what a forced unwind is caught by for a null reference";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    foreign_call([] { ::pthread_exit(nullptr); });
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

} // namespace
} // namespace saeta
