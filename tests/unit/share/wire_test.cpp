// Messages about shared memory, and connections that fail.
#include "share_test.hpp"
#include "support/child_process.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace saeta::sharing {
namespace {

using support::error_of;
using ::testing::HasSubstr;

constexpr share_token::id wire_key{std::byte{1}, std::byte{2}, std::byte{3}};

TEST(share_wire, requests_are_encoded_and_decoded) {
  for (const auto kind : {request_kind::pool, request_kind::open, request_kind::take, request_kind::post}) {
    const request_message made = encode(kind, wire_key);
    const std::optional<request> found = decode(made);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->kind, kind);
    EXPECT_EQ(found->key, wire_key);
    EXPECT_FALSE(is_end_of_lease(made));
    EXPECT_FALSE(decode(std::span(made).first(made.size() - 1)));
    for (std::size_t at = 0; at < 10; ++at) { // the magic and the version
      request_message wrong = made;
      wrong[at] ^= std::byte{1};
      EXPECT_FALSE(decode(wrong)) << at;
    }
  }
  EXPECT_TRUE(is_end_of_lease(encode(request_kind::end, {})));
  EXPECT_FALSE(decode(encode(request_kind::end, {}))) << "it has no reply";
  EXPECT_FALSE(decode(encode(static_cast<request_kind>(0), wire_key)));
  EXPECT_FALSE(decode(encode(static_cast<request_kind>(6), wire_key)));
  EXPECT_EQ(text_of(encode(request_kind::open, wire_key)).substr(0, 11), std::string("SAETAIPC\1\0\2", 11));
}

TEST(share_wire, connecting_to_a_full_queue_times_out) {
  const scoped_limits limits({.wait = std::chrono::milliseconds(50)});
  const listening_socket socket(0);
  const descriptor waiting = connect(socket.name);
  const error refused = error_of([&] { static_cast<void>(connect(socket.name)); });
  EXPECT_EQ(refused.code(), errc::exchange);
  EXPECT_THAT(refused.message(), HasSubstr("has not replied for 0.05 seconds"));
}

TEST(share_wire, a_process_that_does_not_reply_is_an_error) {
  const scoped_limits limits({.wait = std::chrono::milliseconds(50)});
  const listening_socket socket;
  const descriptor here = connect(socket.name);
  const error refused =
      error_of([&] { static_cast<void>(exchange(here.number(), request_kind::open, wire_key)); });
  EXPECT_EQ(refused.code(), errc::exchange);
  EXPECT_THAT(refused.message(), HasSubstr("has not replied for 0.05 seconds"));
}

TEST(share_wire, a_process_that_has_ended_is_an_error) {
  listening_socket socket;
  socket.close();
  const error refused = error_of([&] { static_cast<void>(connect(socket.name)); });
  EXPECT_EQ(refused.code(), errc::closed);
  EXPECT_THAT(refused.message(), HasSubstr("has ended, or it is in another container"));
  EXPECT_EQ(error_of([] { static_cast<void>(connect(std::string(200, 'x'))); }).error_number(), ENAMETOOLONG);
}

TEST(share_wire, each_kind_of_refusal_has_its_error) {
  const auto refused = [](char code) {
    return error_of([&] {
      const std::string reply = concat(code, "why");
      static_cast<void>(granted(std::as_bytes(std::span(reply))));
    });
  };
  EXPECT_EQ(refused(1).code(), errc::closed);
  EXPECT_EQ(refused(2).code(), errc::io);
  EXPECT_EQ(refused(2).error_number(), EACCES);
  EXPECT_EQ(refused(3).code(), errc::exchange);
  EXPECT_EQ(refused('x').code(), errc::exchange);
  EXPECT_EQ(refused(3).message(), "why");
  const error silent = error_of([] { static_cast<void>(granted({})); });
  EXPECT_EQ(silent.code(), errc::closed);
  EXPECT_THAT(silent.message(), HasSubstr("ended before it replied"));
}

/// Two ends of a connection.
class share_pair : public ::testing::Test {
protected:
  listening_socket socket_;
  descriptor here_ = connect(socket_.name);
  descriptor there_ = socket_.accepted();
};

TEST_F(share_pair, a_reply_is_read_although_the_connection_was_closed_with_an_unread_request) {
  say(here_.number(), "a request that nobody reads");
  say(there_.number(), std::string_view("\0a reply", 8));
  there_.close();
  const message replied = exchange(here_.number(), request_kind::open, wire_key);
  EXPECT_EQ(text_of(granted(replied.bytes)), "a reply");
}

TEST_F(share_pair, a_descriptor_that_comes_with_a_refusal_is_closed) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const std::string text = "no";
  ASSERT_TRUE(send_now(there_.number(), reply_code::failed, std::as_bytes(std::span(text)), ends[1]));
  ::close(ends[1]);
  {
    const message replied = exchange(here_.number(), request_kind::pool, wire_key);
    EXPECT_TRUE(replied.file.is_open());
    EXPECT_EQ(::fcntl(replied.file.number(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC)
        << "new programs don't get it";
    EXPECT_EQ(error_of([&] { static_cast<void>(granted(replied.bytes)); }).message(), "no");
  }
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "all copies of the other end are closed";
  ::close(ends[0]);
}

TEST_F(share_pair, the_system_closes_surplus_descriptors) {
  const std::size_t before = open_descriptors();
  std::array<int, 3> sent{there_.number(), there_.number(), there_.number()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof sent)> beside{};
  char content = 0;
  iovec part{&content, 1};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = beside.data();
  header.msg_controllen = beside.size();
  cmsghdr* const right = CMSG_FIRSTHDR(&header);
  right->cmsg_level = SOL_SOCKET;
  right->cmsg_type = SCM_RIGHTS;
  right->cmsg_len = CMSG_LEN(sizeof sent);
  std::memcpy(CMSG_DATA(right), sent.data(), sizeof sent);
  ASSERT_EQ(::sendmsg(there_.number(), &header, 0), 1);
  const message replied = exchange(here_.number(), request_kind::open, wire_key);
  EXPECT_TRUE(replied.file.is_open());
  EXPECT_EQ(open_descriptors(), before + 1);
}

TEST_F(share_pair, a_child_of_fork_closes_connections_and_files) {
  const descriptor file = descriptor::opened([] { return ::memfd_create("file", MFD_CLOEXEC); });
  const int number = file.number();
  support::expect_in_a_child([&] {
    EXPECT_EQ(here_.number(), -1);
    EXPECT_EQ(file.number(), -1);
    EXPECT_EQ(::fcntl(number, F_GETFD), -1);
    const descriptor own = descriptor::opened([] { return ::memfd_create("own", MFD_CLOEXEC); });
    EXPECT_TRUE(own.is_open());
  });
  EXPECT_EQ(message_at(there_.number()), "none") << "the connection of the parent stays";
  struct stat status {};
  EXPECT_EQ(::fstat(file.number(), &status), 0);
}

TEST_F(share_pair, descriptors_can_be_moved) {
  descriptor moved = std::move(here_);
  EXPECT_FALSE(here_.is_open());
  descriptor other = std::move(there_);
  moved = std::move(other);
  EXPECT_EQ(message_at(moved.number()), "") << "the one that it had before is closed";
  const descriptor none = descriptor::opened([] { return ::open("/nowhere", O_RDONLY); });
  EXPECT_FALSE(none.is_open());
  EXPECT_EQ(errno, ENOENT);
}

} // namespace
} // namespace saeta::sharing
