// Errors for paths that are not readable Arrow files; they tell what the path is instead.

#include "ipc_test.hpp"
#include "support/foreign_streams.hpp"
#include "support/without_privileges.hpp"

#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

namespace saeta::ipc {
namespace {

class bad_file : public ipc_test {
protected:
  void expect_format(const std::string& bytes, const std::string& text) const {
    store(file("bad"), bytes);
    EXPECT_ERROR(read(file("bad")), format, file("bad").string(), text);
    EXPECT_ERROR(inspect(file("bad")), format, file("bad").string(), text);
    EXPECT_ERROR(read_bytes(bytes), format, text);
  }
};

TEST_F(bad_file, a_missing_file_is_an_error_with_errno) {
  EXPECT_ERROR(read(file("missing")), io, file("missing").string(), "No such file or directory", "errno 2");
  EXPECT_ERROR(inspect(file("missing")), io, "No such file or directory");
}

TEST_F(bad_file, a_directory_is_refused) {
  EXPECT_ERROR(read(folder()), io, folder().string(), "Is a directory");
}

TEST_F(bad_file, a_pipe_is_refused_without_waiting_for_it) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_ERROR(read(file("pipe")), io, "not a regular file");
}

TEST_F(bad_file, an_unreadable_file_is_an_error_with_errno) {
  store(file("secret"), "ARROW1");
  std::filesystem::permissions(file("secret"), std::filesystem::perms::none);
  std::filesystem::permissions(folder(), std::filesystem::perms{0755});
  const support::without_privileges nobody;
  EXPECT_ERROR(read(file("secret")), io, "Permission denied");
}

TEST_F(bad_file, an_empty_file_has_its_own_message) {
  expect_format("", "empty");
  expect_format("PAR1 and more", "50 41 52 31");
  expect_format("ARR", "41 52 52");
  expect_format("A", "41");
  expect_format(std::string(100, '\0'), "not an Arrow file or stream");
}

TEST_F(bad_file, a_file_that_was_cut_off_is_reported_as_truncated) {
  const std::string whole = write_bytes(every_type());
  expect_format(whole.substr(0, 6), "truncated");
  expect_format(whole.substr(0, whole.size() / 2), "truncated");
  expect_format(whole.substr(0, whole.size() - 1), "truncated");
}

TEST_F(bad_file, a_footer_outside_of_the_file_is_refused) {
  std::string bytes = write_bytes(every_type());
  for (const std::int32_t size : {-1, 0, 7, 1 << 30, static_cast<std::int32_t>(bytes.size())}) {
    std::memcpy(bytes.data() + bytes.size() - 10, &size, sizeof size);
    expect_format(bytes, "footer");
  }
}

TEST_F(bad_file, a_stream_that_ends_in_a_body_names_the_batch) {
  const std::string whole = write_bytes(every_type(), {container::stream});
  EXPECT_ERROR(read_bytes(whole.substr(0, whole.size() - 50)), format, "bytes: batch 3");
}

TEST_F(bad_file, a_stream_that_ends_in_a_message_is_truncated_for_a_read_that_copies) {
  const std::string whole = write_bytes(every_type(), {container::stream});
  std::int32_t schema = 0;
  std::memcpy(&schema, whole.data() + 4, sizeof schema);
  const auto first = static_cast<std::size_t>(schema) + 8;
  const auto read_all = [&](std::size_t bytes) {
    return reader::open(std::as_bytes(std::span(whole).first(bytes)), nullptr, {.copy = copy_policy::always})
        ->read_all(ctx());
  };
  for (const std::size_t bytes : {first + 2, first + 6, first + 20}) {
    EXPECT_ERROR(read_all(bytes), format, "bytes: batch 0: a message of ",
                 concat("bytes at offset ", first, " of ", bytes, ": the stream is truncated"));
  }
  EXPECT_ERROR(read_all(whole.size() - 50), format, "bytes: batch 3: a body of ",
               concat(" of ", whole.size() - 50, ": the stream is truncated"));
}

TEST_F(bad_file, a_reader_that_failed_fails_again) {
  const std::string whole = write_bytes(every_type(), {container::stream});
  const std::string_view cut = std::string_view(whole).substr(0, whole.size() - 50);
  const auto reading = reader::open(std::as_bytes(std::span(cut)), nullptr);
  const error first = error_of([&] { static_cast<void>(reading->read_all(ctx())); });
  EXPECT_EQ(error_of([&] { static_cast<void>(reading->next(ctx())); }).message(), first.message());
  EXPECT_EQ(error_of([&] { static_cast<void>(reading->read_all(ctx())); }).message(), first.message());
}

} // namespace
} // namespace saeta::ipc
