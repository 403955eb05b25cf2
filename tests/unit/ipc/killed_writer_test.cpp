// A writer that is killed while it replaces a file.
#include "ipc_test.hpp"
#include "saeta/ipc/io/atomic_file.hpp"

#include <sys/wait.h>
#include <unistd.h>

namespace saeta::ipc {
namespace {

using ::testing::ElementsAre;
using killed_writer = ipc_test;

TEST_F(killed_writer, leaves_a_temporary_file_that_the_next_write_removes) {
  for (const char* const next : {"a", "b"}) {
    store(file("a"), "the old one");
    const pid_t killed = ::fork();
    ASSERT_GE(killed, 0);
    if (killed == 0) {
      detail::atomic_file target(file("a"));
      std::filesystem::remove(file("a"));
      std::filesystem::create_directory(file("a")); // so that the rename fails
      try {
        target.commit();
      } catch (const error&) {
        ::_exit(0); // as if killed: destructors do not run
      }
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(killed, &status, 0), killed);
    ASSERT_EQ(status, 0);
    std::filesystem::remove(file("a"));
    ASSERT_EQ(names().size(), 1U) << "the file that was linked";
    write(every_type(), file(next));
    EXPECT_THAT(names(), ElementsAre(next));
    std::filesystem::remove(file(next));
  }
}

} // namespace
} // namespace saeta::ipc
