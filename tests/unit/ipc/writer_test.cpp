// A file appears whole or not at all.

#include "ipc_test.hpp"
#include "saeta/ipc/detail/atomic_file.hpp"
#include "support/without_privileges.hpp"

#include <csignal>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace saeta::ipc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Lets files grow to so many bytes only, as a full disk would.
class file_size_limit {
public:
  explicit file_size_limit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lowered{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &lowered);
    signal_ = std::signal(SIGXFSZ, SIG_IGN); // by default it ends the process; ignored, write says EFBIG
  }
  file_size_limit(const file_size_limit&) = delete;
  file_size_limit& operator=(const file_size_limit&) = delete;
  ~file_size_limit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }

private:
  rlimit before_{};
  void (*signal_)(int) = SIG_DFL;
};

class writing : public ipc_test {
protected:
  [[nodiscard]] mode_t mode_of(const std::filesystem::path& path) const {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_mode & 07777;
  }
};

TEST_F(writing, a_sink_that_is_full_is_an_error_and_leaves_no_file) {
  const table original = every_type();
  const auto needed = write_bytes(original).size();
  for (const auto allowed : {std::size_t{0}, std::size_t{100}, needed / 2, needed - 1}) {
    const file_size_limit full(allowed);
    EXPECT_ERROR(write(original, file("out.arrow")), io, file("out.arrow").string(), "File too large");
    EXPECT_THAT(names(), IsEmpty());
  }
  EXPECT_EQ(write(original, file("out.arrow")), needed);
}

TEST_F(writing, a_failure_leaves_the_file_that_was_there) {
  store(file("kept.arrow"), "the old one");
  {
    const file_size_limit full(50);
    EXPECT_ERROR(write(every_type(), file("kept.arrow")), io, "File too large");
  }
  EXPECT_EQ(load(file("kept.arrow")), "the old one");
  EXPECT_THAT(names(), ElementsAre("kept.arrow"));
}

TEST_F(writing, a_hook_that_throws_leaves_nothing_behind) {
  const auto stop = [](const progress& so_far) {
    if (so_far.batches == 2) {
      throw error(errc::closed, "enough");
    }
  };
  EXPECT_ERROR(write(every_type(), file("out.arrow"), {}, stop), closed, "enough");
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(writing, a_folder_must_be_there) {
  EXPECT_ERROR(write(every_type(), file("no/such/folder")), io, file("no/such/folder").string(),
               "No such file or directory");
  store(file("plain"), "x");
  EXPECT_ERROR(write(every_type(), file("plain/below")), io, "Not a directory");
}

TEST_F(writing, a_directory_is_not_replaced) {
  EXPECT_ERROR(write(every_type(), folder()), io, folder().string(), "Is a directory");
}

TEST_F(writing, a_device_or_pipe_is_not_replaced) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_ERROR(write(every_type(), file("pipe")), io, "no regular file");
  EXPECT_ERROR(write(every_type(), "/dev/full"), io, "/dev/full", "no regular file");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(writing, a_folder_without_permission_is_named) {
  const table source = every_type();
  std::filesystem::permissions(folder(), std::filesystem::perms{0555});
  {
    const support::without_privileges nobody;
    EXPECT_ERROR(write(source, file("out.arrow")), io, "Permission denied");
  }
  std::filesystem::permissions(folder(), std::filesystem::perms::owner_all);
}

TEST_F(writing, permissions_are_those_of_a_new_file) {
  const mode_t before = ::umask(027);
  write(every_type(), file("out.arrow"));
  ::umask(before);
  EXPECT_EQ(mode_of(file("out.arrow")), 0640U);
}

TEST_F(writing, a_symbolic_link_keeps_naming_its_file) {
  store(file("real.arrow"), "old");
  std::filesystem::create_symlink("real.arrow", file("link.arrow"));
  const table original = every_type();
  write(original, file("link.arrow"));
  EXPECT_TRUE(std::filesystem::is_symlink(file("link.arrow")));
  EXPECT_TRUE(support::same_contents(read(file("real.arrow")), original));
}

TEST_F(writing, a_relative_path_is_taken_from_the_working_folder) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder());
  write(every_type(), "bare.arrow");
  std::filesystem::current_path(before);
  EXPECT_THAT(names(), ElementsAre("bare.arrow"));
}

using atomic = writing;

TEST_F(atomic, the_name_shows_only_what_was_committed) {
  {
    detail::atomic_file abandoned(file("a"));
    ASSERT_EQ(::write(abandoned.descriptor(), "half", 4), 4);
    EXPECT_EQ(names().size(), 1U);
    EXPECT_FALSE(std::filesystem::exists(file("a")));
  }
  EXPECT_THAT(names(), IsEmpty());

  detail::atomic_file finished(file("a"));
  ASSERT_EQ(::write(finished.descriptor(), "whole", 5), 5);
  finished.commit();
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(load(file("a")), "whole");
}

TEST_F(atomic, two_writers_of_one_name_do_not_meet) {
  detail::atomic_file first(file("a"));
  detail::atomic_file second(file("a"));
  ASSERT_EQ(::write(first.descriptor(), "first", 5), 5);
  ASSERT_EQ(::write(second.descriptor(), "second", 6), 6);
  second.commit();
  first.commit();
  EXPECT_EQ(load(file("a")), "first");
  EXPECT_THAT(names(), ElementsAre("a"));
}

} // namespace
} // namespace saeta::ipc
