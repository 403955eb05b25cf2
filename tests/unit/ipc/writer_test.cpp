// Writing files atomically: a file appears completely or not at all.

#include "ipc_test.hpp"
#include "saeta/base/report.hpp"
#include "saeta/ipc/io/atomic_file.hpp"
#include "support/interrupts.hpp"
#include "support/sanitizers.hpp"
#include "support/without_privileges.hpp"
#include "system_calls.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace saeta::ipc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Limits the size of files until the end of the scope, which simulates a full disk.
class file_size_limit {
public:
  explicit file_size_limit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lowered{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &lowered);
    signal_ = std::signal(SIGXFSZ, SIG_IGN); // if ignored, write fails with EFBIG
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

TEST_F(writing, a_full_disk_is_an_error_and_leaves_no_file) {
  const table original = every_type();
  const auto needed = write_bytes(original).size();
  for (const auto allowed : {std::size_t{0}, std::size_t{100}, needed / 2, needed - 1}) {
    const file_size_limit full(allowed);
    EXPECT_ERROR(write(original, file("out.arrow")), io, file("out.arrow").string(), "File too large");
    EXPECT_THAT(names(), IsEmpty());
  }
  EXPECT_EQ(write(original, file("out.arrow")), needed);
}

TEST_F(writing, a_failure_keeps_the_old_file) {
  store(file("kept.arrow"), "the old one");
  {
    const file_size_limit full(50);
    EXPECT_ERROR(write(every_type(), file("kept.arrow")), io, "File too large");
  }
  EXPECT_EQ(load(file("kept.arrow")), "the old one");
  EXPECT_THAT(names(), ElementsAre("kept.arrow"));
}

TEST_F(writing, a_progress_hook_that_throws_leaves_no_file) {
  const auto stop = [](const progress& so_far) {
    if (so_far.batches == 2) {
      throw error(errc::closed, "enough");
    }
  };
  EXPECT_ERROR(write(every_type(), file("out.arrow"), {}, stop), closed, "enough");
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(writing, a_missing_folder_is_an_error) {
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
  EXPECT_ERROR(write(every_type(), file("pipe")), io, "not a regular file");
  EXPECT_ERROR(write(every_type(), "/dev/full"), io, "/dev/full", "not a regular file");
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

TEST_F(writing, a_new_file_has_default_permissions) {
  const mode_t before = ::umask(027);
  write(every_type(), file("out.arrow"));
  ::umask(before);
  EXPECT_EQ(mode_of(file("out.arrow")), 0640U);
}

TEST_F(writing, a_replaced_file_keeps_permissions_and_owner) {
  const table original = every_type();
  store(file("a"), "old");
  for (const mode_t mode : {0600U, 0664U, 0751U}) {
    ASSERT_EQ(::chmod(file("a").c_str(), mode), 0);
    write(original, file("a"));
    EXPECT_EQ(mode_of(file("a")), mode);
  }
  if (::geteuid() != 0) {
    return; // only root may change the owner of a file
  }
  ASSERT_EQ(::chown(file("a").c_str(), 1234, 4321), 0);
  write(original, file("a"));
  struct stat status {};
  ASSERT_EQ(::stat(file("a").c_str(), &status), 0);
  EXPECT_EQ(std::pair(status.st_uid, status.st_gid), std::pair(1234U, 4321U));
  EXPECT_EQ(mode_of(file("a")), 0751U);
}

TEST_F(writing, permissions_are_reduced_if_the_owner_can_not_be_kept) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  const table original = every_type();
  std::filesystem::permissions(folder(), std::filesystem::perms::all);
  store(file("a"), "old");
  ASSERT_EQ(::chown(file("a").c_str(), 1234, 4321), 0);
  ASSERT_EQ(::chmod(file("a").c_str(), 04672), 0);
  {
    const support::without_privileges nobody;
    write(original, file("a"));
  }
  EXPECT_EQ(mode_of(file("a")), 0622U) << "no set-user-id, and the group has the rights of others";
}

TEST_F(writing, a_read_only_file_is_replaced_only_on_request) {
  const table original = every_type();
  store(file("a"), "old");
  ASSERT_EQ(::chmod(file("a").c_str(), 0444), 0);
  EXPECT_ERROR(write(original, file("a")), io, file("a").string(), "read-only", "replace_read_only",
               "Permission denied (errno 13)");
  EXPECT_EQ(load(file("a")), "old");
  write_options asked;
  asked.replace_read_only = true;
  EXPECT_GT(write(original, file("a"), asked), 0U);
  EXPECT_EQ(mode_of(file("a")), 0444U);
  EXPECT_TRUE(support::same_contents(read(file("a")), original));
}

TEST_F(writing, a_folder_that_can_not_be_searched_is_named) {
  const table source = every_type();
  std::filesystem::create_directory(file("closed"));
  std::filesystem::permissions(file("closed"), std::filesystem::perms{0600});
  std::filesystem::permissions(folder(), std::filesystem::perms::all);
  const support::without_privileges nobody;
  EXPECT_ERROR(write(source, file("closed/out.arrow")), io, file("closed/out.arrow").string(),
               "Permission denied (errno 13)");
}

TEST_F(writing, a_name_that_is_too_long_is_refused_before_anything_is_written) {
  std::size_t told = 0;
  const auto hook = [&](const progress&) { ++told; };
  EXPECT_ERROR(write(every_type(), file(std::string(300, 'x')), {}, hook), io,
               "File name too long (errno 36)");
  EXPECT_EQ(told, 0U);
}

TEST_F(writing, links_to_missing_files_are_followed_and_cycles_are_refused) {
  const table original = every_type();
  std::filesystem::create_directory(file("data"));
  std::filesystem::create_symlink("data/second", file("first"));
  std::filesystem::create_symlink(file("data/real"), file("data/second"));
  write(original, file("first"));
  EXPECT_TRUE(std::filesystem::is_symlink(file("first")));
  EXPECT_TRUE(std::filesystem::is_symlink(file("data/second")));
  EXPECT_TRUE(support::same_contents(read(file("data/real")), original));

  std::filesystem::create_symlink("circle", file("circle"));
  EXPECT_ERROR(write(original, file("circle")), io, "Too many levels of symbolic links");
}

TEST_F(writing, a_symbolic_link_is_not_replaced_but_its_target) {
  store(file("real.arrow"), "old");
  std::filesystem::create_symlink("real.arrow", file("link.arrow"));
  const table original = every_type();
  write(original, file("link.arrow"));
  EXPECT_TRUE(std::filesystem::is_symlink(file("link.arrow")));
  EXPECT_TRUE(support::same_contents(read(file("real.arrow")), original));
}

TEST_F(writing, a_relative_path_is_relative_to_the_working_folder) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder());
  write(every_type(), "bare.arrow");
  std::filesystem::current_path(before);
  EXPECT_THAT(names(), ElementsAre("bare.arrow"));
}

using atomic = writing;

TEST_F(atomic, a_file_appears_only_when_it_is_committed) {
  {
    detail::atomic_file abandoned(file("a"));
    ASSERT_EQ(::write(abandoned.descriptor(), "half", 4), 4);
    EXPECT_THAT(names(), IsEmpty()) << "so a process that is killed leaves nothing";
  }
  EXPECT_THAT(names(), IsEmpty());

  detail::atomic_file finished(file("a"));
  ASSERT_EQ(::write(finished.descriptor(), "whole", 5), 5);
  finished.commit();
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(load(file("a")), "whole");
}

TEST_F(atomic, without_unnamed_files_a_temporary_name_is_used) {
  const support::system_call_trap trap(support::system_call::open,
                                       support::refusing_nameless_files(folder()));
  {
    const detail::atomic_file abandoned(file("a"));
    ASSERT_EQ(names().size(), 1U);
    EXPECT_TRUE(names().front().starts_with(".saeta-") && names().front().ends_with(".tmp"));
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(atomic, temporary_files_of_killed_writers_are_removed) {
  store(file(".saeta-0123456789abcdef.tmp"), "of a writer that is gone");
  const std::vector<std::string> others{".saeta-.tmp", ".saeta-0123456789", ".saeta-notes.tmp",
                                        "saeta-12.tmp"};
  for (const std::string& name : others) {
    store(file(name), "of somebody else");
  }
  std::optional<detail::atomic_file> living;
  {
    const support::system_call_trap trap(support::system_call::open,
                                         support::refusing_nameless_files(folder()));
    living.emplace(file("a"));
  }
  ASSERT_EQ(names().size(), 5U) << "the stale one is gone";
  const support::system_call_trap trap(support::system_call::open,
                                       support::refusing_nameless_files(folder()));
  detail::atomic_file later(file("b"));
  EXPECT_EQ(names().size(), 6U) << "the first writer lives";
  later.commit();
  living->commit();
  living.reset();
  for (const std::string& name : others) {
    EXPECT_TRUE(std::filesystem::remove(file(name))) << name;
  }
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(atomic, a_failed_link_leaves_no_new_file) {
  store(file("a"), "the old one");
  for (const char* const target : {"a", "b"}) {
    const support::system_call_trap trap(support::system_call::linkat,
                                         [](std::size_t, const std::string&) { return ENOSPC; });
    EXPECT_ERROR(write(every_type(), file(target)), io, file(target).string(), "(errno 28)");
  }
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(load(file("a")), "the old one");
}

TEST_F(atomic, a_file_created_meanwhile_is_replaced) {
  const table source = every_type();
  const support::system_call_trap trap(support::system_call::linkat,
                                       [&](std::size_t number, const std::string&) {
                                         if (number == 0) {
                                           store(file("a"), "of another writer");
                                         }
                                         return 0;
                                       });
  write(source, file("a"));
  EXPECT_EQ(trap.calls(), 2U);
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_TRUE(support::same_contents(read(file("a")), source));
}

TEST_F(atomic, any_failed_write_keeps_the_old_file) {
  store(file("a"), "the old one");
  const table source = // writes of 4 MiB, and of many small parts
      support::random_table(ctx(), {data_type(type_id::int64)}, {.batch_rows = {1'500'000, 10, 200'000}});
  const auto before = support::open_files();
  std::size_t calls = 0;
  {
    const support::system_call_trap counting(support::system_call::pwritev,
                                             [](std::size_t, const std::string&) { return 0; });
    write(source, file("b"));
    calls = counting.calls();
  }
  ASSERT_GT(calls, 3U);
  std::filesystem::remove(file("b"));
  for (std::size_t full = 0; full < calls; ++full) {
    const support::system_call_trap trap(
        support::system_call::pwritev,
        [&](std::size_t number, const std::string&) { return number >= full ? ENOSPC : 0; });
    EXPECT_ERROR(write(source, file("a")), io, concat("can't write '", file("a").string()), "(errno 28)");
    EXPECT_EQ(load(file("a")), "the old one");
  }
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(support::open_files(), before);
}

TEST_F(atomic, interrupted_writes_are_continued) {
  const table source = every_type();
  const support::system_call_trap trap(
      support::system_call::pwritev,
      [](std::size_t number, const std::string&) { return number == 0 ? EINTR : 0; });
  write(source, file("a"));
  EXPECT_TRUE(support::same_contents(read(file("a")), source));
}

TEST_F(atomic, concurrent_writers_of_a_name_do_not_interfere) {
  detail::atomic_file first(file("a"));
  detail::atomic_file second(file("a"));
  ASSERT_EQ(::write(first.descriptor(), "first", 5), 5);
  ASSERT_EQ(::write(second.descriptor(), "second", 6), 6);
  second.commit();
  first.commit();
  EXPECT_EQ(load(file("a")), "first");
  EXPECT_THAT(names(), ElementsAre("a"));
}

/// Collects the reports until the end of the scope.
class heard_reports {
public:
  heard_reports() : before_(set_report_sink(&note)) { all().clear(); }
  heard_reports(const heard_reports&) = delete;
  heard_reports& operator=(const heard_reports&) = delete;
  ~heard_reports() { set_report_sink(before_); }

  static std::vector<std::string>& all() {
    static std::vector<std::string> reports;
    return reports;
  }

private:
  static void note(std::string_view label, std::string_view message) noexcept {
    all().push_back(concat(label, ": ", message));
  }
  report_sink before_;
};

TEST_F(atomic, commit_and_abandon_leave_no_report_and_no_open_file) {
  const heard_reports heard;
  const auto before = support::open_files();
  {
    detail::atomic_file finished(file("a"));
    finished.commit();
  }
  { const detail::atomic_file abandoned(file("b")); }
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(support::open_files(), before);
  EXPECT_THAT(heard.all(), IsEmpty());
}

TEST_F(atomic, a_missing_temporary_file_is_reported) {
  const heard_reports heard;
  {
    const support::system_call_trap trap(support::system_call::open,
                                         support::refusing_nameless_files(folder()));
    const detail::atomic_file target(file("a"));
    std::filesystem::remove(file(names().front()));
  }
  EXPECT_THAT(heard.all(), ElementsAre(::testing::AllOf(::testing::StartsWith("atomic_file: can't remove '"),
                                                        ::testing::HasSubstr("(errno 2)"))));
}

TEST_F(atomic, works_with_descriptor_0) {
  const support::without_standard_input closed;
  {
    const detail::atomic_file abandoned(file("a"));
    EXPECT_EQ(abandoned.descriptor(), 0);
  }
  EXPECT_EQ(::fcntl(0, F_GETFD), -1) << "closed again";
  EXPECT_GT(write(every_type(), file("a")), 0U);
}

TEST_F(atomic, a_limited_number_of_temporary_names_is_tried) {
  const auto taken = [this](std::size_t times) {
    return [times, tried = std::size_t{0}, this](std::size_t number, const std::string& path) mutable {
      if (number == 0 && path == folder()) {
        return EOPNOTSUPP;
      }
      return path.ends_with(".tmp") && tried++ < times ? EEXIST : 0;
    };
  };
  {
    const support::system_call_trap trap(support::system_call::open, taken(99));
    detail::atomic_file last_attempt(file("a"));
    EXPECT_EQ(trap.calls(), 101U);
    last_attempt.commit();
  }
  EXPECT_THAT(names(), ElementsAre("a"));
  const support::system_call_trap trap(support::system_call::open, taken(1000));
  EXPECT_ERROR(detail::atomic_file(file("b")), io, "can't create a file beside '", "File exists (errno 17)");
  EXPECT_EQ(trap.calls(), 101U);
  const support::system_call_trap no_link(support::system_call::linkat,
                                          [](std::size_t, const std::string&) { return EEXIST; });
  store(file("c"), "old");
  const support::system_call_trap nameless(support::system_call::open,
                                           [](std::size_t, const std::string&) { return 0; });
  EXPECT_ERROR(write(every_type(), file("c")), io, file("c").string(), "File exists (errno 17)");
  EXPECT_EQ(no_link.calls(), 100U);
}

TEST_F(atomic, the_file_is_synced_before_its_rename_and_the_folder_after_it) {
  const table source = every_type();
  const auto before = support::open_files();
  const auto synced_by = [&](const std::string& name, bool durable) {
    std::vector<std::string> synced;
    const support::system_call_trap trap(
        support::system_call::fsync, [&](std::size_t, const std::string& descriptor) {
          const auto open_on = std::filesystem::read_symlink("/proc/self/fd/" + descriptor);
          synced.push_back(concat(open_on == folder() ? "folder" : "file", ", ",
                                  load(file(name)).size() > 3 ? "named" : "not named"));
          return 0;
        });
    write_options options;
    options.durable = durable;
    write(source, file(name), options);
    return synced;
  };
  store(file("replaced"), "old");
  store(file("new"), "");
  std::filesystem::remove(file("new"));
  EXPECT_THAT(synced_by("replaced", true), ElementsAre("file, not named", "folder, named"));
  EXPECT_THAT(synced_by("replaced", false), IsEmpty());
  EXPECT_THAT(synced_by("new", true), ElementsAre("file, not named", "folder, named"));
  EXPECT_EQ(support::open_files(), before);
}

TEST_F(atomic, syncs_work_with_an_interrupt_hook) {
  std::atomic<int> looks{0};
  const auto before = support::open_files();
  {
    const support::interrupts hook([&] { ++looks; });
    const support::system_call_trap trap(support::system_call::fsync,
                                         [](std::size_t, const std::string&) { return 0; });
    write(every_type(), file("a"));
    EXPECT_EQ(trap.calls(), 2U);
    const support::system_call_trap failing(support::system_call::fsync,
                                            [](std::size_t, const std::string&) { return EIO; });
    EXPECT_ERROR(write(every_type(), file("b")), io, file("b").string(), "(errno 5)");
  }
  EXPECT_GT(looks, 0);
  EXPECT_EQ(support::open_files(), before);
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(atomic, a_failed_sync_leaves_no_new_file) {
  store(file("a"), "the old one");
  const support::system_call_trap trap(support::system_call::fsync,
                                       [](std::size_t, const std::string&) { return EIO; });
  EXPECT_ERROR(write(every_type(), file("a")), io, concat("can't write '", file("a").string()), "(errno 5)");
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(load(file("a")), "the old one");
}

TEST_F(atomic, a_failed_sync_of_the_folder_is_an_error_unless_unsupported) {
  const table source = every_type();
  const auto before = support::open_files();
  const auto write_with = [&](int failure) {
    const support::system_call_trap trap(
        support::system_call::fsync,
        [&](std::size_t number, const std::string&) { return number == 1 ? failure : 0; });
    write(source, file("a"));
  };
  write_with(EINVAL);
  write_with(ENOTSUP);
  EXPECT_ERROR((write_with(EIO), 0), io,
               concat("'", file("a").string(), "' is written and in place, but its folder can't be synced"),
               "(errno 5)");
  EXPECT_EQ(support::open_files(), before);
  EXPECT_TRUE(support::same_contents(read(file("a")), source));
}

TEST_F(atomic, a_folder_that_can_not_be_read_is_not_synced) {
  const table source = every_type();
  std::filesystem::permissions(folder(), std::filesystem::perms{0733});
  {
    const support::without_privileges nobody;
    EXPECT_GT(write(source, file("a")), 0U);
  }
  std::filesystem::permissions(folder(), std::filesystem::perms::owner_all);
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(atomic, a_failed_close_leaves_no_new_file) {
  const heard_reports heard;
  const auto before = support::open_files();
  for (const bool durable : {false, true}) {
    const support::system_call_trap trap(
        support::system_call::close,
        [](std::size_t number, const std::string&) { return number == 0 ? EIO : 0; });
    detail::atomic_file target(file("a"), {durable, false});
    EXPECT_ERROR((target.commit(), 0), io, concat("can't write '", file("a").string(), "': "), "(errno 5)");
  }
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(support::open_files(), before);
  EXPECT_THAT(heard.all(), IsEmpty());
}

TEST_F(atomic, an_abandoned_large_file_is_closed) {
  const auto closed = [](int descriptor) { return ::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF; };
  for (const off_t bytes : {off_t{1} << 20, off_t{65} << 20}) {
    for (const bool listening : {false, true}) {
      std::optional<support::interrupts> hook;
      if (listening) {
        hook.emplace([] {});
      }
      const int unwanted = ::open(file("a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      ASSERT_EQ(::ftruncate(unwanted, bytes), 0);
      detail::close_unused(unwanted);
      for (int tries = 0; !closed(unwanted) && tries < 2000; ++tries) { // a background thread may close it
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      EXPECT_TRUE(closed(unwanted)) << bytes << " bytes";
    }
  }
}

TEST_F(atomic, a_failed_rename_leaves_no_file) {
  {
    detail::atomic_file target(file("a")); // a directory with its name is created before the commit
    std::filesystem::create_directory(file("a"));
    EXPECT_ERROR((target.commit(), 0), io, concat("can't write '", file("a").string()), "Is a directory");
  }
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(writing, running_out_of_descriptors_is_an_error) {
#ifdef SAETA_ADDRESS_SANITIZER
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors to look at an object";
#endif
  const table source = every_type();
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(next);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit lowered{static_cast<rlim_t>(next) + 1, before.rlim_max}; // enough for the temporary file only
  ::setrlimit(RLIMIT_NOFILE, &lowered);
  const error refused = error_of([&] { write(source, file("a")); });
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(refused.message(),
            concat("can't write '", file("a").string(), "': Too many open files (errno 24)"));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(writing, a_batch_may_have_more_than_2_to_the_31_rows) {
  constexpr std::int64_t rows = 3'000'000'000;
  const data_type nothing(type_id::null);
  column::parts parts;
  parts.type = nothing;
  parts.length = rows;
  const table source = table::make(ctx(), {{{"nothing", nothing, true, {}}}, {}},
                                   {{rows, {column::make(ctx(), std::move(parts))}}});
  EXPECT_EQ(read_bytes(write_bytes(source)).rows(), rows);
}

} // namespace
} // namespace saeta::ipc
